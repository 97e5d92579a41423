"""Text recognition (OCR) for image files and for PDF pages without text.

The extra `ocr` installs the models; this module is imported only if OCR is requested. The same
picture always gives the same words.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from truespan.errors import OCR_ADVICE, SourceRefused
from truespan.parsing.formats.pdf.lines import MAX_SIDE, Line, sort_by_position
from truespan.parsing.formats.pdf.paragraphs import (
    describe_recognised,
    join_paragraphs,
    place_lines,
)
from truespan.parsing.formats.text import to_blocks
from truespan.types.text import Loaded

_MAX_SIZE_TO_FIND = 1280
"""Maximum side of the picture in which lines are detected; a larger one takes three times as
long."""
_MAX_PIXELS = 150_000_000
_MAX_FRAMES = 2000
_MIN_CONFIDENCE = 0.3
"""Minimum confidence of text; below it is a stain or a drawing."""
_FORMATS = ("PNG", "JPEG", "TIFF", "WEBP", "BMP")
_TEXT_HEIGHT = 0.7
"""Approximate ratio of the height of letters to the height of their box."""
_SAME_SIZE = 0.3

Point = tuple[float, float]


class Recognised(NamedTuple):
    """A line of text in a picture, with its confidence from 0 to 1.

    The corners are in pixels, clockwise from the upper left.
    """

    text: str
    corners: tuple[Point, Point, Point, Point]
    confidence: float


class Recogniser:
    """Recognises lines of text. The models are loaded on first use, which takes two seconds."""

    def __init__(self) -> None:
        self._engine: Any = None

    def recognise(self, picture: np.ndarray) -> list[Recognised]:
        """Return the lines of text in a picture, an array of height by width by three colours."""
        if self._engine is None:
            self._engine = _load_engine()
        found = self._engine(np.ascontiguousarray(picture))
        if found.boxes is None or found.txts is None:
            return []
        return [
            Recognised(text, _corners(box), float(confidence))
            for text, box, confidence in zip(found.txts, found.boxes, found.scores, strict=True)
            if text.strip()
        ]

    def find_lines(self, picture: np.ndarray, scale: float = 1.0) -> list[Line]:
        """Return the lines of text in a picture, in reading order; see `to_lines`."""
        return to_lines(self.recognise(picture), picture.shape[0], scale)


def _load_engine() -> Any:
    import cv2  # pyright: ignore[reportMissingImports]
    from rapidocr import RapidOCR  # pyright: ignore[reportMissingImports]

    # The parser process must not start threads, and results must not depend on their number.
    cv2.setNumThreads(0)
    threads = {"intra_op_num_threads": 1, "inter_op_num_threads": 1}
    return RapidOCR(
        params={
            **{f"EngineConfig.onnxruntime.{name}": value for name, value in threads.items()},
            "Global.log_level": "critical",
            "Global.use_cls": False,
            "Global.max_side_len": MAX_SIDE,
            "Global.text_score": _MIN_CONFIDENCE,
            "Det.limit_type": "max",
            "Det.limit_side_len": _MAX_SIZE_TO_FIND,
        }
    )


def _corners(box: Any) -> tuple[Point, Point, Point, Point]:
    a, b, c, d = ((float(x), float(y)) for x, y in box)
    return a, b, c, d


def to_lines(found: Sequence[Recognised], height: float, scale: float = 1.0) -> list[Line]:
    """Return recognised lines in reading order as lines of a page.

    `height` is the height of the picture, and `scale` the number of pixels of a page unit. The page
    is deskewed first: a scan is often skewed by a degree, which over the width of a page is the
    height of a line.
    """
    if not found:
        return []
    slopes = [
        (b[1] - a[1]) / (b[0] - a[0])
        for a, b, _, _ in (line.corners for line in found)
        if b[0] - a[0] > 4 * abs(b[1] - a[1])
    ]
    slope = median(slopes) if slopes else 0.0
    boxes: list[tuple[Recognised, float, float, float, float]] = []
    for line in found:
        a, b, c, d = line.corners
        tall = (math.dist(a, d) + math.dist(b, c)) / 2 * _TEXT_HEIGHT
        x, y = sum(p[0] for p in line.corners) / 4, sum(p[1] for p in line.corners) / 4
        middle, across = y - slope * x, x + slope * y
        wide = (math.dist(a, b) + math.dist(d, c)) / 2
        boxes.append((line, across - wide / 2, across + wide / 2, height - middle, tall))
    usual = median(box[4] for box in boxes)
    lines: list[Line] = []
    for line, left, right, middle, tall in boxes:
        # The height of a box depends on ascenders and descenders.
        if abs(tall - usual) < _SAME_SIZE * usual:
            tall = usual
        text = " ".join(line.text.split())
        first = (right - left) * len(text.split(" ", 1)[0]) / len(text)
        bottom, top = middle - tall / 2, middle + tall / 2
        left, right, bottom, top, first = (
            value / scale for value in (left, right, bottom, top, first)
        )
        lines.append(
            Line(
                text=text,
                left=left,
                right=right,
                bottom=bottom,
                top=top,
                first_width=first,
                confidence=line.confidence,
            )
        )
    return list(sort_by_position(lines))


def load_image_file(name: str, data: bytes, *, ocr: bool) -> Loaded:
    """Recognise the text of an image file; raise SourceRefused without `ocr`."""
    if not ocr:
        raise SourceRefused("source_unsupported", name, advice=OCR_ADVICE)
    return load_image(name, data, Recogniser())


def load_image(name: str, data: bytes, recogniser: Recogniser) -> Loaded:
    """Recognise the text of an image file, or raise `SourceRefused`. A TIFF may have pages."""
    pages = [recogniser.find_lines(picture) for picture in _read_frames(name, data)]
    if not any(pages):
        raise SourceRefused("source_empty", name)
    paragraphs = list(join_paragraphs(place_lines(pages), (), ()))
    return Loaded(tuple(to_blocks(paragraphs)), warnings=tuple(describe_recognised(pages)))


def _read_frames(name: str, data: bytes) -> Iterator[np.ndarray]:
    """Yield the pages of an image file, upright and in RGB."""
    from PIL import Image, ImageOps, ImageSequence  # pyright: ignore[reportMissingImports]

    Image.MAX_IMAGE_PIXELS = _MAX_PIXELS
    count = 0
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as file:
            for frame in ImageSequence.Iterator(file):
                count += 1
                if count > _MAX_FRAMES or frame.width * frame.height > _MAX_PIXELS:
                    raise SourceRefused("source_too_large", name)
                picture = _to_rgb(ImageOps.exif_transpose(frame))
                picture.thumbnail((MAX_SIDE, MAX_SIDE))
                yield np.asarray(picture)
                # Further frames of other formats than TIFF are an animation.
                if file.format != "TIFF":
                    return
    except Image.DecompressionBombError:
        raise SourceRefused("source_too_large", name) from None
    except (OSError, SyntaxError, ValueError, EOFError, KeyError, IndexError):
        raise SourceRefused("source_broken", name) from None


def _to_rgb(picture: Any) -> Any:
    from PIL import Image  # pyright: ignore[reportMissingImports]

    if picture.mode.startswith(("I", "F")):
        # Scale 16 bits for each pixel to 8.
        values = np.asarray(picture, dtype=np.float64)
        top = float(values.max(initial=0)) or 1.0
        return Image.fromarray((values * (255 / top)).clip(0, 255).astype(np.uint8)).convert("RGB")
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        # Show transparent parts as white.
        with_alpha = picture.convert("RGBA")
        paper = Image.new("RGBA", with_alpha.size, "white")
        return Image.alpha_composite(paper, with_alpha).convert("RGB")
    return picture.convert("RGB")
