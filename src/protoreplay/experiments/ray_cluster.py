"""The engine of a Ray cluster.

The driver, which is the process that was called, holds the locks and writes the results, whole, as they come in. A
node does a run in a temporary folder of its own and sends back its files; what a lost node was at is done again from
the start. Nodes need this package in the driver's versions; files of the user's, and what was registered in the
driver's session, come with the runs. Data comes from a node's own cache if that holds the same, and else once per node
through Ray's object store. Ray pickles what goes between the nodes: use a cluster whose members you trust; on disk
there is none of it.
"""

import contextlib
import functools
import math
import tempfile
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from protoreplay.core.errors import UserError
from protoreplay.core.ray_session import import_ray, ray_session
from protoreplay.core.registry import ForeignCode, foreign_code, install, is_in_file
from protoreplay.data.catalog import DATASETS
from protoreplay.data.images import Dataset, ImageSet
from protoreplay.experiments.grid_queue import LOOK_AGAIN_SECONDS, GridQueue, RunOutcome, failed_outcome
from protoreplay.experiments.run import execute
from protoreplay.experiments.run_code import code_of_run
from protoreplay.experiments.run_folder import RunBusyError, RunFolder
from protoreplay.experiments.run_messages import RunMessage, RunProgressSender, tell
from protoreplay.experiments.run_progress import RunProgress
from protoreplay.experiments.spec import RunSpec, installed_versions


