"""The package that a DOCX file is: parts in an archive, and the relationships between them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote

import lxml.etree as etree

from truespan.errors import SourceBroken, SourceUnsupported
from truespan.ingest.load.archive import Archive
from truespan.ingest.load.docx.names import RELS, VANISH, W, intricate_paragraphs
from truespan.ingest.load.xml import parse_xml

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
