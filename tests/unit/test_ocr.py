"""Text recognition without its models: reading order, scanned pages, refusals, settings."""

from pathlib import Path

import pytest
from msgspec.structs import replace

import truespan
from tests.support.failures import raises_code
from tests.support.formats import format_name
from tests.support.pdf_maker import Page, column, make_pdf
from tests.support.worlds import WordCounter
from truespan.errors import InvalidConfiguration
from truespan.extensions.formats.ocr import Recognised, to_lines
from truespan.ingest.draft import Preparation
from truespan.parsing import can_recognise, load, supported
from truespan.parsing.detect import known_format
from truespan.parsing.formats.pdf import is_garbled
from truespan.parsing.formats.pdf.paragraphs import (
    describe_recognised,
    join_paragraphs,
    place_lines,
)
from truespan.tables import FileFormat
from truespan.types.source import DocumentOptions, ParseOptions
from truespan.types.text import PageStart, is_unit, name_pages

PNG = b"\x89PNG\r\n\x1a\n" + bytes(32)
LINES = [f"the keeper of landing {number} wrote the hours down" for number in range(8)]


def box(
    text: str, x: float, y: float, *, slope: float = 0.0, confidence: float = 0.99, tall: float = 30
) -> Recognised:
    """Return a line of letters 10 pixels wide; with a slope, on a rotated page."""
    wide = 10 * len(text)

    def turn(x: float, y: float) -> tuple[float, float]:
        return x - slope * y, y + slope * x

    corners = (turn(x, y), turn(x + wide, y), turn(x + wide, y + tall), turn(x, y + tall))
    return Recognised(text, corners, confidence)


def texts(found: list[Recognised]) -> list[str]:
    lines = to_lines(found, 2000.0)
    return [paragraph.text for paragraph in join_paragraphs(place_lines([lines]), (), ())]


def test_recognised_lines_become_paragraphs_in_reading_order():
    for slope in (0.0, 0.0175, -0.0175):
        # Boxes come in any order, and their height depends on their letters.
        page = [
            box(line, 100, 100 + 36 * number, slope=slope, tall=26 + number % 3 * 4)
            for number, line in enumerate(LINES)
        ]
        page += [box("Here ends it.", 100, 500, slope=slope)]
        assert texts(page[::-1]) == [" ".join(LINES), "Here ends it."], slope


def test_ocr_columns_are_read_in_order():
    left = [box(line, 100, 100 + 36 * number) for number, line in enumerate(LINES)]
    right = [box(f"and {line}", 700, 100 + 36 * n) for n, line in enumerate(LINES)]
    across = [line for pair in zip(left, right, strict=True) for line in pair]
    assert " ".join(texts(across)) == " ".join([*LINES, *(f"and {line}" for line in LINES)])


def test_unclear_words_are_marked_in_the_label_of_their_page():
    page = [box(line, 100, 100 + 36 * number) for number, line in enumerate(LINES)]
    page += [box("smudged and hardly legible", 100, 600, confidence=0.6)]
    lines = to_lines(page, 2000.0)
    first, second = join_paragraphs(place_lines([lines]), (), ())

    assert first.pages == (PageStart(0, 1, "scanned page"),)
    assert second.pages == (PageStart(0, 1, "unclear page"),)
    assert all(start.page_number == 1 and is_unit(start.unit) for start in second.pages)
    assert name_pages(second.pages) == "unclear page 1"
    assert list(describe_recognised([lines])) == [
        "1 of 1 pages were read by text recognition, with a mean confidence of 0.96.",
        "1 of 9 recognised lines are unclear (confidence below 0.95), on pages 1.",
    ]


def test_garbled_page_text_is_detected():
    shifted = ["7#KH", "IH#UU", "OH#IW", "WK#H", "TX#D", "VL[L", "PR#UQL"] * 6
    rows = (
        (["\ufffd\ue001\ue002\ue003 \ue004\ue005 a"] * 3, True),
        ([" ".join(shifted)], True),
        (["The ferry left the quay at six in the morning"] * 6, False),
        (["Laiva lähti laiturista kuudelta aamulla, eikä kukaan nähnyt sitä"] * 6, False),
        (
            ["x86_64 sha256 b64 utf8 h264 mp3 i18n l10n k8s e2e"] * 2 + ["and the words of it"],
            False,
        ),
        (["1,204.50 3,000.00 17.25 %"] * 9, False),
        ([], False),
    )

    assert [is_garbled(lines) for lines, _ in rows] == [garbled for _, garbled in rows]


def test_images_need_ocr_and_are_refused_with_advice():
    heads = (
        PNG, b"\xff\xd8\xff\xe0", b"II*\0", b"MM\0*", b"RIFF\1\2\3\4WEBP", b"BM\1\2\3\4\0\0\0\0",
    )  # fmt: skip
    assert {format_name("scan", head + bytes(20)) for head in heads} == {"image"}
    for ending in ("png", "jpg", "jpeg", "tif", "tiff", "webp", "bmp", "PNG"):
        assert supported(f"a.{ending}", ocr=True)
        assert not supported(f"a.{ending}")

    scan = make_pdf([Page(picture=True), Page(picture=True)])
    for name, data, error in (
        ("a.png", PNG, "source_unsupported"),
        ("a.pdf", scan, "source_scanned"),
    ):
        with raises_code(error, match="extra 'ocr'"):
            load(name, data)


@pytest.mark.skipif(can_recognise(), reason="the extra ocr is installed")
def test_missing_ocr_is_refused_when_a_library_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TRUESPAN_OCR", "auto")
    with pytest.raises(InvalidConfiguration, match="extra 'ocr'"):
        truespan.open(tmp_path / "library", create=True)


def test_ocr_changes_only_the_recipe_of_scans():
    counter, declared = WordCounter(), DocumentOptions()
    off, on = Preparation(), Preparation(ocr=True)

    def recipe(preparation: Preparation, format: FileFormat, ocr: bool | None = None) -> str:
        chosen = replace(declared, ocr=ocr)
        options = preparation.parse_options(chosen, format)
        return preparation.recipe(declared, counter, parse_options=options)

    text, scan = known_format("a.txt", b"words"), known_format("a.png", PNG)
    assert recipe(on, text) == recipe(off, text) == recipe(off, scan) == recipe(off, text, True)
    assert recipe(on, scan) == recipe(off, scan, True) != recipe(off, scan)
    assert recipe(on, scan, False) == recipe(off, scan)


def test_pdf_with_text_reads_the_same_with_ocr():
    data = make_pdf([Page(column(LINES))])
    assert load("a.pdf", data, ParseOptions(ocr=True)) == load("a.pdf", data)
