"""Figures: what is done with pictures, and how one is known once its document is taken in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from truespan.types.ids import TextHash

_IMAGE_REF = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,127})/(img_[0-9]{3,9}\.([a-z0-9]{1,5}))")


class ImageFile(NamedTuple):
    """Where an image lies: the document it is of, the name of its file, and that name's ending."""

    doc_id: str
    name: str
    extension: str


@dataclass(frozen=True, slots=True)
class FigureFlags:
    """What is done with pictures. All off: the text is what it would be without any."""

    extract_images: bool = False
    """Write their bytes below the folder for assets."""
    placeholders: bool = False
    """Put a marker at the place of each into the text."""
    chunks: bool = False
    """Make a chunk of a description of each."""
    debug: bool = False
    """Log a line for each."""

    @property
    def any(self) -> bool:
        """Say whether pictures leave a trace at all."""
        return self.extract_images or self.placeholders or self.chunks


@dataclass(frozen=True, slots=True)
class ParentChunk:
    """The text chunk in which a figure stands, as far as its id is made from it."""

    index: int
    start: int
    first_sid: int
    last_sid: int
    text_hash: TextHash


@dataclass(frozen=True, slots=True)
class FigureRecord:
    """A figure of a revision. `offset` is its place in the canonical text.

    `description` is what its chunk holds. `image_ref` is relative to the folder for assets, and
    None when no image was kept.
    """

    number: int
    figure_id: str
    offset: int
    image_ref: str | None
    description: str
    first_sid: int
    last_sid: int
    reach: int
    parent: ParentChunk | None
    between: bool = False
    own_reach: int | None = None
    """The reach without that of the chunk it stands in."""


def figure_id_of(doc_id: str, number: int) -> str:
    """Return the id of a document's figure; figures count from 1 in reading order."""
    return f"{doc_id}-fig-{number:03d}"


def image_name(number: int, extension: str) -> str:
    """Return the name of the file that an image is kept in; images count from 1."""
    return f"img_{number:03d}.{extension}"


def image_file(image_ref: str) -> ImageFile | None:
    """Return what a reference to an image names; None for anything that could not be one."""
    found = _IMAGE_REF.fullmatch(image_ref)
    return ImageFile(*found.groups()) if found and ".." not in image_ref else None


def marker(figure_id: str) -> str:
    """Return what stands in the text at a figure's place."""
    return f"[FIGURE:{figure_id}]"
