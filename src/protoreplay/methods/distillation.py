"""How a network is kept to the answers of another."""

from torch import Tensor
from torch.nn import functional


def soft_cross_entropy(scores: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Kullback-Leibler divergence from the teacher's softened probabilities, averaged over images.

    Times `temperature ** 2`, so that its gradient does not shrink as the temperature grows (Hinton et al. 2015).

    Args:
        scores: N x C.
        teacher: N x C; no gradient flows into it.
        temperature: divides both.
    """
    ours, theirs = (scores / temperature).log_softmax(1), (teacher.detach() / temperature).log_softmax(1)
    return temperature**2 * functional.kl_div(ours, theirs, reduction="batchmean", log_target=True)