@dataclass(frozen=True)
class Cluster:
    """An engine.

    Attributes:
        address: of a cluster as `ray.init` takes it; None starts one on this machine, closed to others.
        jobs: how many runs at a time the one started here has room for.
        cpus: of the cluster, for each run; a run computes with one thread.
        gpus: of the cluster, for each run.
    """

    address: str | None
    jobs: int
    cpus: float
    gpus: float

    def __post_init__(self) -> None:
        """Refuse at once what would fail later."""
        if self.cpus <= 0 and self.gpus <= 0:
            raise UserError("a run needs --cpus-per-run or --gpus-per-run above 0")
        import_ray()

    def __call__(self, queue: GridQueue) -> None:
        """Do all runs."""
        if not queue.left():
            return
        with ray_session(self.address, math.ceil(self.jobs * self.cpus)):
            if not self.slots():
                raise UserError(f"no node of the Ray cluster has {self.cpus:g} CPUs and {self.gpus:g} GPUs for a run")
            _Driver(queue, self).drive()

    def slots(self) -> int:
        """How many runs the cluster has room for; nodes come and go."""
        nodes = [node["Resources"] for node in import_ray().nodes() if node["Alive"]]
        return sum(
            min(
                int(node.get(kind, 0) // share) for kind, share in (("CPU", self.cpus), ("GPU", self.gpus)) if share > 0
            )
            for node in nodes
        )


@dataclass(frozen=True)
class _ShippedDataset:
    """A dataset for the nodes: its name, digests of the driver's file, and the arrays in Ray's object store.

    The reference stands in a list, because Ray fetches one that is an argument whether or not it is needed.
    """

    name: str
    digests: Mapping[str, str] | None
    arrays: list[Any]


@dataclass(frozen=True)
class _Flight:
    """A run that a node was asked to do; closing `lock` frees its folder."""

    number: int
    progress: RunProgress
    lock: contextlib.ExitStack


class _Driver:
    """Sends runs to the nodes and takes in what comes back."""

    def __init__(self, queue: GridQueue, cluster: Cluster) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self._queue, self._cluster, self._ray = queue, cluster, (ray := import_ray())
        self._flights: dict[Any, _Flight] = {}
        self._do = ray.remote(num_cpus=cluster.cpus, num_gpus=cluster.gpus, max_retries=0)(_do)
        # Beside the driver: nodes may be lost, and with a mailbox on one of them all would be silent. A soft affinity
        # is no more than a wish: Ray 2.60 gives such an actor to another node.
        beside = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self._mailbox = ray.remote(num_cpus=0, scheduling_strategy=beside)(_Mailbox).remote()
        self._letters = self._mailbox.empty.remote()
        self._data = functools.cache(self._ship)
        self._code = ray.put(foreign_code())

    def drive(self) -> None:
        """Until all is done."""
        try:
            while self._queue.left() or self._flights:
                while len(self._flights) < self._cluster.slots() and (number := self._queue.take()) is not None:
                    self._send(number)
                landed: list[Any] = []
                if self._flights:
                    landed, _ = self._ray.wait(list(self._flights), timeout=LOOK_AGAIN_SECONDS)
                else:
                    time.sleep(LOOK_AGAIN_SECONDS)
                self._hear()
                for flight in landed:
                    self._receive(flight)
        finally:
            for flight in self._flights.values():
                flight.lock.close()

    def _send(self, number: int) -> None:
        spec, folder, lock = self._queue.specs[number], self._queue.folder(number), contextlib.ExitStack()
        try:
            lock.enter_context(folder.locked())
        except RunBusyError:
            self._queue.settle(number, RunOutcome("busy"))
            return
        if spec.done_in(folder):  # by another process, between our look at it and our lock
            folder.clean()
            lock.close()
            self._queue.settle(number, RunOutcome("finished"))
            return
        data = self._data(spec.stream_settings.image_size)
        order = _ClusterOrder(number, spec.to_plain(), self._queue.log, installed_versions(), data)
        going = self._do.remote(order, self._code, self._mailbox)
        self._flights[going] = _Flight(number, self._queue.progress.run(), lock)

    def _receive(self, landed: Any) -> None:
        flight = self._flights.pop(landed)
        folder = self._queue.folder(flight.number)
        outcome, error = RunOutcome("finished"), ""
        with flight.lock:
            flight.progress.end()
            try:
                self._take(folder, self._ray.get(landed))
            except self._ray.exceptions.RayTaskError as raised:
                outcome, error = failed_outcome(raised.cause), str(raised)
            except self._ray.exceptions.RayError as raised:
                outcome = RunOutcome("lost", f" ({type(raised).__name__})")
        if error:
            folder.fail(error)
        self._queue.settle(flight.number, outcome)

    def _take(self, folder: RunFolder, contents: Mapping[str, bytes]) -> None:
        """The files of a run; where it was finished before, the old ones are there until the new ones are."""
        if not folder.finished():
            folder.adopt(contents)
            return
        with folder.redone().locked():
            folder.redone().adopt(contents)
        folder.take_redone()

    def _hear(self) -> None:
        """Show what the nodes have told; that a mailbox is silent, or was lost with its node, is no reason to stop."""
        if not self._ray.wait([self._letters], timeout=0)[0]:
            return
        shown = {flight.number: flight.progress for flight in self._flights.values()}
        with contextlib.suppress(self._ray.exceptions.RayError):
            for letter in self._ray.get(self._letters):
                if letter.number in shown:
                    tell(shown[letter.number], letter.message)
        self._letters = self._mailbox.empty.remote()

    def _ship(self, size: int) -> _ShippedDataset | None:
        """What a node may need of the data at a size; nothing where it has the driver's own, or makes it itself."""
        name = self._queue.specs[0].protocol.data
        entry = self._queue.specs[0].protocol.dataset
        of_the_user = is_in_file(name) or name in DATASETS.session() or name not in DATASETS
        if not of_the_user and (entry.file is None or self._cluster.address is None):
            return None
        dataset = entry.load(size)
        parts = (dataset.train, dataset.test)
        arrays = [(part.images.numpy(), part.labels.numpy(), part.class_names) for part in parts]
        digests = None if entry.file is None else entry.file.read().digests
        return _ShippedDataset(name, digests, [self._ray.put((dataset.name, arrays))])


@dataclass(frozen=True)
class _Letter:
    """What a node tells of a run."""

    number: int
    message: RunMessage


class _Mailbox:
    """Where the nodes leave what they have to tell of their runs."""

    def __init__(self) -> None:
        self._letters: list[_Letter] = []

    def put(self, letter: _Letter) -> None:
        self._letters.append(letter)

    def empty(self) -> list[_Letter]:
        letters, self._letters = self._letters, []
        return letters


@dataclass(frozen=True)
class _ClusterOrder:
    """A run for a node to do.

    Attributes:
        number: of the run in the driver's queue.
        spec: what `RunSpec.to_plain` says of it.
        log: for `execute`.
        versions: of what the driver has installed.
        data: sent to nodes that do not have it.
    """

    number: int
    spec: dict[str, Any]
    log: str | None
    versions: Mapping[str, str]
    data: _ShippedDataset | None


def _do(order: _ClusterOrder, code: ForeignCode, mailbox: Any) -> dict[str, bytes]:
    """What a node does: the run, in a temporary folder; returns the run's files."""
    for name, version in installed_versions().items():
        if version != order.versions[name]:
            raise UserError(
                f"a node has {name} {version}, the driver {order.versions[name]}: install the same everywhere"
            )
    install(code)
    data = order.data
    if data is not None and not _has(data.name, tuple(sorted((data.digests or {}).items()))):
        DATASETS.register(data.name, _unpack(data))
    spec = RunSpec.from_plain(order.spec)
    for part, here in code_of_run(spec.protocol, spec.method, spec.method_settings, bool(spec.encoder)).items():
        if here.roots and spec.code[part].roots == here.roots and spec.code[part].digest != here.digest:
            raise UserError(f"a node has another source of the {part} than the driver: install the same everywhere")
    sender = RunProgressSender(lambda message: mailbox.put.remote(_Letter(order.number, message)))
    with tempfile.TemporaryDirectory(prefix="protoreplay-") as place:
        folder = RunFolder(Path(place) / "run")
        execute(spec, folder.path, sender, order.log)
        return folder.contents()


@functools.cache
def _has(name: str, digests: tuple[tuple[str, str], ...]) -> bool:
    """Whether the cache of this node has the dataset with these digests, whole."""
    if name not in DATASETS or (file := DATASETS.get(name).file) is None or not digests:
        return False
    try:
        return file.read().digests == dict(digests) and bool(file.verify())
    except UserError:
        return False


def _unpack(data: _ShippedDataset) -> Dataset:
    """The driver's dataset; its arrays lie in memory that all processes of the node share."""
    name, arrays = import_ray().get(data.arrays[0])
    with warnings.catch_warnings():
        # They cannot be written to, and no method writes to what it is given.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        train, test = (
            ImageSet(torch.from_numpy(images), torch.from_numpy(labels), names) for images, labels, names in arrays
        )
    return Dataset(name, train, test)
