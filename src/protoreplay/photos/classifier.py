"""The photo classifier: teach classes from a few photos each, ask, teach on; it says when it does not know."""

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from protoreplay.core.errors import UserError
from protoreplay.core.words import counted, printable
from protoreplay.encoders.pretrained import (
    DEFAULT_ENCODER,
    FrozenEncoder,
    check_same_encoder,
    is_built_in,
    open_encoder,
)
from protoreplay.photos import model_file
from protoreplay.photos.answers import Answer, stream_answers
from protoreplay.photos.embedding import EmbeddedPhoto, EmbeddingTimings, embed_photos
from protoreplay.photos.feature_cache import FeatureCache, discard_features
from protoreplay.photos.forget_photo import ForgottenPhoto, forget_photo
from protoreplay.photos.photo_inputs import Photos, each_photo
from protoreplay.photos.photo_model import PhotoModel
from protoreplay.photos.teaching import PreparedPhotos, TeachingReport, learn_prepared, prepare_photos
from protoreplay.photos.undo import UndoableModel

CountCallback = Callable[[int], None]


class Classifier:
    """Named classes on a frozen encoder: a variable that holds an immutable `model` and what was before it.

    A reader takes the model once (`model = classifier.model`) and answers from it while another thread teaches; one
    thread at a time may change the classifier.

    Args:
        encoder: a name of `protoreplay.encoders.pretrained.open_encoder`, or an encoder.
        unknown: share of photos of known classes that may be answered "I don't know"; 0 never says so.
        keep: thumbnails kept of each class.
        cache: whether features of photos are remembered on this machine.
    """

    def __init__(
        self, encoder: str | FrozenEncoder = DEFAULT_ENCODER, unknown: float = 0.05, keep: int = 0, cache: bool = True
    ) -> None:
        opened = open_encoder(encoder) if isinstance(encoder, str) else encoder
        self._encoder: FrozenEncoder | None = opened
        self.cache = cache
        empty = PhotoModel(opened.name, opened.fingerprint)
        self._state = UndoableModel(empty.configured(unknown, keep))

    @classmethod
    def load(cls, path: str | Path, encoder: str | None = None, cache: bool = True) -> "Classifier":
        """The classifier of a file.

        Args:
            path: of the file.
            encoder: its encoder, as it was given when the file was made, or where an ONNX file is now. What does not
                come with this package is opened only if it is named here: a file may come from anybody.
            cache: as above.
        """
        state = model_file.read_state(Path(path))
        if encoder is None and not is_built_in(state.model.encoder):
            classifier = cls.__new__(cls)
            classifier._encoder, classifier.cache, classifier._state = None, cache, state
        else:
            classifier = cls(encoder or state.model.encoder, cache=cache)
            classifier.replace(state)
        return classifier

    @property
    def encoder(self) -> FrozenEncoder:
        """What makes features of photos; a `UserError` where only the model's file named it."""
        if self._encoder is None:
            name = printable(self.model.encoder)
            raise UserError(
                f"the model was taught with the encoder {name}, which does not come with protoreplay: "
                f"if you trust it, name it, too: --encoder {name}"
            )
        return self._encoder

    @property
    def model(self) -> PhotoModel:
        """What is learned so far."""
        return self._state.model

    @property
    def state(self) -> UndoableModel:
        """The model with the steps that can be undone and redone."""
        return self._state

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in their order."""
        return tuple(sorted(self.model.classes))

    def __len__(self) -> int:
        return len(self.model.classes)

    def __bool__(self) -> bool:
        return True  # also while nothing is learned

    def __contains__(self, name: object) -> bool:
        return str(name) in self.model.classes

    def __repr__(self) -> str:
        known = [f"{name} ({own.count})" for name, own in sorted(self.model.classes.items())]
        shown = ", ".join([*known[:10], *(["..."] if len(known) > 10 else [])]) or "nothing is learned yet"
        return f"<Classifier on {self.model.encoder}, {counted(len(known), 'class', 'classes')}: {shown}>"

    @property
    def undoable(self) -> int:
        """How many changes can be undone."""
        return len(self._state.past)

    @property
    def redoable(self) -> int:
        """How many undone changes can be done again."""
        return len(self._state.future)

    def save(self, path: str | Path) -> None:
        """Write the file, whole or not at all, with the steps that can be undone."""
        model_file.write_model(self._state, Path(path))

    def replace(self, model: PhotoModel | UndoableModel) -> None:
        """Take another model, as read from a file; it must be of the same encoder, which may have moved.

        With its own past, if it has one; otherwise the past stays as it is.
        """
        state = model if isinstance(model, UndoableModel) else self._state.corrected_to(model)
        if self._encoder is None:
            check_same_encoder(self.model.fingerprint, state.model.fingerprint, (self.model.encoder,) * 2)
        self._state = state.on_encoder(self._encoder) if self._encoder else state

    def configure(self, unknown: float | None = None, keep: int | None = None) -> None:
        """Change what was given at the start."""
        self._state = self._state.corrected_to(self.model.configured(unknown, keep))

    def learn(self, photos: Mapping[str, Photos], tell: CountCallback = lambda done: None) -> TeachingReport:
        """Add photos to classes by name; a known class is refined. `tell` hears how many photos are done."""
        return self.learn_prepared(self.prepare(photos, tell))

    def prepare(self, photos: Mapping[str, Photos], tell: CountCallback = lambda done: None) -> PreparedPhotos:
        """Look at photos without learning them: the slow part, which needs no lock."""
        return prepare_photos(photos, functools.partial(self.embed, thumbnails=self.model.keep > 0), tell)

    def learn_prepared(self, prepared: PreparedPhotos) -> TeachingReport:
        """Learn what was prepared."""
        model, report = learn_prepared(self.model, prepared)
        self._state = self._state.changed_to(model)
        return report

    def predict(self, photos: Photos, top: int = 3, timings: EmbeddingTimings | None = None) -> Iterator[Answer]:
        """What each photo shows, in order, as a stream; all from the model at the call.

        Args:
            photos: one or many: paths of files or folders, bytes of files, pictures of Pillow's, arrays of pixels.
            top: how many of the likeliest classes to name in each answer, from 0.
            timings: added to.
        """
        if isinstance(top, bool) or not isinstance(top, int) or top < 0:
            raise UserError(f"top={top!r}: how many of the likeliest classes to name, a whole number from 0")
        return stream_answers(self.embed(photos, timings=timings, keys=False), self.model, top)

    def embed(
        self,
        photos: Photos,
        thumbnails: bool = False,
        timings: EmbeddingTimings | None = None,
        keys: bool = True,
    ) -> Iterator[EmbeddedPhoto]:
        """Features of photos, in order, as a stream."""
        stream = each_photo(photos)
        if not self.cache:
            yield from embed_photos(self.encoder, stream, None, thumbnails, timings, keys=keys)
            return
        with FeatureCache(self.encoder.fingerprint, width=self.encoder.width) as cache:
            for number, one in enumerate(embed_photos(self.encoder, stream, cache, thumbnails, timings), 1):
                yield one
                if number % 512 == 0:
                    cache.flush()

    def forget(self, name: str | int, undoable: bool = False) -> None:
        """Remove every trace of a class: from the model, from what can be undone, and from the cache of features.

        With `undoable`, this process still holds it in memory, so that `undo` can bring it back; what is saved then has
        no steps.
        """
        name = str(name)
        # First what may fail: a `UserError` where features stay in the cache has changed nothing here.
        discard_features(self.model.find_class(name).seen)
        state = self._state.changed_to(self.model.forget(name))
        self._state = state.kept_private() if undoable else state.without_past()

    def forget_photo(self, photo: Path | bytes, name: str | None = None) -> ForgottenPhoto:
        """Remove every trace of one photo, of the class `name` or whichever was taught it; nothing of it can be undone.

        The model answers as if the photo had never been taught. Of a class of more than 30 photos that is so only for
        those that are kept singly, and nearly so; of any other a `UserError` says that it cannot be taken out.
        """
        model, forgotten = forget_photo(self.model, photo, name)
        discard_features(np.array([forgotten.key], np.uint64))
        self._state = self._state.changed_to(model).without_past()
        return forgotten

    def rename(self, old: str | int, new: str | int) -> None:
        """Give a class another name."""
        self._state = self._state.changed_to(self.model.rename(str(old), new))

    def unite(self, name: str | int, into: str | int) -> None:
        """Make two classes one, of the second's name."""
        self._state = self._state.changed_to(self.model.unite(str(name), str(into)))

    def merge(self, other: "Classifier | PhotoModel") -> None:
        """Add all that another classifier of the same encoder has learned."""
        self._state = self._state.changed_to(self.model.merge(other.model if isinstance(other, Classifier) else other))

    def undo(self) -> None:
        """Go back to the model before the last change."""
        self._state = self._state.undone()

    def redo(self) -> None:
        """Do the change again that was undone last."""
        self._state = self._state.redone()
