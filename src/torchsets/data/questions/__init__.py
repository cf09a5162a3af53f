"""Questions about scenes: CLEVR's from its files, and ours, generated."""

from torchsets.data.questions.columns import Question, QuestionBatch, Questions
from torchsets.data.questions.families import FAMILIES, Family
from torchsets.data.questions.files import clevr_questions, read_questions, write_questions
from torchsets.data.questions.generator import generate_questions
from torchsets.data.questions.programs import ANSWERS, TYPES, Step, run_program

__all__ = [
    "ANSWERS",
    "FAMILIES",
    "TYPES",
    "Family",
    "Question",
    "QuestionBatch",
    "Questions",
    "Step",
    "clevr_questions",
    "generate_questions",
    "read_questions",
    "run_program",
    "write_questions",
]
