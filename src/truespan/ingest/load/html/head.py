"""What a page says of itself as a whole: its title, and the properties in its `meta` elements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from truespan.model.text import Properties

_AUTHORS = ("author", "dc.creator", "dcterms.creator", "citation_author", "article:author")
_CREATED = (
    "article:published_time",
    "dcterms.created",
    "dcterms.issued",
    "dc.date.issued",
    "dc.date",
    "dcterms.date",
    "citation_publication_date",
    "datepublished",
    "date",
)
_MODIFIED = (
    "article:modified_time",
    "og:updated_time",
    "dcterms.modified",
    "dc.date.modified",
    "datemodified",
    "last-modified",
)
_KEYWORDS = ("keywords", "dc.subject", "dcterms.subject", "article:tag", "citation_keywords")
_DESCRIPTION = ("description", "og:description", "dc.description", "dcterms.description")
_PUBLISHER = ("dc.publisher", "dcterms.publisher", "citation_publisher", "og:site_name")
_TITLE = ("og:title", "dc.title", "dcterms.title", "citation_title")
_LANGUAGE = ("dc.language", "dcterms.language", "content-language")
_LONGEST = 2000
_MOST = 100


@dataclass(slots=True)
class Head:
    """What has been read of it so far. The first of several values is the one that counts."""

    title: str | None = None
    language: str | None = None
    _fields: dict[str, list[str]] = field(default_factory=dict)

    def meta(self, attributes: Mapping[str, str]) -> None:
        """Take a `meta` element."""
        content = one_line(attributes.get("content"))
        if not content:
            return
        for attribute in ("name", "property", "itemprop", "http-equiv"):
            if name := attributes.get(attribute):
                values = self._fields.setdefault(name.strip().lower(), [])
                if len(values) < _MOST:
                    values.append(content)

    def properties(self) -> Properties:
        """Return what the page declares."""
        return Properties(
            title=self.title or self._first(_TITLE),
            authors=tuple(name for name in self._all(_AUTHORS) if "://" not in name),
            language=self.language or self._first(_LANGUAGE),
            created=self._first(_CREATED),
            modified=self._first(_MODIFIED),
            keywords=tuple(self._keywords()),
            description=self._first(_DESCRIPTION),
            publisher=self._first(_PUBLISHER),
        )

    def _first(self, names: tuple[str, ...]) -> str | None:
        return next((self._fields[name][0] for name in names if name in self._fields), None)

    def _all(self, names: tuple[str, ...]) -> list[str]:
        """Return the values of all these fields, each once."""
        return list(dict.fromkeys(value for name in names for value in self._fields.get(name, ())))

    def _keywords(self) -> list[str]:
        words = (word.strip() for line in self._all(_KEYWORDS) for word in line.split(","))
        return list(dict.fromkeys(word for word in words if word))


def one_line(text: str | None) -> str | None:
    """Return a declared value on one line and not too long, or None when there is nothing in it."""
    return " ".join(text[: 2 * _LONGEST].split())[:_LONGEST] or None if text else None
