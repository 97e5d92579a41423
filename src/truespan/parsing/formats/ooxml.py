"""Packages of Office Open XML: their parts, relationships, properties and pictures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from urllib.parse import unquote

import lxml.etree as etree
from msgspec import Struct, field

from truespan.errors import SourceRefused
from truespan.parsing.archive import Archive, resolve_path
from truespan.parsing.xml import local, parse_xml
from truespan.types.text import Figure, Image, PictureCounts, Properties

_FORMATS = "http://schemas.openxmlformats.org"
W = f"{{{_FORMATS}/wordprocessingml/2006/main}}"
R = f"{{{_FORMATS}/officeDocument/2006/relationships}}"
A = f"{{{_FORMATS}/drawingml/2006/main}}"
M = f"{{{_FORMATS}/officeDocument/2006/math}}"
PIC = f"{{{_FORMATS}/drawingml/2006/picture}}"
DIAGRAM = f"{{{_FORMATS}/drawingml/2006/diagram}}"
MC = f"{{{_FORMATS}/markup-compatibility/2006}}"
RELS = f"{{{_FORMATS}/package/2006/relationships}}"
V = "{urn:schemas-microsoft-com:vml}"
SVG = "{http://schemas.microsoft.com/office/drawing/2016/SVG/main}"

ALTERNATIVES = f"{MC}AlternateContent"
_WHOLE = re.compile(r"\s*([0-9]{1,9})\s*")
_READABLE = (
    *(f"{A}blip", f"{A}t", f"{M}t", f"{V}imagedata", f"{DIAGRAM}relIds"),
    *(f"{W}{tag}" for tag in ("t", "tab", "br", "cr", "sym", "fldChar", "noBreakHyphen")),
    *(f"{W}{tag}" for tag in ("footnoteReference", "endnoteReference")),
)


def first_child(element: etree._Element, tag: str) -> etree._Element | None:
    return next(element.iterchildren(tag), None)


def parse_count(text: str | None, default: int | None = None) -> int | None:
    """Parse a non-negative number of at most 9 digits, else return the default."""
    found = _WHOLE.fullmatch(text) if text else None
    return int(found[1]) if found else default


def select_alternative(alternatives: etree._Element, *readable: str) -> Iterator[etree._Element]:
    """Yield the first alternative with readable elements, if any; `readable` are further tags."""
    # A program that writes a newer kind of chart or shape adds a picture or older markup as
    # fallback.
    for kind in ("Choice", "Fallback"):
        for option in alternatives.iterchildren(f"{MC}{kind}"):
            if next(option.iter(*_READABLE, *readable), None) is not None:
                yield option
                return


_STRICT = re.compile(
    rb"(?P<declares>xmlns(?::[\w.-]+)?\s*=\s*[\"'])http://purl\.oclc\.org/ooxml/"
    rb"(?P<first>\w+)/(?P<rest>\w+)(?=[\"'])"
)
_TRANSITIONAL = rb"\g<declares>http://schemas.openxmlformats.org/\g<first>/2006/\g<rest>"
_STRICT_MARK = b"purl.oclc.org/ooxml/"
_STRICT_AREA = 8192


class Relation(NamedTuple):
    """A reference from a part to a member of the archive or to an external URL."""

    kind: str
    target: str
    external: bool


class Part(Struct, frozen=True, eq=False):
    """A parsed part of the package with its relationships by id."""

    member: str
    root: etree._Element
    relations: dict[str, Relation] = field(default_factory=dict)

    def target_of(self, reference: str) -> str | None:
        found = self.relations.get(reference)
        return None if found is None or found.external else found.target

    def find_related(self, kind: str) -> str | None:
        found = (r.target for r in self.relations.values() if r.kind == kind and not r.external)
        return next(found, None)


class OfficePackage:
    """The parts of a file, found by their relationships, not by fixed names."""

    def __init__(self, name: str, archive: Archive) -> None:
        self.name, self.archive = name, archive
        self.left_out = 0
        """Number of parts with text that could not be read."""
        self._read: set[str] = set()
        self.relations = self.relations_of("")

    def read_main(self, usual: str, tag: str) -> Part:
        """Read the main part; its root must have this tag."""
        kinds = [found for found in self.relations.values() if found.kind == "officeDocument"]
        part = self.read_part(kinds[0].target if kinds else usual)
        if part is None:
            raise SourceRefused("source_broken", self.name)
        if part.root.tag != tag:
            raise SourceRefused("source_unsupported", self.name)
        return part

    def read_part(self, member: str | None) -> Part | None:
        found = self.archive.find(member) if member else None
        content = self.archive.read(found) if found else None
        if found is None or content is None:
            return None
        self._read.add(found)
        if _STRICT_MARK in content[:_STRICT_AREA]:
            # Translate the namespaces of the strict format to the transitional format.
            content = _STRICT.sub(_TRANSITIONAL, content)
        return Part(found, parse_xml(self.name, content), self.relations_of(found))

    def read_new_part(self, member: str) -> Part | None:
        """Read a part unless it was read before, so that none contains itself or appears twice."""
        # A broken part is counted; the text around it is still used.
        try:
            return None if self.archive.find(member) in self._read else self.read_part(member)
        except SourceRefused as refused:
            refused.raise_unless("source_broken")
            self.left_out += 1
            return None

    def relations_of(self, member: str) -> dict[str, Relation]:
        """Return the relations of a part, or of the package itself, by id."""
        folder, _, file = member.rpartition("/")
        listed = self.archive.find(f"{folder}/_rels/{file}.rels".lstrip("/"))
        content = self.archive.read(listed) if listed else None
        if content is None:
            return {}
        relations: dict[str, Relation] = {}
        for element in parse_xml(self.name, content).iterchildren(f"{RELS}Relationship"):
            external = element.get("TargetMode") == "External"
            target = element.get("Target", "")
            kind = element.get("Type", "").rpartition("/")[2]
            if not external:
                target = target.partition("#")[0]
                place = self.archive.find(resolve_path(folder, target))
                # By the specification percent signs are escapes, but some programs do not escape.
                target = place or resolve_path(folder, unquote(target))
            relations.setdefault(element.get("Id", ""), Relation(kind, target, external))
        return relations


_USUAL_PROPERTIES = "docProps/core.xml"


def read_properties(package: OfficePackage, *, language: str | None) -> Properties:
    """Return the core properties; `language` is the default language."""
    kinds = {relation.kind: relation for relation in reversed(package.relations.values())}
    relation = kinds.get("core-properties")
    try:
        part = package.read_part(relation.target if relation else _USUAL_PROPERTIES)
    except SourceRefused as refused:
        refused.raise_unless("source_broken")
        part = None
    texts: dict[str, str] = {}
    for element in part.root if part else ():
        # Some programs put several values into one element.
        text = " ".join(" ".join(element.itertext()).split())
        if text:
            texts.setdefault(local(element), text)
    return Properties(
        title=texts.get("title"),
        authors=_split(texts.get("creator", ""), ";"),
        language=texts.get("language") or language,
        created=texts.get("created"),
        modified=texts.get("modified"),
        keywords=_split(texts.get("keywords", ""), "[;,\n]"),
        description=texts.get("description"),
    )


def _split(text: str, separators: str) -> tuple[str, ...]:
    parts = (part.strip() for part in re.split(separators, text))
    return tuple(dict.fromkeys(part for part in parts if part))


_EXTENSION = re.compile("[a-z0-9]{1,5}")
_SIGNATURES = {
    b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif", b"BM": "bmp", b"II*\0": "tiff",
    b"MM\0*": "tiff", b"\xd7\xcd\xc6\x9a": "wmf", b"\x01\0\0\0": "emf", b"<svg": "svg",
    b"<?xml": "svg",
}  # fmt: skip


def image_references(blip: etree._Element) -> list[str]:
    """Return the references of a picture to its images, the best first."""
    vector = next(blip.iter(f"{SVG}svgBlip"), None)
    references = [blip.get(f"{R}embed"), blip.get(f"{R}link")]
    if vector is not None:
        references.append(vector.get(f"{R}embed"))
    return [reference for reference in references if reference]


def alt_text(properties: etree._Element) -> str:
    return (properties.get("descr") or properties.get("title") or "").strip()


class Pictures(Struct):
    """Collected pictures. Their bytes are read only if `wanted`."""

    archive: Archive | None
    wanted: bool
    images: list[Image] = field(default_factory=list)
    _indexes: dict[str, int | None] = field(default_factory=dict)
    _places: int = 0
    _relations: int = 0
    _mapped: int = 0
    _missing: int = 0
    _outside: int = 0
    _damaged: int = 0

    def count_relations(self, part: Part) -> None:
        self._relations += sum(found.kind == "image" for found in part.relations.values())

    def refer(self, relation: Relation, alt: str) -> Figure:
        """Count a picture in a format where each place refers to the image directly."""
        self._relations += 1
        return self.place(relation, alt)

    def figure(self, part: Part, references: Iterable[str], alt: str) -> Figure:
        """Count a picture and return it as a figure, by the first known reference."""
        relations = (part.relations[name] for name in references if name in part.relations)
        return self.place(next(relations, None), alt)

    def place(self, relation: Relation | None, alt: str) -> Figure:
        """Count a picture with a relation, and return it as a figure."""
        self._places += 1
        if relation is None:
            return Figure(alt)
        self._mapped += 1
        if relation.external:
            self._outside += 1
            return Figure(alt, relation.target)
        member = self.archive.find(relation.target) if self.archive else None
        if self.archive is None or member is None:
            self._missing += 1
            return Figure(alt, relation.target)
        if self.wanted and member not in self._indexes:
            try:
                content = self.archive.read(member)
            except SourceRefused as refused:
                refused.raise_unless("source_broken", "source_unsupported")
                content = None
            self._damaged += content is None
            self._indexes[member] = None if content is None else len(self.images)
            if content is not None:
                self.images.append(Image(_find_extension(member, content), content))
        return Figure(alt, member, self._indexes.get(member))

    def counts(self) -> PictureCounts:
        return PictureCounts(self._places, self._relations, self._mapped, self._missing)

    def warnings(self) -> list[str]:
        reasons = (
            (self._outside, "linked from outside the file and not fetched"),
            (self._missing, "missing in the file"),
            (self._places - self._mapped, "without a file"),
            (self._damaged, "damaged and left out"),
        )
        return [f"Pictures {reason}: {count}." for count, reason in reasons if count]


def _find_extension(member: str, content: bytes) -> str:
    _, dot, extension = member.rpartition("/")[2].lower().rpartition(".")
    if dot and _EXTENSION.fullmatch(extension):
        return extension
    known = (known for mark, known in _SIGNATURES.items() if content.startswith(mark))
    return next(known, "bin")
