import pytest
import torch

from protoreplay.prototypes.whitening import DenseMatrix, DiagonalMatrix


def covariance(dim=6, seed=0):
    root = torch.randn(dim, 2 * dim, generator=torch.Generator().manual_seed(seed))
    return root @ root.T


def test_whitening_makes_a_covariance_with_its_ridge_the_identity():
    whole = covariance()
    layer, root = (matrix.values for matrix in DenseMatrix(whole).whitening(0.5))
    with_ridge = whole + 0.5 * whole.diagonal().mean() * torch.eye(6)
    torch.testing.assert_close(layer @ with_ridge @ layer.T, torch.eye(6), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(root @ root.T, whole, rtol=1e-4, atol=1e-4)


def test_a_diagonal_matrix_does_what_a_dense_one_with_zeros_does():
    random = torch.Generator().manual_seed(0)
    diagonal = DiagonalMatrix(torch.tensor([0.5, 1.0, 4.0]))
    dense, x = DenseMatrix(diagonal.dense()), torch.randn(4, 3, generator=random)
    pairs = [(diagonal, dense), *zip(diagonal.whitening(1.0), dense.whitening(1.0), strict=True)]
    pairs += [(diagonal / torch.tensor(3), dense / torch.tensor(3)), (diagonal.isotropic(), dense.isotropic())]
    for own, full in pairs:
        torch.testing.assert_close(own.dense(), full.dense())
        torch.testing.assert_close(own.diagonal(), full.diagonal())
        torch.testing.assert_close(own.times(x), full.times(x))
        torch.testing.assert_close(own.transposed_times(x), full.transposed_times(x))
    added = [matrix.plus_products(x, 0.5).diagonal() for matrix in (diagonal, dense)]
    torch.testing.assert_close(*added)


def test_a_matrix_and_its_transpose_are_told_apart():
    matrix, x = torch.randn(3, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([[1.0, 2.0, 3.0]])
    torch.testing.assert_close(DenseMatrix(matrix).times(x)[0], matrix @ x[0])
    torch.testing.assert_close(DenseMatrix(matrix).transposed_times(x)[0], matrix.T @ x[0])


@pytest.mark.parametrize(("kind", "shape"), [(DenseMatrix, (3, 3)), (DiagonalMatrix, (3,))])
def test_images_that_do_not_vary_leave_the_layer_finite(kind, shape):
    layer, root = kind(torch.zeros(shape)).whitening(1.0)
    torch.testing.assert_close(layer.dense(), torch.eye(3))
    assert not root.dense().any()
