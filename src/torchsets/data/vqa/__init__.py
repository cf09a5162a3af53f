"""Visual question answering: the files of VQA v2 and of bottom-up attention."""

from torchsets.data.vqa.feature_files import build_features
from torchsets.data.vqa.features import FeatureStore, PictureBatch, load_features
from torchsets.data.vqa.files import (
    ANSWER_TYPES,
    PEOPLE,
    PairPlaces,
    VQAAnswers,
    VQAQuestions,
    pair_places,
    read_pairs,
    read_vqa_questions,
    vqa_pairs,
    vqa_questions,
    write_vqa_results,
)
from torchsets.data.vqa.pictures import vqa_pictures
from torchsets.data.vqa.rules import (
    ban_normalise_answer,
    ban_question_words,
    normalise_answer,
    question_words,
)
from torchsets.data.vqa.synthetic import SyntheticVQA, synthetic_vqa
from torchsets.data.vqa.tsv import Picture, write_tsv
from torchsets.data.vqa.vocabularies import (
    answer_classes,
    answer_counts,
    ban_answers,
    encode_questions,
    frequent_answers,
    frequent_words,
)
from torchsets.data.vqa.writing import write_vqa

__all__ = [
    "ANSWER_TYPES",
    "PEOPLE",
    "FeatureStore",
    "PairPlaces",
    "Picture",
    "PictureBatch",
    "SyntheticVQA",
    "VQAAnswers",
    "VQAQuestions",
    "answer_classes",
    "answer_counts",
    "ban_answers",
    "ban_normalise_answer",
    "ban_question_words",
    "build_features",
    "encode_questions",
    "frequent_answers",
    "frequent_words",
    "load_features",
    "normalise_answer",
    "pair_places",
    "question_words",
    "read_pairs",
    "read_vqa_questions",
    "synthetic_vqa",
    "vqa_pairs",
    "vqa_pictures",
    "vqa_questions",
    "write_tsv",
    "write_vqa",
    "write_vqa_results",
]
