"""Pages as they look: places of sentences, parts of pages, web pages without scripts."""

import struct
import zlib
from pathlib import Path

import pytest

from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.pdf_maker import Page, Words, column, make_pdf
from truespan.extensions.server.pictures.pdf import draw_page
from truespan.extensions.server.pictures.whole import sanitize_page
from truespan.files.assets import PictureFolder
from truespan.parsing import draw
from truespan.parsing.sandbox.client import ChildParser
from truespan.types.ids import WorldId
from truespan.types.picture import PictureRequest, Rendering

LINES = ["The ferry left at four. A man in a blue", "coat came aboard. He asked for the key."]
SENTENCES = (
    "The ferry left at four.", "A man in a blue coat came aboard.", "He asked for the key.",
)  # fmt: skip
WORLD = WorldId("0" * 32)


def file_of(*lines: str, **options: object) -> bytes:
    return make_pdf([Page(column(lines), **options)])  # type: ignore[arg-type]


def drawn(data: bytes, *parts: str, only_parts: bool = False, page: int = 1) -> Rendering:
    found = draw_page(data, PictureRequest("a.pdf", page, parts, only_parts))
    assert found is not None
    return found


def rows_of(rendering: Rendering) -> list[bytes]:
    """Return the rows of pixels of a PNG file without filters."""
    data, at, pixels = rendering.data, 8, b""
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            pixels += data[at + 8 : at + 8 + length]
        at += length + 12
    row = rendering.width * 3 + 1
    plain = zlib.decompress(pixels)
    return [plain[start + 1 : start + row] for start in range(0, len(plain), row)]


def dark_rows(rendering: Rendering) -> set[int]:
    return {number for number, row in enumerate(rows_of(rendering)) if min(row) < 128}


def test_sentences_are_located_by_line_on_any_rotation():
    found = drawn(file_of(*LINES), *SENTENCES)
    assert [len(boxes) for boxes in found.boxes] == [1, 2, 1]
    (left, top, right, bottom) = found.boxes[0][0]
    assert left == pytest.approx(72 / 612, abs=0.005)
    assert right == pytest.approx((72 + 23 * 6) / 612, abs=0.005)
    assert top < 1 - 720 / 792 < bottom
    assert found.boxes[2][0][0] > found.boxes[1][1][2], "both are on the second line"

    plain = file_of(*LINES, rotate=180)
    found = drawn(plain, *SENTENCES)
    top = found.boxes[0][0][1]
    assert top > 0.8, "the first line of a page that stands on its head is at the bottom"
    assert any(abs(row / found.height - top) < 0.05 for row in dark_rows(found))


def test_sentences_are_boxed_despite_ligatures_and_running_heads():
    data = file_of("The of\x01cers came in the eve-", "ning.")
    assert len(drawn(data, "The officers came in the evening.").boxes[0]) == 2
    assert all(drawn(file_of("THE GLASS FERRY 12", *LINES), *SENTENCES).boxes)
    assert drawn(file_of(*LINES), "It was the landlady.").boxes == ((),)


def test_page_past_the_end_and_broken_file_are_not_drawn():
    request = PictureRequest("a.pdf", 2)
    assert draw_page(file_of(*LINES), request) is None
    with raises_code("source_broken"):
        draw_page(b"%PDF-1.7 nothing", PictureRequest("a.pdf", 1))


@proves("pictures.nothing-ahead")
def test_part_of_a_page_does_not_depend_on_the_rest():
    read = SENTENCES[:2]
    endings = (
        [*LINES],
        [LINES[0], "coat came aboard. It was the landlady.", "She had the key all the time."],
        [LINES[0], "coat came aboard."],
    )
    pages = [drawn(file_of(*lines), *read, only_parts=True) for lines in endings]
    pages.append(drawn(make_pdf([Page(column(endings[0]), raw=b"q 0 0 1 rg 0 0 612 792 re f Q\n")]),
                       *read, only_parts=True))  # fmt: skip

    assert all(page == pages[0] for page in pages[1:])
    whole = drawn(file_of(*LINES), *read)
    assert whole.data != pages[0].data
    assert dark_rows(pages[0]) <= dark_rows(whole)


@proves("pictures.nothing-ahead")
def test_next_sentence_without_a_space_before_it_is_not_drawn():
    read = "They met at the stone quay."
    nexts = ("(Who came?)", '"Who came?"', "-Who came?", "Who came?", "...", "\u2014 Who", "WM")
    alone = drawn(file_of(read), read, only_parts=True)

    pages = {end: drawn(file_of(f"{read}{end}"), read, only_parts=True) for end in nexts}

    assert [end for end, page in pages.items() if page != alone] == []

    def tight(line: str, spacing: int = -2) -> Rendering:
        page = Page(column([line]), raw=b"%d Tc\n" % spacing)
        return drawn(make_pdf([page]), line.partition("\u2014")[0], only_parts=True)

    assert tight("They met at the wall!\u2014Who?") == tight("They met at the wall!")
    # The dash lies between the dots of the colon.
    overlapped, alone = (rows_of(tight(f"At the wall:{end}", -4)) for end in ("\u2014Who?", ""))
    pairs = zip(overlapped, alone, strict=True)
    assert all(one >= other for rows in pairs for one, other in zip(*rows, strict=True))
    quoted = drawn(file_of('"Quay?" (Who?)'), '"Quay?"', only_parts=True)
    assert len(quoted.boxes[0]) == 1
    assert quoted != drawn(file_of("Quay (Who?)"), "Quay", only_parts=True)


