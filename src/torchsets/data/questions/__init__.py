"""Questions about scenes: CLEVR's from its files, and ours, generated."""

from torchsets.data.questions.columns import Question, QuestionBatch, Questions
from torchsets.data.questions.files import clevr_questions, read_questions, write_questions
from torchsets.data.questions.programs import ANSWERS, TYPES, Step, run_program

__all__ = [
    "ANSWERS",
    "TYPES",
    "Question",
    "QuestionBatch",
    "Questions",
    "Step",
    "clevr_questions",
    "read_questions",
    "run_program",
    "write_questions",
]
