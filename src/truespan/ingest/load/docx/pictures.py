"""Pictures: which member a reference leads to, what was found there, and how the search went."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import lxml.etree as etree

from truespan.errors import SourceBroken, SourceUnsupported
from truespan.ingest.load.archive import Archive
from truespan.ingest.load.docx.names import SVG, A, O, R
from truespan.ingest.load.docx.package import Part, Relation
from truespan.model.text import Figure, Image, PictureCounts

_ENDING = re.compile("[a-z0-9]{1,5}")
_UNKNOWN_ENDING = "bin"
_BEGINNINGS = (
    (b"\x89PNG", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF8", "gif"),
    (b"BM", "bmp"),
    (b"II*\0", "tiff"),
    (b"MM\0*", "tiff"),
    (b"\xd7\xcd\xc6\x9a", "wmf"),
    (b"\x01\0\0\0", "emf"),
    (b"<svg", "svg"),
    (b"<?xml", "svg"),
)


def references_of_blip(blip: etree._Element) -> list[str]:
    """Return the ids by which a DrawingML picture names its image, the best first."""
    vector = next(blip.iter(f"{SVG}svgBlip"), None)
    names = [blip.get(f"{R}embed"), blip.get(f"{R}link")]
    if vector is not None:
        names.append(vector.get(f"{R}embed"))
    return [name for name in names if name]


def references_of_vml(picture: etree._Element) -> list[str]:
    """Return the ids by which a VML picture names its image, the best first."""
    names = (picture.get(f"{R}id"), picture.get(f"{O}relid"), picture.get(f"{R}href"))
    return [name for name in names if name]


def text_of_shape(properties: etree._Element) -> str:
    """Return what a shape says in words about what it shows."""
    return (properties.get("descr") or properties.get("title") or "").strip()


BLIP = f"{A}blip"


@dataclass(slots=True)
class Pictures:
    """The pictures met so far. Their bytes are read only if they are wanted."""

    archive: Archive
    wanted: bool
    images: list[Image] = field(default_factory=list)
    _kept: dict[str, int | None] = field(default_factory=dict)
    _places: int = 0
    _relations: int = 0
    _mapped: int = 0
    _missing: int = 0
    _outside: int = 0
    _damaged: int = 0

    def count_relations(self, part: Part) -> None:
        """Count the images that a part refers to."""
        self._relations += sum(found.kind == "image" for found in part.relations.values())

    def figure(self, part: Part, references: Iterable[str], alt: str) -> Figure:
        """Return the figure that references of a part lead to."""
        self._places += 1
        known = (part.relations[name] for name in references if name in part.relations)
        relation = next(known, None)
        if relation is None:
            return Figure(alt)
        self._mapped += 1
        if relation.external:
            self._outside += 1
            return Figure(alt, relation.target)
        return self._archived(relation, alt)

    def counts(self) -> PictureCounts:
        """Return how the search went."""
        return PictureCounts(self._places, self._relations, self._mapped, self._missing)

    def warnings(self) -> list[str]:
        """Say which pictures could not be kept."""
        lost = self._places - self._mapped
        told = (
            (self._outside, "linked from outside the file and not fetched"),
            (self._missing, "named in the text and missing in the file"),
            (lost, "named in the text without saying where it is"),
            (self._damaged, "damaged and not kept"),
        )
        return [f"Pictures {reason}: {count}." for count, reason in told if count]

    def _archived(self, relation: Relation, alt: str) -> Figure:
        member = self.archive.find(relation.target)
        if member is None:
            self._missing += 1
            return Figure(alt, relation.target)
        return Figure(alt, member, self._image(member) if self.wanted else None)

    def _image(self, member: str) -> int | None:
        if member not in self._kept:
            self._kept[member] = self._read(member)
        return self._kept[member]

    def _read(self, member: str) -> int | None:
        """Keep an image; a damaged one is no reason to lose the text around it."""
        try:
            content = self.archive.read(member)
        except (SourceBroken, SourceUnsupported):
            content = None
        if content is None:
            self._damaged += 1
            return None
        self.images.append(Image(_ending(member, content), content))
        return len(self.images) - 1


def _ending(member: str, content: bytes) -> str:
    _, dot, ending = member.rpartition("/")[2].lower().rpartition(".")
    if dot and _ENDING.fullmatch(ending):
        return ending
    begins = (known for start, known in _BEGINNINGS if content.startswith(start))
    return next(begins, _UNKNOWN_ENDING)