@proves("pictures.nothing-ahead")
def test_column_beside_the_position_is_not_drawn():
    left = column(["One fish swam by here.", "Two fish swam by there.", "Three fish swam too.",
                   "Four fish were left now."], x=72)  # fmt: skip
    right = [Words(330, words.y, "The murderer was Bill.") for words in left]

    def page(words: list[Words]) -> Rendering:
        return drawn(make_pdf([Page(words)]), "One fish swam by here.", only_parts=True)

    assert page([*left, *right]) == page(left)


@proves("pictures.nothing-ahead")
def test_unclear_position_means_no_picture():
    request = PictureRequest("a.pdf", 1, (SENTENCES[0], "Not on this page at all."), True)
    assert draw_page(file_of(*LINES), request) is None


def test_large_page_is_scaled_down():
    found = drawn(make_pdf([Page(column(LINES), crop=(0, 0, 14_000, 14_000))]))
    assert found.width * found.height <= 4_100_000


def test_web_page_keeps_text_and_loses_scripts():
    page = (
        b"<html><head><title>T</title><style>p{}</style></head><body onload='x()'>"
        b"<p style='color:red' onclick=x()>Hello <b>you</b> &lt;b&gt;</p><script>alert(1)</script>"
        b"<a href='javascript:x()'>link</a><img src=http://evil/x.png><iframe src=x>in</iframe>"
        b"<table><tr><td colspan=2>1</td></tr></table><form><input value=secret></form>"
    )
    shown = sanitize_page("a.html", page)

    assert "<p>Hello <b>you</b> &lt;b&gt;</p>" in shown
    assert '<td colspan="2">1</td>' in shown
    assert not [bad for bad in ("script", "alert", "javascript", "evil", "style", "onclick",
                                "iframe", "secret", "href") if bad in shown]  # fmt: skip


def test_image_is_shown_unchanged_and_only_whole():
    png = b"\x89PNG\r\n\x1a\n" + b"0" * 40
    found = draw(png, PictureRequest("a.png", 1))
    assert found is not None
    assert (found.media_type, found.data) == ("image/png", png)
    assert draw(png, PictureRequest("a.png", 1, (), True)) is None
    assert draw(b"just text", PictureRequest("a.txt", 1)) is None


def test_child_process_draws_the_same():
    data = file_of(*LINES)
    request = PictureRequest("a.pdf", 1, SENTENCES, only_parts=True)
    parser = ChildParser()
    try:
        assert parser.draw(data, request) == draw_page(data, request)
        assert parser.draw(data, PictureRequest("a.pdf", 9)) is None
    finally:
        parser.close()


def test_folder_removes_the_least_recently_used_files(tmp_path: Path):
    folder = PictureFolder(tmp_path, max_bytes=4000, reserve=0)
    for name in ("a", "b", "c"):
        folder.write(WORLD, "book", "ff", name, name.encode() * 1200)
    for path in tmp_path.rglob("*-a"):
        path.touch()
    folder.write(WORLD, "book", "ff", "d", b"d" * 1200)

    kept = [name for name in "abcd" if folder.read(WORLD, "book", "ff", name)]
    assert len(kept) == 3
    assert "d" in kept
    folder.write(WORLD, "book", "ff", "e", b"e" * 5000)
    assert folder.read(WORLD, "book", "ff", "e") is None


def test_folder_returns_no_damaged_file(tmp_path: Path):
    folder = PictureFolder(tmp_path, max_bytes=4000, reserve=0)
    folder.write(WORLD, "book", "ff", "a", b"picture")
    [file] = [path for path in tmp_path.rglob("*") if path.is_file()]
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    assert folder.read(WORLD, "book", "ff", "a") is None


def test_folder_keeps_the_files_of_one_source(tmp_path: Path):
    folder = PictureFolder(tmp_path, max_bytes=4000, reserve=0)
    folder.write(WORLD, "book", "aa", "a", b"old")
    folder.write(WORLD, "book", "bb", "a", b"new")
    folder.keep_only(WORLD, "book", "bb")
    assert folder.read(WORLD, "book", "aa", "a") is None
    assert folder.read(WORLD, "book", "bb", "a") == b"new"
    assert folder.remove(WORLD, "book").files == 1
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
