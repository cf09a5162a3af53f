"""Estimators of sets with the conventions of scikit-learn, for lists of arrays."""

from torchsets._extras import import_extra

import_extra("sklearn", "estimators")  # or say which command installs it

from torchsets.estimators.classifier import SetClassifier  # noqa: E402
from torchsets.estimators.elements import ElementTransformer  # noqa: E402
from torchsets.estimators.encoder import SetEncoder  # noqa: E402
from torchsets.estimators.predictor import SetPredictor  # noqa: E402
from torchsets.estimators.regressor import SetRegressor  # noqa: E402
from torchsets.estimators.statistics import SetStatistics  # noqa: E402

__all__ = [
    "ElementTransformer",
    "SetClassifier",
    "SetEncoder",
    "SetPredictor",
    "SetRegressor",
    "SetStatistics",
]
