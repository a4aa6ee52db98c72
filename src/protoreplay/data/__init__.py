"""Where images come from."""

from protoreplay.data.images import Dataset, ImageSet

__all__ = ["Dataset", "ImageSet"]
