"""Where in an archive an address leads, however its producer wrote it."""

from __future__ import annotations

import re
from unicodedata import normalize
from urllib.parse import unquote

from truespan.ingest.load.archive import Archive

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")


class Paths:
    """The names of an archive's members, and the ways in which they are referred to."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._composed = {_folded(name): name for name in sorted(archive.names, reverse=True)}

    def member(self, base: str, href: str) -> str | None:
        """Return the name that `href` in the member `base` leads to; None when it leads elsewhere.

        The name is one that exists if there is any such: as it is written, with its percent signs
        decoded, in the other spelling of its accents, or in another case. Else it is the one that
        the address should lead to.
        """
        path = re.split("[#?]", href.strip(), maxsplit=1)[0].replace("\\", "/")
        if not path:
            return base
        if _SCHEME.match(path):
            return None
        written, decoded = _joined(base, path), _joined(base, unquote(path))
        # A sign that begins a query may also be a letter of a name that was never encoded.
        literal = _joined(base, href.strip())
        for name in (written, decoded, literal):
            if found := self._archive.find(name) or self._composed.get(_folded(name)):
                return found
        return decoded


def fragment_of(href: str) -> str:
    """Return the part of an address that names a place within a page."""
    return unquote(href.strip().partition("#")[2])


def _folded(name: str) -> str:
    return normalize("NFC", name).casefold()


def _joined(base: str, path: str) -> str:
    """Return `path` as seen from the folder of `base`; what would leave the archive stays in it."""
    whole = path if path.startswith("/") else f"{base.rpartition('/')[0]}/{path}"
    parts: list[str] = []
    for part in whole.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)
