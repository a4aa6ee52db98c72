"""To take one photo out of a model, as if it had never been taught."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from protoreplay.core.errors import UserError
from protoreplay.photos.embedding import photo_key
from protoreplay.photos.photo_model import PhotoModel


class ForgottenPhoto(NamedTuple):
    """A photo that was taken out.

    Attributes:
        key: by which it was known.
        name: of its class.
        left: photos of that class now; with none, the class is gone too.
        exact: the model is the very one it would be had the photo never been taught; otherwise nothing of the photo is
            left in it either, but other photos of the class would be the ones that are kept singly.
    """

    key: int
    name: str
    left: int
    exact: bool

    def __str__(self) -> str:
        if not self.left:
            return f"forgot the only photo of '{self.name}', and with it the class"
        said = f"forgot one photo of '{self.name}', {self.left} left"
        return (
            said
            if self.exact
            else f"{said}; of so large a class, that is not to the last digit as if it had never been taught"
        )


def forget_photo(model: PhotoModel, photo: Path | bytes, name: str | None = None) -> tuple[PhotoModel, ForgottenPhoto]:
    """The model without a photo of the class `name`, or of the one class that was taught it."""
    key = photo_key(photo)
    shown = photo if isinstance(photo, Path) else "this photo"
    owners = [label for label, own in model.classes.items() if key in own.seen and name in (None, label)]
    if name is not None:
        model.find_class(name)
    if not owners:
        raise UserError(f"{shown} was not taught{f' as {name!r}' if name else ''}: give the very file that was")
    if len(owners) > 1:
        raise UserError(f"{shown} was taught as {' and as '.join(map(repr, sorted(owners)))}: name the class")
    (label,) = owners
    sums = model.classes[label].sums
    if key not in sums.keys:
        raise UserError(
            f"{shown} cannot be taken out of '{label}': of its {model.classes[label].count} photos {len(sums.keys)} "
            "are kept singly, and this is one of the others, which are only known together; forget the class and "
            "teach it again without the photo"
        )
    rest = model.without_photo(label, key)
    left = rest.classes[label].count if label in rest.classes else 0
    return rest, ForgottenPhoto(key, label, left, exact=not np.any(sums.others.weight))
