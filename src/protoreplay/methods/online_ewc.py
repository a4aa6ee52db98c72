"""Online EWC: one quadratic term, of decaying Fisher information, around the latest weights."""

from pydantic import Field

from protoreplay.core.progress import StepCallback
from protoreplay.methods.ewc import FisherSettings, fisher_of_task
from protoreplay.methods.penalty import ImportanceRegulariser, Quadratic, weights
from protoreplay.streams.stream import Task


class OnlineEWCConfig(FisherSettings):
    """Settings of online EWC."""

    strength: float = Field(100.0, ge=0)
    """The penalty is `strength * sum of importance * (weight - weight after the task before) ** 2`
    (published for split-cifar10: 100)."""
    gamma: float = Field(1.0, ge=0, le=1)
    """After a task, importance becomes `gamma * importance + fisher` (Hsu et al. 2018: 1, nothing fades)."""


class OnlineEWC(ImportanceRegulariser[OnlineEWCConfig]):
    """Fine-tuning, with one quadratic term around the weights that the last task left: the network's own."""

    Config = OnlineEWCConfig
    summary = "online EWC, one term around the latest weights"

    def _learn(self, task: Task, on_step: StepCallback) -> None:
        """Train on the task's images with the penalty, then renew the importances."""
        penalty = Quadratic(self.importance, weights(self.network))
        self.fit_with(penalty, task, on_step)
        new = fisher_of_task(self, task)
        self.importance = {name: new[name].add_(old, alpha=self.config.gamma) for name, old in self.importance.items()}
