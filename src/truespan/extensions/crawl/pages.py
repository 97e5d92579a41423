"""Web pages as sources: addresses, ids and names of pages, and sitemaps.

This module does not use the network; `web` does.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from hashlib import sha256
from html import unescape
from pathlib import PurePath, PurePosixPath
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from msgspec.structs import replace

from truespan import errors
from truespan.parsing import supported
from truespan.parsing.detect import ENDINGS_OF_TYPES
from truespan.types.source import (
    MAX_URL_LENGTH,
    DocumentOptions,
    Entry,
    FoundSources,
    Page,
    Root,
    Source,
)

_PORTS = {"http": 80, "https": 443}
_CHARACTERS = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")
_NOT_PLAIN = re.compile(r"[^a-z0-9]+")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_PAGES = 10_000
MAX_SITEMAPS = 50
MAX_SITEMAP_BYTES = 50 << 20
_LOC = re.compile(
    r"<(?:(?!image|video|news)[A-Za-z0-9_-]{1,20}:)?loc\s{0,9}>([^<]{0,9000})"
    r"(?:<!\[CDATA\[([^\]<]{0,9000})\]\]>)?"
)


def check_url(url: str, base: str = "") -> str:
    """Return the normalised address of a page, without its fragment; raises InvalidArgument."""
    invalid = errors.InvalidArgument(
        "The address of a page must be an http or https URL with a host, without user and "
        f"password, and of at most {MAX_URL_LENGTH} characters.",
        advice="Write it as a browser shows it, with other characters percent-encoded.",
    )
    try:
        joined = urljoin(base, url.strip()) if base else url.strip()
        parts = urlsplit(joined)
        host, port = (parts.hostname or "").rstrip("."), parts.port
        host.encode("idna")
    except ValueError:
        raise invalid from None
    plain = len(joined) <= MAX_URL_LENGTH and _CHARACTERS.fullmatch(joined)
    if not plain or parts.scheme not in _PORTS or not host or "@" in parts.netloc or port == 0:
        raise invalid
    spelled = f"[{host}]" if ":" in host else host
    if port not in (None, _PORTS[parts.scheme]):
        spelled += f":{port}"
    return urlunsplit((parts.scheme, spelled, parts.path or "/", parts.query, ""))


def host_matches(host: str, pattern: str) -> bool:
    """Return whether a host matches a pattern; `*.example.org` matches all hosts below it."""
    host, pattern = host.lower().rstrip("."), pattern.lower().rstrip(".")
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and len(host) > len(pattern) - 1
    return host == pattern


def name_page(url: str) -> str:
    """Return the name of a page: the last part of its path, else its host."""
    parts = urlsplit(url)
    name = unquote(PurePosixPath(parts.path).name, errors="replace") or parts.netloc
    return ("".join(char for char in name if char.isprintable()).strip() or parts.netloc)[:200]


def page_source(
    url: str, declared: DocumentOptions, *, doc_id: str | None = None, origin: str = ""
) -> Source:
    """Return a page as a source; its id is derived from its address."""
    parts = urlsplit(url)
    slug = _NOT_PLAIN.sub("-", f"{parts.hostname}-{parts.path}".lower()).strip("-")[:48]
    made = f"{slug.strip('-') or 'page'}-{sha256(url.encode()).hexdigest()[:8]}"
    return Source(
        path=url,
        name=name_page(url),
        doc_id=doc_id or made,
        size=0,
        declared=declared,
        origin=origin,
        shown_path=url.partition("://")[2],
    )


def name_to_parse(name: str, content_type: str) -> str:
    """Return the name for parsing a page; its content type decides the ending."""
    kind = content_type.partition(";")[0].strip().lower()
    ending = ENDINGS_OF_TYPES.get(kind)
    if kind == "text/plain" and supported(name):
        ending = None
    return name if ending is None or name.lower().endswith(ending) else f"{name}{ending}"


def with_encoding(content: bytes, content_type: str) -> bytes:
    """Return a text in UTF-8 if its content type states an encoding, else the content unchanged."""
    kind, *parameters = content_type.lower().split(";")
    charset = next(
        (
            value.strip(" \"'")
            for name, _, value in (parameter.partition("=") for parameter in parameters)
            if name.strip() == "charset"
        ),
        "",
    )
    texts = ("text/", "application/xhtml", "application/json")
    if not charset or not kind.strip().startswith(texts) or content.startswith(b"%PDF"):
        return content
    try:
        text = content.decode(charset)
    except (LookupError, UnicodeDecodeError, ValueError):
        return content
    return _BYTE_ORDER_MARK + text.removeprefix("\ufeff").encode("utf-8", "replace")


def read_sitemap(content: bytes) -> tuple[bool, list[str]]:
    """Return the addresses in a sitemap, and whether they are those of further sitemaps.

    The sitemap is searched for its elements and never parsed as XML, so entities have no effect.
    """
    text = content.decode("utf-8", "replace")
    first, *others = text.split("<!--")
    text = "".join([first, *(part.partition("-->")[2] for part in others)])
    is_index = "<sitemapindex" in text[:5000] or ":sitemapindex" in text[:5000]
    found: list[str] = []
    for match in _LOC.finditer(text):
        address = match[2] if match[2] is not None else unescape(match[1])
        if address.strip():
            found.append(address.strip())
        if len(found) > MAX_PAGES:
            break
    return is_index, found


def with_pages(
    found: FoundSources,
    check: Callable[[str], str],
    entries: Sequence[Entry],
    *,
    manifest: str = "",
) -> FoundSources:
    """Return sources with the pages of entries added, by priority."""
    bad: list[tuple[int, str]] = []
    origin = found.roots[0].origin if manifest else ""
    owners = {source.doc_id.casefold(): 0 for source in found}
    pages: dict[str, tuple[Entry, Source]] = {}
    for entry in entries:
        try:
            url = check(entry.path)
        except errors.InvalidArgument as error:
            if not manifest:
                raise
            bad.append((entry.line, f"url: {error.message} {error.advice}".strip()))
            continue
        source = page_source(url, entry.declared, doc_id=entry.doc_id, origin=origin)
        first, same = pages.setdefault(url, (entry, source))
        if same != source:
            bad.append((entry.line, f"the url is declared differently in line {first.line}"))
        elif (
            first is entry and owners.setdefault(source.doc_id.casefold(), entry.line) != entry.line
        ):
            bad.append((entry.line, f"doc_id {source.doc_id!r} belongs to another document"))
    if bad:
        raise errors.LinesInvalid("manifest_invalid", PurePath(manifest).name, bad)
    sources = [*found.sources, *(source for _, source in pages.values())]
    sources.sort(key=lambda source: -(source.declared.priority or 0))
    roots = found.roots
    if manifest:
        roots = tuple(replace(root, found=root.found + len(pages)) for root in roots)
    return replace(found, sources=tuple(sources), roots=roots)


def find_pages_of_sitemap(
    origin: str,
    declared: DocumentOptions,
    *,
    check: Callable[[str], str],
    fetch: Callable[[str], Page],
) -> FoundSources:
    """Return the pages that a sitemap, or each sitemap of an index, lists.

    Pages of hosts that are not allowed are skipped.
    """
    pages: dict[str, Source] = {}
    unsupported, sitemaps, is_index = 0, [origin], True
    while sitemaps:
        sitemap = sitemaps.pop(0)
        content = fetch(sitemap).content or b""
        is_list, addresses = read_sitemap(_unpack(sitemap, content))
        if is_list and not is_index:
            raise errors.SourceRefused(
                "source_unsupported", sitemap, advice="An index of sitemaps is listed in another."
            )
        is_index = False
        if len(addresses) > (MAX_SITEMAPS if is_list else MAX_PAGES) or len(pages) > MAX_PAGES:
            raise errors.SourceRefused(
                "source_too_large",
                sitemap,
                advice=f"At most {MAX_SITEMAPS} sitemaps and {MAX_PAGES} pages are read.",
            )
        for address in addresses:
            try:
                checked = check(address)
            except errors.InvalidArgument:
                unsupported += 1
                continue
            if is_list:
                sitemaps.append(checked)
            else:
                pages[checked] = page_source(checked, declared, origin=origin)
    root = Root(origin, len(pages), origin=origin)
    return FoundSources(tuple(pages.values()), unsupported, roots=(root,))


def _unpack(url: str, content: bytes) -> bytes:
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        unpacker = zlib.decompressobj(wbits=31)
        unpacked = unpacker.decompress(content, MAX_SITEMAP_BYTES)
    except zlib.error:
        raise errors.SourceRefused("source_broken", url) from None
    if not unpacker.eof:
        raise errors.SourceRefused(
            "source_too_large", url, advice=f"At most {MAX_SITEMAP_BYTES >> 20} MiB are read."
        )
    return unpacked
