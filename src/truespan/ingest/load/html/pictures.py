"""Pictures of a page: what leads to their bytes, and how many were met.

Nothing is fetched. Bytes come from the page itself, or from the archive that the page lies in.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from truespan.ingest.load.html.inline import Picture
from truespan.model.text import Figure, Image, PictureCounts

LARGEST_IMAGE = 32 << 20
_LONGEST_ORIGIN = 200
_EXTENSIONS = {
    "image/png": "png",
    "image/apng": "png",
    "image/jpeg": "jpg",
    "image/jpg": "jpg",
    "image/pjpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/avif": "avif",
    "image/svg+xml": "svg",
    "image/bmp": "bmp",
    "image/x-ms-bmp": "bmp",
    "image/tiff": "tif",
    "image/x-icon": "ico",
    "image/vnd.microsoft.icon": "ico",
}
_DATA = re.compile(
    r"\s*data:(?P<type>[\w.+/-]{0,80})(?P<options>[^,]{0,200}),", re.IGNORECASE | re.ASCII
)


class Member(NamedTuple):
    """Where in an archive a picture lies. `media_type` is what the archive says it is, if it does.

    `read` gives None when there is no such member.
    """

    name: str
    media_type: str
    read: Callable[[], bytes | None]
    exists: bool


Finder = Callable[[str], Member | None]
"""Finds the member that an address leads to; None when it leads out of the archive."""


@dataclass(slots=True)
class Pictures:
    """The pictures met so far. Bytes are read only if they are `wanted`, and once each."""

    wanted: bool
    find: Finder = lambda _: None
    images: list[Image] = field(default_factory=list)
    _known: dict[str, int | None] = field(default_factory=dict)
    _met: int = 0
    _sourced: int = 0
    _mapped: int = 0
    _missing: int = 0

    def figure(self, picture: Picture) -> Figure:
        """Count a picture, and return it as a figure."""
        self._met += 1
        source = picture.source.strip()
        if not source:
            return Figure(picture.alt)
        self._sourced += 1
        if found := _DATA.match(source):
            self._mapped += 1
            image = self._once(source, lambda: _embedded(found, source))
            return Figure(picture.alt, f"data:{found['type'].lower()}", image)
        member = self.find(source)
        if member is None:
            return Figure(picture.alt, source[:_LONGEST_ORIGIN])
        self._mapped += 1
        self._missing += not member.exists
        image = self._once(member.name, lambda: _packed(member))
        alt = "" if _is_name(picture.alt, member.name) else picture.alt
        return Figure(alt, member.name[:_LONGEST_ORIGIN], image)

    def counts(self) -> PictureCounts:
        """Return how the search for pictures went."""
        return PictureCounts(self._met, self._sourced, self._mapped, self._missing)

    def _once(self, key: str, read: Callable[[], Image | None]) -> int | None:
        if not self.wanted:
            return None
        if key not in self._known:
            image = read()
            self._known[key] = len(self.images) if image else None
            if image:
                self.images.append(image)
        return self._known[key]


def extension_of(media_type: str, name: str = "") -> str | None:
    """Return the ending for a type of picture, or the one that a name has; None for others."""
    media_type = media_type.partition(";")[0].strip().lower()
    if media_type in _EXTENSIONS:
        return _EXTENSIONS[media_type]
    ending = name.rpartition(".")[2].lower()
    ending = {"jpeg": "jpg", "tiff": "tif"}.get(ending, ending)
    return ending if ending in _EXTENSIONS.values() else None


def _is_name(alt: str, member: str) -> bool:
    """Say whether a description is only the name of the file, with or without its folders."""
    named = alt.replace("\\", "/").lstrip("./").lower()
    return bool(named) and f"/{member.lower()}".endswith(f"/{named}")


def _packed(member: Member) -> Image | None:
    extension = extension_of(member.media_type, member.name)
    content = member.read() if extension else None
    return Image(extension, content) if extension and content else None


def _embedded(found: re.Match[str], source: str) -> Image | None:
    extension = extension_of(found["type"])
    if extension is None or "base64" not in found["options"].lower():
        return None
    if (len(source) - found.end()) * 3 // 4 > LARGEST_IMAGE:
        return None
    try:
        content = binascii.a2b_base64(unquote_to_bytes(source[found.end() :]))
    except ValueError:
        return None
    return Image(extension, content) if content else None
