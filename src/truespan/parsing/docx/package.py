"""The package that a DOCX file is: parts in an archive, and the relationships between them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote

import lxml.etree as etree

from truespan.errors import SourceBroken, SourceUnsupported
from truespan.parsing.archive import Archive
from truespan.parsing.xml import local, parse_xml
from truespan.types.text import Figure, Image, PictureCounts, Properties

_FORMATS = "http://schemas.openxmlformats.org"
W = f"{{{_FORMATS}/wordprocessingml/2006/main}}"
R = f"{{{_FORMATS}/officeDocument/2006/relationships}}"
A = f"{{{_FORMATS}/drawingml/2006/main}}"
M = f"{{{_FORMATS}/officeDocument/2006/math}}"
WP = f"{{{_FORMATS}/drawingml/2006/wordprocessingDrawing}}"
PIC = f"{{{_FORMATS}/drawingml/2006/picture}}"
DIAGRAM = f"{{{_FORMATS}/drawingml/2006/diagram}}"
MC = f"{{{_FORMATS}/markup-compatibility/2006}}"
RELS = f"{{{_FORMATS}/package/2006/relationships}}"
V = "{urn:schemas-microsoft-com:vml}"
O = "{urn:schemas-microsoft-com:office:office}"  # noqa: E741 (the prefix that everybody uses)
SVG = "{http://schemas.microsoft.com/office/drawing/2016/SVG/main}"

VAL = f"{W}val"
P, PPR, R_RUN, RPR, T = f"{W}p", f"{W}pPr", f"{W}r", f"{W}rPr", f"{W}t"
TBL, TR, TC = f"{W}tbl", f"{W}tr", f"{W}tc"
SDT, SDT_PROPERTIES = f"{W}sdt", f"{W}sdtPr"
TEXT_BOX, ALTERNATIVES = f"{W}txbxContent", f"{MC}AlternateContent"
VANISH = f"{W}vanish"

DROPPED = frozenset({f"{W}{tag}" for tag in ("del", "moveFrom", "delText", "delInstrText")})
"""What an editor has deleted or moved away, while the change is still tracked."""
PROPERTIES = frozenset(
    {f"{W}{tag}" for tag in ("pPr", "rPr", "tblPr", "trPr", "tcPr", "sectPr", "sdtPr", "sdtEndPr")}
    | {f"{W}{tag}" for tag in ("tblGrid", "customXmlPr", "smartTagPr", "rubyPr")}
)
"""How something looks. Nothing in it is read."""

_WHOLE = re.compile(r"\s*([0-9]{1,9})\s*")
_OFF = frozenset({"0", "false", "off"})


_INTRICATE = (
    *(f"{W}{tag}" for tag in ("tab", "ptab", "br", "cr", "sym", "noBreakHyphen", "softHyphen")),
    *(f"{W}{tag}" for tag in ("fldChar", "instrText", "footnoteReference", "endnoteReference")),
    *(f"{W}{tag}" for tag in ("drawing", "pict", "object", "txbxContent", "rt", "vanish")),
    *(f"{W}{tag}" for tag in ("numPr", "outlineLvl")),
    *DROPPED,
    f"{M}oMath",
    ALTERNATIVES,
)


def intricate_paragraphs(root: etree._Element) -> frozenset[etree._Element]:
    """Return the paragraphs that hold more than text in a style.

    Most hold nothing else, and can be read several times faster when that is known. The parser
    knows which names occur in a document, so that to look for those that do not costs nothing.
    """
    return frozenset(
        paragraph for found in root.iter(*_INTRICATE) for paragraph in found.iterancestors(P)
    )


def only(element: etree._Element, tag: str) -> etree._Element | None:
    """Return the first child with this tag, or None."""
    return next(element.iterchildren(tag), None)


def value(element: etree._Element, tag: str) -> str | None:
    """Return the value of the first child with this tag; None without child or value."""
    child = only(element, tag)
    return None if child is None else child.get(VAL)


def whole(text: str | None, default: int | None = None) -> int | None:
    """Return a number that is not negative and of sensible length, else the default."""
    found = _WHOLE.fullmatch(text) if text else None
    return int(found[1]) if found else default


def switch(element: etree._Element, tag: str) -> bool | None:
    """Return whether a property is switched on; None where it is not named."""
    child = only(element, tag)
    return None if child is None else child.get(VAL) not in _OFF


def chosen(alternatives: etree._Element) -> Iterator[etree._Element]:
    """Give the one of several alternatives that is read, if there is one.

    It is the first choice that holds something to read: a program that writes a chart or a shape of
    a later kind adds a picture of it, or its text in an older form, as fallback.
    """
    choices = list(alternatives.iterchildren(f"{MC}Choice"))
    fallbacks = list(alternatives.iterchildren(f"{MC}Fallback"))
    for option in (*choices, *fallbacks):
        if next(option.iter(*_READABLE), None) is not None:
            yield option
            return


_READABLE = (
    f"{W}t",
    f"{A}blip",
    f"{A}t",
    f"{M}t",
    f"{V}imagedata",
    f"{DIAGRAM}relIds",
    *(f"{W}{tag}" for tag in ("tab", "br", "cr", "sym", "fldChar", "noBreakHyphen")),
    *(f"{W}{tag}" for tag in ("footnoteReference", "endnoteReference")),
)


_USUAL_MAIN_PART = "word/document.xml"
_STRICT = re.compile(
    rb"(?P<declares>xmlns(?::[\w.-]+)?\s*=\s*[\"'])http://purl\.oclc\.org/ooxml/"
    rb"(?P<first>\w+)/(?P<rest>\w+)(?=[\"'])"
)
_STRICT_MARK = b"purl.oclc.org/ooxml/"
_STRICT_AREA = 8192


class Relation(NamedTuple):
    """What a part refers to: its kind, and a member of the archive or an address outside."""

    kind: str
    target: str
    external: bool


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A part of the package that was read, with what it refers to by id."""

    member: str
    root: etree._Element
    relations: dict[str, Relation] = field(default_factory=dict)
    hides: bool = False
    """Whether anything in it may be hidden text."""
    intricate: frozenset[etree._Element] = frozenset()
    """The paragraphs in it that hold more than text in a style."""

    def related(self, kind: str) -> str | None:
        """Return the member that the first relation of this kind names, or None."""
        for relation in self.relations.values():
            if relation.kind == kind and not relation.external:
                return relation.target
        return None


