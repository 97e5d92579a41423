"""What a document says of itself as a whole, in the part that is meant for that."""

from __future__ import annotations

import re

import lxml.etree as etree

from truespan.errors import SourceBroken
from truespan.ingest.load.docx.package import Package, Part
from truespan.ingest.load.xml import local
from truespan.model.text import Properties

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
