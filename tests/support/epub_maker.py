"""Makes small books as EPUB 2 and EPUB 3 files, well-formed or broken in one chosen way."""

import io
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape

XHTML = "application/xhtml+xml"
NCX = "application/x-dtbncx+xml"
_ENDINGS = {
    "xhtml": XHTML,
    "html": "text/html",
    "svg": "image/svg+xml",
    "png": "image/png",
    "jpg": "image/jpeg",
    "ncx": NCX,
}

Line = tuple[int, str, str]
"""An entry of the contents: its depth from 1, its label, and the address it points to."""


def page(body: str, *, head: str = "<title>A page</title>") -> str:
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html>\n'
        '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops">'
        f"<head>{head}</head><body>{body}</body></html>"
    )


def nav_page(lines: Iterable[Line], *, before: str = "", after: str = "") -> str:
    return page(f'{before}<nav epub:type="toc"><h1>Contents</h1>{_nested(lines)}</nav>{after}')


def ncx(lines: Iterable[Line]) -> str:
    """Return an NCX, with the document type that its producers give it."""
    points = "".join(
        (point if isinstance(point, str) else _nav_point(*point)) for point in _opened(lines)
    )
    return (
        '<?xml version="1.0"?>\n<!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" '
        '"http://www.daisy.org/z3986/2005/ncx-2005-1.dtd">\n'
        '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/" version="2005-1">'
        f"<docTitle><text>The book</text></docTitle><navMap>{points}</navMap></ncx>"
    )


def _nav_point(label: str, href: str) -> str:
    return (
        f"<navPoint><navLabel><text>{escape(label)}</text></navLabel>"
        f'<content src="{escape(href)}"/>'
    )


def _opened(lines: Iterable[Line]) -> Iterable[str | tuple[str, str]]:
    """Yield the lines of a table of contents with the opening and closing tags of points."""
    depth = 0
    for level, label, href in lines:
        yield "</navPoint>" * (depth - level + 1)
        yield label, href
        depth = level
    yield "</navPoint>" * depth


def _nested(lines: Iterable[Line]) -> str:
    written, depth = "", 0
    for level, label, href in lines:
        if level > depth:
            written += "<ol>" * (level - depth)
        else:
            written += "</li>" + "</ol></li>" * (depth - level)
        target = f'<a href="{escape(href)}">' if href else "<span>"
        written += f"<li>{target}{escape(label)}</{'a' if href else 'span'}>"
        depth = level
    return written + "</li></ol>" * depth


@dataclass
class Book:
    """A book to be made.

    `pages` maps addresses as the manifest writes them to content; `members` are files by their name
    in the archive, and win over a page of the same name. `spine` is all pages in their order unless
    it is given. `toc` holds the contents: as a navigation document, or for version 2 as an NCX.
    """

    pages: Mapping[str, str | bytes] = field(default_factory=dict)
    toc: Iterable[Line] = ()
    version: int = 3
    folder: str = "OEBPS/"
    package: str = "content.opf"
    metadata: str = "<dc:title>The book</dc:title>"
    spine: Iterable[str] | None = None
    itemref: Mapping[str, str] = field(default_factory=dict)
    item: Mapping[str, str] = field(default_factory=dict)
    members: Mapping[str, str | bytes] = field(default_factory=dict)
    without: Iterable[str] = ()

    def data(self) -> bytes:
        files = dict(self._files())
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
            for name, text in files.items():
                if name not in self.without:
                    archive.writestr(name, text)
        return content.getvalue()

    def _files(self) -> Iterable[tuple[str, str | bytes]]:
        place = self.folder + self.package
        yield "META-INF/container.xml", _container(place)
        yield place, self._package_document()
        for name, content in self._all_pages().items():
            yield self.folder + name, content
        yield from self.members.items()

    def _all_pages(self) -> dict[str, str | bytes]:
        extra: dict[str, str | bytes] = {}
        if self.toc:
            extra = (
                {"toc.ncx": ncx(self.toc)}
                if self.version == 2
                else {"nav.xhtml": nav_page(self.toc)}
            )
        return {**self.pages, **extra}

    def _package_document(self) -> str:
        pages = self._all_pages()
        ids = {name: f"i{number}" for number, name in enumerate([*pages, *self.item])}
        items = "".join(self._item(name, ids[name]) for name in ids)
        order = self.spine if self.spine is not None else [*self.pages]
        refs = "".join(
            f'<itemref idref="{ids.get(name, name)}" {self.itemref.get(name, "")}/>'
            for name in order
        )
        toc = f'toc="{ids["toc.ncx"]}"' if "toc.ncx" in ids else ""
        return (
            f'<package xmlns="http://www.idpf.org/2007/opf" version="{self.version}.0">'
            '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/" '
            f'xmlns:opf="http://www.idpf.org/2007/opf">{self.metadata}</metadata>'
            f"<manifest>{items}</manifest><spine {toc}>{refs}</spine></package>"
        )

    def _item(self, name: str, id: str) -> str:
        given = self.item.get(name, "")
        if name == "nav.xhtml" and not given:
            given = 'properties="nav"'
        if "media-type" not in given:
            given += f' media-type="{_ENDINGS[name.rpartition(".")[2]]}"'
        return f'<item id="{id}" href="{escape(name)}" {given}/>'


def _container(place: str) -> str:
    return (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0">'
        f'<rootfiles><rootfile full-path="{escape(place)}" '
        'media-type="application/oebps-package+xml"/></rootfiles></container>'
    )
