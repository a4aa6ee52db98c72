"""How a network is kept to the answers of another."""

from torch import Tensor
from torch.nn import functional


def soft_cross_entropy(scores: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Kullback-Leibler divergence from the teacher's softened probabilities, averaged over images.

    Its gradient is that of the cross-entropy with these probabilities, and shrinks with `temperature ** 2`.

    Args:
        scores: N x C.
        teacher: N x C; no gradient flows into it.
        temperature: divides both.
    """
    ours, theirs = (scores / temperature).log_softmax(1), (teacher.detach() / temperature).log_softmax(1)
    return functional.kl_div(ours, theirs, reduction="batchmean", log_target=True)
