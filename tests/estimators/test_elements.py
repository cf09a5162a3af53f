import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from torchsets import Sets
from torchsets.estimators import ElementTransformer

SETS = [np.array([[1.0, 2], [3, 5]]), np.zeros((0, 2)), np.array([[4.0, 9]])]


def test_fits_on_all_elements_and_keeps_the_sizes():
    fitted = ElementTransformer(StandardScaler()).fit(SETS)
    expected = StandardScaler().fit_transform(np.concatenate(SETS))
    scaled = fitted.transform(SETS)
    assert scaled.sizes.tolist() == [2, 0, 1]
    assert scaled.values.numpy() == pytest.approx(expected, abs=1e-6)
    back = fitted.inverse_transform(scaled)
    assert back.values.numpy() == pytest.approx(np.concatenate(SETS), abs=1e-5)


def test_the_number_of_features_may_change():
    fitted = ElementTransformer(PCA(1)).fit(SETS)
    assert fitted.n_features_out_ == 1
    assert fitted.transform([np.zeros((0, 2))]).values.shape == (0, 1)
    assert fitted.inverse_transform([np.zeros((0, 1))]).values.shape == (0, 2)
    sparse = ElementTransformer(OneHotEncoder()).fit_transform(SETS)  # a sparse matrix inside
    assert sparse.values.shape == (3, 6)


def test_the_given_transformer_stays_unfitted_and_its_parameters_are_reached():
    outer = ElementTransformer(StandardScaler()).set_params(transformer__with_mean=False)
    fitted = outer.fit(SETS)
    assert not hasattr(outer.transformer, "scale_")
    assert fitted.transformer_.with_mean is False


def test_elements_are_needed():
    with pytest.raises(ValueError, match="X must hold at least one element, got empty sets only"):
        ElementTransformer(StandardScaler()).fit([np.zeros((0, 2))])


class Dropping(StandardScaler):
    def transform(self, X):
        return X[:0]


def test_rows_must_stay():
    with pytest.raises(ValueError, match="transformer must keep the number of rows"):
        ElementTransformer(Dropping()).fit(SETS)


def test_labels_and_keys_stay_with_their_sets():
    sets = Sets(torch.rand(5, 2), [2, 3], labels=["a", "b"], keys=[7, 9])
    moved = ElementTransformer(StandardScaler()).fit_transform(sets)
    assert moved.labels.tolist() == ["a", "b"]
    assert moved.keys.tolist() == [7, 9]
