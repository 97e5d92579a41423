"""Images and web pages as they look.

Where on one a sentence ends is unknown, so neither has parts.
"""

from __future__ import annotations

from truespan.types.picture import PictureRequest, Rendering

_MEDIA_TYPES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
    b"BM": "image/bmp",
}
"""Media types of the images that browsers show, by their first bytes."""


def draw_image(data: bytes, request: PictureRequest) -> Rendering | None:
    """Return an image itself; None if browsers do not show it."""
    found = (kind for mark, kind in _MEDIA_TYPES.items() if data.startswith(mark))
    media_type = next(found, None)
    return None if media_type is None else _render(request, media_type, data)


def draw_web_page(data: bytes, request: PictureRequest) -> Rendering | None:
    """Return a web page without scripts."""
    from truespan.parsing.formats.html import sanitize_page

    return _render(request, "text/html", sanitize_page(request.name, data).encode())


def _render(request: PictureRequest, media_type: str, data: bytes) -> Rendering | None:
    if request.page != 1 or request.only_parts:
        return None
    return Rendering(media_type, 0, 0, ((),) * len(request.parts), data)
