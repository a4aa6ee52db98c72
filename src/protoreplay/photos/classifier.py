"""The photo classifier: teach classes from a few photos each, ask, teach on; it says when it does not know."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from protoreplay.core.errors import UserError
from protoreplay.encoders import pretrained as encoders
from protoreplay.photos import advice, modelfile
from protoreplay.photos.answers import Answer, answer, stacked
from protoreplay.photos.embedding import Embedded, Photo, Timings, embed
from protoreplay.photos.feature_cache import FeatureCache
from protoreplay.photos.model import Model, checked_names
from protoreplay.prototypes.sums import Concept, Floats

UNDO_STEPS = 20
Tell = Callable[[int], None]
Warned = advice.Collision | advice.Misplaced | str


@dataclass(frozen=True)
class Lesson:
    """Photos that were looked at, not yet learned; features by class."""

    photos: Mapping[str, Sequence[Embedded]]
    errors: Sequence[Embedded] = ()


@dataclass(frozen=True)
class TeachingReport:
    """What a lesson did.

    Attributes:
        learned: new photos by class.
        known: photos that had been learned before, by class; they are not counted twice.
        warnings: collisions of classes and photos in the wrong place.
        errors: photos that could not be read.
    """

    learned: Mapping[str, int]
    known: Mapping[str, int]
    warnings: Sequence[Warned] = ()
    errors: Sequence[Embedded] = field(default_factory=tuple)


class Classifier:
    """Named classes on a frozen encoder.

    `model` is the state, and immutable: a reader takes it once (`snapshot = classifier.model`) and answers from it
    while another thread teaches; one thread at a time may change the classifier.

    Args:
        encoder: a name of `protoreplay.encoders.pretrained.get`, or an encoder.
        unknown: share of photos of known classes that may be answered "I don't know"; 0 never says so.
        keep: thumbnails kept of each class.
        cache: whether features of photos are remembered on this machine.
    """

    def __init__(
        self,
        encoder: str | encoders.Encoder = encoders.DEFAULT,
        unknown: float = 0.05,
        keep: int = 0,
        cache: bool = True,
    ) -> None:
        """Know nothing."""
        self.encoder = encoders.get(encoder) if isinstance(encoder, str) else encoder
        self.cache = cache
        self.model = Model(self.encoder.name, self.encoder.fingerprint)
        self._past: list[Model] = []
        self.configure(unknown, keep)

    @classmethod
    def load(cls, path: str | Path, encoder: str | None = None, cache: bool = True) -> "Classifier":
        """The classifier of a file; `encoder` where it is an ONNX file that has moved."""
        model = modelfile.load(Path(path))
        classifier = cls(encoder or model.encoder, cache=cache)
        classifier.replace(model)
        return classifier

    def save(self, path: str | Path) -> None:
        """Write the file, whole or not at all."""
        modelfile.save(self.model, Path(path))

    def replace(self, model: Model, restart: bool = False) -> None:
        """Take another state, as read from a file; it must be of the same encoder, which may have moved.

        With `restart`, what was before can no longer be undone.
        """
        encoders.same(model.fingerprint, self.encoder.fingerprint, (model.encoder, self.encoder.name))
        self.model = replace(model, encoder=self.encoder.name) if model.encoder != self.encoder.name else model
        if restart:
            self._past = []

    def configure(self, unknown: float | None = None, keep: int | None = None) -> None:
        """Change what was given at the start."""
        if unknown is not None and not 0 <= unknown <= 0.5:
            raise UserError(f"unknown={unknown}: a share of photos from 0 (never refuse) to 0.5")
        if keep is not None and not 0 <= keep <= 1000:
            raise UserError(f"keep={keep}: 0 to 1000 thumbnails a class")
        unknown = self.model.unknown if unknown is None else unknown
        self.model = replace(self.model, unknown=unknown, keep=self.model.keep if keep is None else keep)

    def learn(self, photos: Mapping[str, Iterable[Photo]], tell: Tell = lambda done: None) -> TeachingReport:
        """Teach photos by class name; a known class is refined. `tell` hears how many photos are done."""
        return self.teach(self.study(photos, tell))

    def study(self, photos: Mapping[str, Iterable[Photo]], tell: Tell = lambda done: None) -> Lesson:
        """Look at photos without learning them: the slow part, which needs no lock."""
        names = checked_names(list(photos))
        owners: list[str] = []

        def all_photos() -> Iterator[Photo]:
            for name, some in zip(names, photos.values(), strict=True):
                for photo in some:
                    owners.append(name)
                    yield photo

        found: dict[str, list[Embedded]] = {name: [] for name in names}
        errors: list[Embedded] = []
        for number, one in enumerate(self.embed(all_photos(), thumbnails=self.model.keep > 0)):
            (errors if one.error else found[owners[number]]).append(one)
            tell(1)
        for name, some in found.items():
            if not some:
                raise UserError(f"class '{name}' has no readable photo: put some in or leave it out")
        return Lesson(found, errors)

    def teach(self, lesson: Lesson) -> TeachingReport:
        """Learn what was looked at."""
        fresh: dict[str, list[Embedded]] = {}
        known: dict[str, int] = {}
        warnings: list[Warned] = []
        for name, photos in lesson.photos.items():
            seen = set(self.model.concepts[name].seen.tolist()) if name in self.model.concepts else set()
            unique = {photo.key: photo for photo in photos}
            fresh[name] = [photo for key, photo in unique.items() if key not in seen]
            known[name] = len(photos) - len(fresh[name])
            warnings += self._taught_elsewhere(name, fresh[name])
        features = {name: stacked(photos) for name, photos in fresh.items() if photos}
        concepts = {name: self._concept(fresh[name], rows) for name, rows in features.items()}
        learned = {name: len(photos) for name, photos in fresh.items()}
        if not concepts:
            return TeachingReport(learned, known, warnings, lesson.errors)
        self._change(self.model.learn(concepts))
        taught = {name: ([photo.name for photo in fresh[name]], rows) for name, rows in features.items()}
        advised: list[Warned] = [*advice.collisions(self.model, list(concepts)), *advice.misplaced(self.model, taught)]
        return TeachingReport(learned, known, [*warnings, *advised], lesson.errors)

    def predict(self, photos: Iterable[Photo], top: int = 3, timings: Timings | None = None) -> Iterator[Answer]:
        """What each photo shows, in order, as a stream; all from the state at the call."""
        return answer(self.embed(photos, timings=timings, keys=False), self.model, top)

    def embed(
        self, photos: Iterable[Photo], thumbnails: bool = False, timings: Timings | None = None, keys: bool = True
    ) -> Iterator[Embedded]:
        """Features of photos, in order, as a stream."""
        if not self.cache:
            yield from embed(self.encoder, photos, None, thumbnails, timings, keys=keys)
            return
        with FeatureCache(self.encoder.fingerprint) as cache:
            for number, one in enumerate(embed(self.encoder, photos, cache, thumbnails, timings), 1):
                yield one
                if number % 512 == 0:
                    cache.flush()

    def forget(self, name: str, undoable: bool = False) -> None:
        """Remove every trace of a class: from the state, from what can be undone, and from the cache of features.

        With `undoable`, this process still holds it in memory, so that `undo` can bring it back.
        """
        concept = self.model.concept(name)
        self._change(self.model.forget(name))
        if not undoable:
            self._past = []
        with FeatureCache(self.encoder.fingerprint) as cache:
            cache.discard(int(key).to_bytes(8, "big") for key in concept.seen)

    def rename(self, old: str, new: str) -> None:
        """Give a class another name."""
        self._change(self.model.rename(old, new))

    def unite(self, name: str, into: str) -> None:
        """Make two classes one, of the second's name."""
        self._change(self.model.unite(name, into))

    def merge(self, other: "Classifier | Model") -> None:
        """Add all that another classifier of the same encoder has learned."""
        self._change(self.model.merge(other.model if isinstance(other, Classifier) else other))

    def undo(self) -> None:
        """Go back to the state before the last change in this process."""
        if not self._past:
            raise UserError("there is nothing to undo")
        # A shallow copy of this classifier keeps its own past.
        *self._past, self.model = self._past

    @property
    def undoable(self) -> int:
        """How many changes can be undone."""
        return len(self._past)

    def _change(self, model: Model) -> None:
        self._past = [*self._past[1 - UNDO_STEPS :], self.model]
        self.model = model

    def _taught_elsewhere(self, name: str, photos: Sequence[Embedded]) -> list[str]:
        keys = np.array([photo.key for photo in photos], np.uint64)
        warnings = []
        for other, concept in self.model.concepts.items():
            if other != name:
                again = np.isin(keys, concept.seen)
                both = (photo.name for photo, known in zip(photos, again, strict=True) if known)
                warnings += [f"{photo} was taught as '{other}' before" for photo in both]
        return warnings

    def _concept(self, photos: Sequence[Embedded], features: Floats) -> Concept:
        lowest = sorted(photos, key=lambda photo: photo.key)[: self.model.keep]
        return Concept.of(
            features, [photo.key for photo in photos], {p.key: p.thumbnail for p in lowest if p.thumbnail}
        )