class Package:
    """The parts of one file, found by their relationships and not by fixed names."""

    def __init__(self, name: str, archive: Archive) -> None:
        self.name, self.archive = name, archive
        self.left_out = 0
        """Parts with text that could not be read, and were passed over."""
        self._read: set[str] = set()
        self.relations = self._relations("")

    def main(self) -> Part:
        """Return the part with the text.

        Raises:
            SourceBroken: there is none.
            SourceUnsupported: it is of another kind, as that of a spreadsheet.
        """
        kinds = [found for found in self.relations.values() if found.kind == "officeDocument"]
        part = self.part(kinds[0].target if kinds else _USUAL_MAIN_PART)
        if part is None:
            raise SourceBroken(self.name)
        if part.root.tag != f"{W}document":
            raise SourceUnsupported(self.name)
        return part

    def part(self, member: str | None) -> Part | None:
        """Return the part of this name; None when the archive has none."""
        found = self.archive.find(member) if member else None
        content = self.archive.read(found) if found else None
        if found is None or content is None:
            return None
        self._read.add(found)
        root = parse_xml(self.name, _transitional(content))
        hides = next(root.iter(VANISH), None) is not None
        return Part(found, root, self._relations(found), hides, intricate_paragraphs(root))

    def unread_part(self, member: str) -> Part | None:
        """Return a part that nobody has read yet, so that none can hold itself or come twice.

        A broken one is counted and no reason to lose the text around it.
        """
        try:
            return None if self.archive.find(member) in self._read else self.part(member)
        except SourceBroken:
            self.left_out += 1
            return None

    def _relations(self, member: str) -> dict[str, Relation]:
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
            place = target if external else self._place(folder, target)
            relations.setdefault(element.get("Id", ""), Relation(kind, place, external))
        return relations

    def _place(self, folder: str, target: str) -> str:
        """Return the member that a relative or absolute reference names."""
        place = self.archive.find(_resolved(folder, target))
        # Percent signs are escapes by the rules, and letters of the name for some writers.
        return place or _resolved(folder, unquote(target))


def _resolved(folder: str, target: str) -> str:
    steps = [] if target.startswith("/") else folder.split("/")
    for step in target.partition("#")[0].split("/"):
        if step == "..":
            del steps[-1:]
        elif step not in ("", "."):
            steps.append(step)
    return "/".join(step for step in steps if step)


def _transitional(content: bytes) -> bytes:
    """Give the names of the strict form the namespaces of the transitional one."""
    if _STRICT_MARK not in content[:_STRICT_AREA]:
        return content
    new = rb"\g<declares>http://schemas.openxmlformats.org/\g<first>/2006/\g<rest>"
    return _STRICT.sub(new, content)


_USUAL_PART = "docProps/core.xml"
_BETWEEN_KEYWORDS = re.compile("[;,\n]")


def read_properties(package: Package, *, language: str | None) -> Properties:
    """Return the properties of a document; `language` is what counts where they name none.

    A part that cannot be parsed is left out: it is not what the document is read for.
    """
    part = _core(package)
    said = _texts(part.root) if part else {}
    return Properties(
        title=said.get("title"),
        authors=_split(said.get("creator", ""), re.compile(";")),
        language=said.get("language") or language,
        created=said.get("created"),
        modified=said.get("modified"),
        keywords=_split(said.get("keywords", ""), _BETWEEN_KEYWORDS),
        description=said.get("description"),
    )


def _core(package: Package) -> Part | None:
    named = (found for found in package.relations.values() if found.kind == "core-properties")
    relation = next(named, None)
    try:
        return package.part(relation.target if relation else _USUAL_PART)
    except SourceBroken:
        return None


def _texts(root: etree._Element) -> dict[str, str]:
    texts: dict[str, str] = {}
    for element in root:
        # Joined from all texts below, because some programs put several values into one element.
        text = " ".join(" ".join(element.itertext()).split())
        if text:
            texts.setdefault(local(element), text)
    return texts


def _split(text: str, between: re.Pattern[str]) -> tuple[str, ...]:
    parts = (part.strip() for part in between.split(text))
    return tuple(dict.fromkeys(part for part in parts if part))


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
