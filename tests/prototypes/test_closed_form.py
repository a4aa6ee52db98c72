import numpy as np
import pytest

from protoreplay.prototypes.closed_form import ClosedFormHead, symmetric_whitening
from protoreplay.prototypes.covariance import SharedCovariance


def covariance(width=5):
    rows = np.random.default_rng(0).normal(size=(30, width)) * np.arange(1, width + 1)
    return SharedCovariance(np.zeros((0, width)), rows.T @ rows, 0.0, 30.0)


def test_scores_are_logarithms_of_densities_less_what_they_have_in_common():
    random = np.random.default_rng(1)
    means, x = random.normal(size=(3, 5)), random.normal(size=(7, 5))
    head = ClosedFormHead.of(means, covariance().inverse(0.5))
    scores = (x - head.centre) @ head.directions.T - head.offsets
    inverse = np.linalg.inv(covariance().dense / 30 + 0.5 * np.eye(5))
    apart = x[:, None] - means
    densities = -np.einsum("nkd,de,nke->nk", apart, inverse, apart) / 2
    np.testing.assert_allclose(scores - scores[:, :1], densities - densities[:, :1])


@pytest.mark.parametrize("kind", ["full", "diagonal", "identity"])
def test_whitening_is_symmetric_and_a_root_of_the_inverse(kind):
    whitening = symmetric_whitening(covariance(), 0.5, kind)
    np.testing.assert_allclose(whitening, whitening.T, atol=1e-12)
    np.testing.assert_allclose(whitening @ whitening, covariance().inverse(0.5, kind).times(np.eye(5)), atol=1e-12)
