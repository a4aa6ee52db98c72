"""Why a photo is answered as it is: which parts of it speak for the answer, and which taught photos are like it.

The features are an average over places of the photo, and the score of a class follows from them by a root, a division
by their length and one product: no class activation map of a linear head would be true of that. So each place is left
out of the average in turn, everything behind the average is computed again, and what the place adds is what the score
loses. Nothing is made linear and no gradient is needed. What is shown is the lead of the answer over the next class.
"""

import functools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from protoreplay.encoders.feature_maps import CutEncoder
from protoreplay.encoders.pretrained import FrozenEncoder
from protoreplay.photos.answers import Answer, answer_batch, stacked_features
from protoreplay.photos.embedding import EmbeddedPhoto
from protoreplay.photos.photo_model import PhotoModel
from protoreplay.prototypes.sums import rooted


class KeptPhoto(NamedTuple):
    """A taught photo of which the model keeps the features.

    Attributes:
        label: its class.
        key: by which the model knows it.
        likeness: of its features, from -1 to 1 for the same ones.
        thumbnail: JPEG; empty where none is kept.
    """

    label: str
    key: int
    likeness: float
    thumbnail: bytes

    def __str__(self) -> str:
        return f"{self.label} (photo {self.key >> 32:08x}), likeness {self.likeness:.2f}"


@dataclass(frozen=True)
class Explanation:
    """Why a photo is answered as it is.

    Attributes:
        answer: what the model says; `choices` has the answer and the next class.
        pixels: uint8, 3 x S x S: the part of the photo that the encoder looks at.
        lead: H x W: by how much each place moves the lead of the answer over the next class; of the only class, its
            score. Without a place above 0 the lead would be smaller, without one below 0 larger; a place like the
            average of all has 0, so that they add up to about nothing.
        nearest: the kept photos most like this one, of any class.
    """

    answer: Answer
    pixels: npt.NDArray[np.uint8]
    lead: npt.NDArray[np.float64]
    nearest: tuple[KeptPhoto, ...]

    def strongest_place(self) -> str:
        """In words: where the place lies that speaks most for the answer."""
        rows, columns = self.lead.shape
        row, column = np.unravel_index(int(self.lead.argmax()), self.lead.shape)
        across = ("left", "middle", "right")[int(3 * column // columns)]
        down = ("upper", "middle", "lower")[int(3 * row // rows)]
        return "the middle" if (down, across) == ("middle", "middle") else f"the {down} {across}"


def explain_photo(
    model: PhotoModel, encoder: FrozenEncoder, pixels: npt.NDArray[np.uint8], name: str, nearest: int = 5
) -> Explanation:
    """Why `pixels`, uint8, 3 x size x size, are answered as they are; `name` is what the photo is called."""
    cut = _cut_encoder(encoder)
    maps, average = cut.maps(pixels)
    photo = EmbeddedPhoto(name, features=cut.features(average[None])[0])
    (answer,) = answer_batch([photo], model, top=2)
    places = maps.reshape(len(maps), -1).T
    count = len(places)
    without = (count * average.reshape(1, -1) - places) / max(count - 1, 1)
    scores, _ = model.head.scores(rooted(cut.features(without.reshape(count, *average.shape).astype(np.float32))))
    own, _ = model.head.scores(stacked_features([photo]))
    change = (own - scores).astype(np.float64)
    best, *others = (model.head.names.index(choice.label) for choice in answer.choices)
    lead = change[:, best] - (change[:, others[0]] if others else 0.0)
    return Explanation(answer, pixels, lead.reshape(maps.shape[1:]), nearest_photos(photo, model, nearest))


@functools.lru_cache(maxsize=1)
def _cut_encoder(encoder: FrozenEncoder) -> CutEncoder:
    """Kept, because cutting takes longer than explaining."""
    return CutEncoder(encoder)


def nearest_photos(photo: EmbeddedPhoto, model: PhotoModel, count: int) -> tuple[KeptPhoto, ...]:
    """The kept photos most like a photo, most alike first."""
    (features,) = stacked_features([photo])
    found = []
    for label, own in model.classes.items():
        likeness = own.sums.rows.astype(np.float64) @ features
        for place in np.argsort(-likeness, kind="stable")[:count]:
            key = int(own.sums.keys[place])
            found.append(KeptPhoto(label, key, float(likeness[place]), own.thumbnails.get(key, b"")))
    return tuple(sorted(found, key=lambda kept: (-kept.likeness, kept.label))[:count])
