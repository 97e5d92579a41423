"""The parts of a book: where its package lies, which pages it has and in which order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import lxml.etree as etree

from truespan.errors import SourceBroken, SourceEncrypted, SourceRefused, SourceUnsafe
from truespan.parsing.archive import Archive
from truespan.parsing.epub.contents import Entry, Paths, name_of, navigation_entries, ncx_entries
from truespan.parsing.html.structure import one_line
from truespan.parsing.xml import parse_xhtml
from truespan.types.text import Properties

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_FONT_OBFUSCATION = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
_NCX = "application/x-dtbncx+xml"
_PAGES = frozenset(
    {
        "application/xhtml+xml",
        "application/xml",
        "application/x-dtbook+xml",
        "text/html",
        "text/x-oeb1-document",
        "text/xml",
    }
)
_PAGE_ENDING = re.compile(r"\.(?:x?html?|xml)$", re.IGNORECASE)
_MARKUP = re.compile("<[^<>]*>")
_MOST_FALLBACKS = 8


@dataclass(frozen=True, slots=True)
class Item:
    """A file of the book. `member` is None when it lies outside of the archive."""

    id: str
    member: str | None
    media_type: str
    properties: frozenset[str]
    fallback: str

    @property
    def is_page(self) -> bool:
        """Say whether it is a page of text."""
        if self.media_type in _PAGES:
            return True
        return not self.media_type and bool(_PAGE_ENDING.search(self.member or ""))

    @property
    def is_image(self) -> bool:
        """Say whether it is a picture."""
        return self.media_type.startswith("image/")


@dataclass(frozen=True, slots=True)
class Package:
    """What the package document and the table of contents say.

    `spine` is the order of reading; what the spine names and the package lacks is None there.
    """

    media_types: dict[str, str]
    """What the package says that its members are."""
    spine: tuple[Item | None, ...]
    entries: tuple[Entry, ...]
    navigation: str | None
    cover: Item | None
    properties: Properties


def read_package(shown: str, archive: Archive, paths: Paths) -> Package:
    """Return the package of a book.

    Raises:
        SourceBroken: there is none, or it names no pages.
        SourceEncrypted: its pages are encrypted.
    """
    place = _package_member(shown, archive, paths)
    root = _parsed(shown, archive, place)
    if root is None:
        raise SourceBroken(shown)
    items = {item.id: item for item in reversed(list(_items(root, place, paths)))}
    spine = tuple(_spine(root, items))
    _refuse_encrypted(shown, archive, paths, spine)
    navigation = next((one.member for one in items.values() if "nav" in one.properties), None)
    return Package(
        media_types={item.member: item.media_type for item in items.values() if item.member},
        spine=spine,
        entries=tuple(_entries(shown, archive, paths, root, items, navigation)),
        navigation=navigation,
        cover=_cover(root, items),
        properties=_properties(root),
    )


def _package_member(shown: str, archive: Archive, paths: Paths) -> str:
    """Return where the package document lies; without a container, the first there is."""
    container = archive.find(_CONTAINER)
    root = _parsed(shown, archive, container) if container else None
    for element in root.iter() if root is not None else ():
        if name_of(element) == "rootfile" and (path := element.get("full-path")):
            place = paths.member("", path)
            if place and archive.has(place):
                return place
    packages = sorted(name for name in archive.names if name.lower().endswith(".opf"))
    if not packages:
        raise SourceBroken(shown)
    return packages[0]


def _parsed(shown: str, archive: Archive, member: str | None) -> etree._Element | None:
    """Return the root of a member; None when it is missing or cannot be read.

    These files come with document types as pages do, so they are read as leniently.
    """
    content = archive.read(member) if member else None
    if content is None:
        return None
    try:
        return parse_xhtml(shown, content)
    except SourceUnsafe:
        raise
    except SourceRefused:
        return None


def _items(root: etree._Element, place: str, paths: Paths) -> Iterator[Item]:
    for element in root.iter():
        if name_of(element) == "item" and (id := element.get("id")):
            yield Item(
                id=id,
                member=paths.member(place, element.get("href", "")),
                media_type=element.get("media-type", "").partition(";")[0].strip().lower(),
                properties=frozenset(element.get("properties", "").split()),
                fallback=element.get("fallback", ""),
            )


def _spine(root: etree._Element, items: dict[str, Item]) -> Iterator[Item | None]:
    """Give the pages in the order of reading, each once; auxiliary ones in their place."""
    seen: set[str] = set()
    for element in root.iter():
        if name_of(element) != "itemref":
            continue
        id = element.get("idref", "")
        if id not in seen:
            seen.add(id)
            yield _readable(items.get(id), items)


def _readable(item: Item | None, items: dict[str, Item]) -> Item | None:
    """Return the item, or what the package gives in its place if nobody could read it."""
    found = item
    for _ in range(_MOST_FALLBACKS):
        if found is None or found.is_page or found.is_image:
            return found or item
        found = items.get(found.fallback)
    return item


def _refuse_encrypted(
    shown: str, archive: Archive, paths: Paths, spine: tuple[Item | None, ...]
) -> None:
    """Raise if pages are encrypted. That fonts are obfuscated hides no word."""
    root = _parsed(shown, archive, archive.find(_ENCRYPTION))
    if root is None:
        return
    pages = {item.member for item in spine if item}
    algorithm = ""
    for element in root.iter():
        name = name_of(element)
        if name == "encrypteddata":
            algorithm = ""
        elif name == "encryptionmethod":
            algorithm = algorithm or element.get("Algorithm") or element.get("algorithm") or "?"
        elif name == "cipherreference" and algorithm not in _FONT_OBFUSCATION:
            uri = element.get("URI") or element.get("uri") or ""
            if paths.member("", uri) in pages:
                raise SourceEncrypted(shown, advice="Its pages are encrypted by the seller.")


def _entries(
    shown: str,
    archive: Archive,
    paths: Paths,
    root: etree._Element,
    items: dict[str, Item],
    navigation: str | None,
) -> list[Entry]:
    tree = _parsed(shown, archive, navigation)
    if tree is not None and navigation and (found := navigation_entries(tree, navigation, paths)):
        return found
    ncx = _ncx_member(root, items)
    tree = _parsed(shown, archive, ncx)
    return ncx_entries(tree, ncx, paths) if tree is not None and ncx else []


def _ncx_member(root: etree._Element, items: dict[str, Item]) -> str | None:
    for element in root.iter():
        if name_of(element) == "spine" and (item := items.get(element.get("toc", ""))):
            return item.member
    return next((one.member for one in items.values() if one.media_type == _NCX), None)


def _cover(root: etree._Element, items: dict[str, Item]) -> Item | None:
    for item in items.values():
        if "cover-image" in item.properties:
            return item
    for element in root.iter():
        if name_of(element) == "meta" and element.get("name") == "cover":
            found = items.get(element.get("content", ""))
            return found if found and found.is_image else None
    return None


def _properties(root: etree._Element) -> Properties:
    fields: dict[str, list[str]] = {}
    for element in root.iter():
        name = name_of(element)
        if name == "manifest":
            break
        if value := _value(element):
            if name == "meta":
                name = element.get("property", "").lower()
            elif name == "date" and _event(element) == "modification":
                name = "dcterms:modified"
            fields.setdefault(name, []).append(value)
    return Properties(
        title=_first(fields, "title"),
        authors=tuple(dict.fromkeys(fields.get("creator", ()))),
        language=_first(fields, "language"),
        created=_first(fields, "date"),
        modified=_first(fields, "dcterms:modified"),
        keywords=tuple(dict.fromkeys(fields.get("subject", ()))),
        description=_first(fields, "description"),
        publisher=_first(fields, "publisher"),
    )


def _value(element: etree._Element) -> str | None:
    return one_line(_MARKUP.sub(" ", element.text)) if element.text else None


def _event(element: etree._Element) -> str:
    return next((str(v) for k, v in element.attrib.items() if str(k).endswith("event")), "")


def _first(fields: dict[str, list[str]], name: str) -> str | None:
    return fields[name][0] if name in fields else None
