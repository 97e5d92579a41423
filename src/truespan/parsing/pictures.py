"""Sources as they look: pages of PDF files, images, and web pages without scripts.

Office documents are converted to PDF first; see `parsing.sandbox.office`.
"""

from __future__ import annotations

from truespan.parsing.detect import OFFICE, Format, format_of
from truespan.types.picture import PictureRequest, Rendering

DRAWN = frozenset({Format.PDF, Format.IMAGE, Format.HTML}) | OFFICE
"""Formats that can be shown as they look."""
_MEDIA_TYPES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
    b"BM": "image/bmp",
}
"""Media types of the images that browsers show, by their first bytes."""


def is_drawn(name: str, data: bytes) -> bool:
    """Return whether a source can be shown as it looks."""
    return format_of(name, data) in DRAWN


def draw(data: bytes, request: PictureRequest) -> Rendering | None:
    """Return a page of a source as it looks; None if there is none, or no part of it alone.

    Where on an image or a web page a sentence ends is unknown, so neither has parts.

    Raises:
        SourceRefused: The source is broken or too large.
    """
    found = format_of(request.name, data)
    if found is Format.PDF:
        # Imported on first use, as parsers are.
        from truespan.parsing.formats.pdf.picture import draw_page

        return draw_page(data, request)
    if request.page != 1 or request.only_parts:
        return None
    no_boxes = ((),) * len(request.parts)
    if found is Format.IMAGE:
        media_type = next(
            (kind for mark, kind in _MEDIA_TYPES.items() if data.startswith(mark)), None
        )
        return Rendering(media_type, 0, 0, no_boxes, data) if media_type else None
    if found is Format.HTML:
        from truespan.parsing.formats.html import sanitize_page

        return Rendering("text/html", 0, 0, no_boxes, sanitize_page(request.name, data).encode())
    return None
