"""Text recognition with its models: images, scanned pages, unclear words, hostile files."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.failures import raises_code
from tests.support.pdf_maker import Page, column, make_pdf
from truespan.parsing import load
from truespan.parsing.sandbox.client import ChildParser
from truespan.types.source import ParseOptions
from truespan.types.text import Loaded

pytestmark = pytest.mark.ocr

FIRST = [
    "The ferry left the quay at six in the morning,",
    "and nobody who stood there saw that one of the",
    "lamps had gone out before it was light.",
]
SECOND = ["The keeper of the landing wrote the hour", "into his book, and said nothing."]


@cache
def picture(lines: tuple[str, ...], *, size: int = 28, ink: int = 0) -> Any:
    from PIL import Image, ImageDraw, ImageFont  # pyright: ignore[reportMissingImports]

    paper = Image.new("RGB", (40 + 16 * max(map(len, lines)), 60 + 40 * len(lines)), "white")
    draw = ImageDraw.Draw(paper)
    font = ImageFont.load_default(size)
    for number, line in enumerate(lines):
        draw.text((30, 30 + 40 * number), line, fill=(ink, ink, ink), font=font)
    return paper


def saved(image: Any, format: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def text_of(loaded: Loaded) -> str:
    return " ".join(" ".join(block.text for block in loaded.blocks).split())


def test_image_is_read_in_a_child_process_with_limits():
    parser = ChildParser(ocr_cpu_seconds=300)
    try:
        found = parser.parse(
            "scan.png", saved(picture(tuple(FIRST)), "PNG"), ParseOptions(ocr=True)
        )
    finally:
        parser.close()
    assert text_of(found) == " ".join(FIRST)
    assert found.blocks[0].pages[0].unit == "scanned page"
    assert found.warnings[0].startswith("1 of 1 pages were read by text recognition")


def test_photograph_is_read_upright_and_tiff_has_pages():
    turned = picture(tuple(FIRST)).rotate(90, expand=True)
    exif = turned.getexif()
    exif[0x0112] = 6  # The camera was held upright: show it turned by 90 degrees clockwise.
    photograph = load("a.jpg", saved(turned, "JPEG", exif=exif, quality=90), ParseOptions(ocr=True))
    pages = [picture(tuple(SECOND))]
    tiff = load(
        "a.tiff",
        saved(picture(tuple(FIRST)), "TIFF", save_all=True, append_images=pages),
        ParseOptions(ocr=True),
    )

    assert text_of(photograph) == " ".join(FIRST)
    assert text_of(tiff) == " ".join([*FIRST, *SECOND])
    assert {start.page for block in tiff.blocks for start in block.pages} == {1, 2}


def test_scanned_pages_of_a_pdf_are_read_among_pages_with_text():
    import pypdfium2 as pdfium

    both = pdfium.PdfDocument(make_pdf([Page(column(SECOND))]))
    both.import_pages(pdfium.PdfDocument(saved(picture(tuple(FIRST)), "PDF")))
    file = io.BytesIO()
    both.save(file)
    found = load("a.pdf", file.getvalue(), ParseOptions(ocr=True))

    assert text_of(found) == " ".join([*SECOND, *FIRST])
    assert [(start.page, start.unit) for block in found.blocks for start in block.pages] == [
        (1, "page"),
        (2, "scanned page"),
    ]
    assert load("a.pdf", file.getvalue(), ParseOptions(ocr=True)) == found
    assert load("a.pdf", file.getvalue()).warnings == (
        "1 of 2 pages have pictures and hardly any text.",
    )


def test_unclear_words_are_marked():
    small = picture(tuple(FIRST), ink=120)
    blurred = small.resize((small.width // 7, small.height // 7)).resize(small.size)
    found = load("a.png", saved(blurred, "PNG"), ParseOptions(ocr=True))
    assert "unclear page" in {start.unit for block in found.blocks for start in block.pages}
    assert any("unclear" in warning for warning in found.warnings)


def test_broken_huge_and_blank_images_are_refused():
    whole = saved(picture(tuple(SECOND)), "PNG")
    # The size in the head of the file says 60,000 by 60,000 pixels.
    huge = whole[:16] + (60_000).to_bytes(4, "big") * 2 + whole[24:]
    for data, *codes in (
        (whole[: len(whole) // 2], "source_broken"),
        (whole[:20], "source_broken"),
        (huge, "source_too_large", "source_broken"),
        (saved(picture((" ",)), "PNG"), "source_empty"),
    ):
        with raises_code(*codes):
            load("a.png", data, ParseOptions(ocr=True))


def test_scan_is_found_by_its_words_and_named_as_a_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    import truespan

    monkeypatch.setenv("TRUESPAN_OCR", "auto")
    scans = tmp_path / "scans"
    scans.mkdir()
    (scans / "ferry.png").write_bytes(saved(picture(tuple(FIRST)), "PNG"))
    with truespan.open(tmp_path / "library", create=True) as library:
        world = library.create_world("harbour")
        report = world.ingest(scans)
        found = world.search("when did the ferry leave?", top_k=1).passages[0]
        again = world.ingest(scans)

    assert (len(report.ingested), again.unchanged) == (1, 1)
    assert "ferry left the quay" in found.text
    assert found.page == 1
    assert found.location == "scanned page 1"
