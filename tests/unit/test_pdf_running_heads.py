"""Removal of running heads and page numbers of PDF files."""

from pathlib import Path

import pytest

from tests.promises import proves
from tests.support.pdf_maker import Page, Words, column, make_pdf
from tests.support.worlds import make_library
from truespan.extensions.checks.sanitize.findings import Mode
from truespan.extensions.checks.sanitize.sanitizer import Sanitizer
from truespan.ingest.draft import Preparation
from truespan.parsing import load
from truespan.types.source import ParseOptions
from truespan.types.text import Loaded

BODY = [
    "The ferry left the quay at six in the morning, and nobody who",
    "stood there saw that one of the lamps had gone out before it",
    "was light. The keeper of the landing wrote the hour down in a",
]
LABELS = b"/PageLabels << /Nums [0 << /S /D /St 12 >>] >>"
"""Labels of pages: 12, 13, 14 and so on."""


def read(pages: list[Page], *, keep: bool = False, catalog: bytes = b"") -> Loaded:
    return load("a.pdf", make_pdf(pages, catalog=catalog), ParseOptions(running_heads=keep))


def text_of(loaded: Loaded) -> str:
    return "\n".join(block.text for block in loaded.blocks)


def pages_with(*heads: Words | list[Words]) -> list[Page]:
    """Return a page for each head, above different lines of the same form."""
    return [
        Page(
            [
                *(head if isinstance(head, list) else [head]),
                *column([f"{number} {BODY[0]}", *BODY[1:]]),
            ]
        )
        for number, head in zip("abcdefgh", heads, strict=False)
    ]


def heads(text: str, numbers: range, *, y: float = 760, size: float = 10) -> list[Page]:
    return pages_with(*(Words(72, y, text.format(number), size) for number in numbers))


def apart(left: str, right: str, numbers: range) -> list[Page]:
    return pages_with(
        *(
            [Words(72, 760, left.format(number)), Words(480, 760, right.format(number))]
            for number in numbers
        )
    )


@proves("loader.running-heads")
def test_page_counts_that_are_text_are_kept() -> None:
    first = range(1, 5)
    files = {
        "years in titles": (heads("Schedule of fees, year {}", range(2021, 2025)), b""),
        "years in titles at the foot": (heads("Fees of {}", range(2021, 2025), y=40), b""),
        "years alone": (heads("{}", range(2021, 2025)), b""),
        "two years": (heads("{}/25", range(2021, 2025)), b""),
        "numbered titles": (heads("Lesson {}", first), b""),
        "numbers within titles": (heads("Lesson {}: The Quay", range(12, 16)), LABELS),
        "titles of slides": (heads("Page {}", first, size=18), b""),
        "a number in large type": (heads("{}", first, size=18), b""),
        "numbers of invoices": (apart("Invoice", "{}", range(1001, 1005)), b""),
        "names with numbers": (apart("ACME", "Week {}", first), b""),
        "numbered sections": (
            pages_with(
                *(Words(72, 760, f"{n} {name}") for n, name in enumerate(["Aim", "Way", "End"], 1))
            ),
            b"",
        ),
        "numbers of a list": (heads("{}.", first), b""),
        "chapters": (
            pages_with(*(Words(300, 760, numeral) for numeral in ("I", "II", "III", "IV"))),
            b"",
        ),
        "next to the body": (heads("{}", first, y=732), b""),
        "the beginning of a paragraph": (heads("Page {}", first, y=734), b""),
        "its end": (heads("page {}", first, y=682), b""),
        "poems with a number, and pages": (
            pages_with(*([Words(300, 760, str(n)), Words(300, 40, str(n + 30))] for n in first)),
            b"",
        ),
        "a head of two lines, one of which changes": (
            pages_with(
                *(
                    [Words(72, 762, "Schedule of fees"), Words(72, 750, f"for {name}")]
                    for name in ("boats", "carts", "barges", "rafts", "ships")
                )
            ),
            b"",
        ),
    }  # fmt: skip
    wrong = {}
    for name, (pages, catalog) in files.items():
        loaded = read(pages, catalog=catalog)
        lost = [
            word.text
            for page in pages
            for word in page.words
            if word.text not in text_of(loaded).replace("\n", " ") and word.y in (760, 762, 40)
        ]
        if lost or loaded.removed:
            wrong[name] = lost, loaded.removed
    assert not wrong


@proves("loader.running-heads")
def test_page_numbers_and_running_heads_are_removed() -> None:
    numbers = range(12, 17)
    title = [Page([Words(200, 500, "The Ferry", 20)])]
    files: dict[str, tuple[list[Page], bytes, int]] = {
        "a number": (heads("{}", numbers), b"", 5),
        "between marks": (heads("- {} -", numbers, y=40), b"", 5),
        "after a word": (heads("Page {}", numbers), b"", 5),
        "with the total": (heads("Seite {} von 40", numbers), b"", 5),
        "of a slash": (heads("{} / 40", numbers, y=40), b"", 5),
        "small Roman digits": (
            pages_with(*(Words(300, 40, text) for text in ("iv", "v", "vi", "vii"))), b"", 4
        ),
        "beside the word and others": (heads("Annual report, page {}", numbers), b"", 4),
        "the label": (heads("The Ferry {}", numbers), LABELS, 4),
        "the label across a gap": (apart("The Ferry", "{}", range(1, 6)), b"", 4),
        "the label after a mark": (heads("{} | The Ferry", range(1, 6)), b"", 4),
        "a title that is elsewhere": (title + heads("The Ferry {}", range(2, 7)), b"", 5),
        "the same words": (heads("The Ferry", numbers), b"", 4),
        "the same words and a title": (title + heads("The Ferry", numbers), b"", 5),
        "two lines": (
            pages_with(
                *([Words(72, 762, "The Ferry"), Words(72, 750, f"Page {n}")] for n in numbers)
            ),
            b"", 9,
        ),
    }  # fmt: skip
    wrong = {}
    for name, (pages, catalog, count) in files.items():
        loaded = read(pages, catalog=catalog)
        kept = read(pages, catalog=catalog, keep=True)
        words = [word.text for page in pages for word in page.words]
        if (
            len(loaded.removed) != count
            or kept.removed
            or any(word not in text_of(kept).replace("\n", " ") for word in words)
        ):
            wrong[name] = loaded.removed, kept.removed
        elif not all(f"{letter} The ferry left" in text_of(loaded) for letter in "abc"):
            wrong[name] = "the body is damaged", text_of(loaded)
    assert not wrong


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "report.pdf"
    path.write_bytes(make_pdf(heads("Ann Lee, ann@lee.example, page {}", range(1, 6))))
    return str(path)


@proves("loader.running-heads")
def test_running_heads_are_in_the_report_and_the_log(tmp_path: Path, file: str) -> None:
    world = make_library(tmp_path / "library").library.create_world("world")
    report = world.ingest(file)
    (said,) = report.warnings
    assert said.startswith("report.pdf: 4 lines were left out as running heads or page numbers: ")
    assert '"Ann Lee, ann@lee.example, page 2"' in said
    lines = [line.line for line in world.jobs.lines(report.job)]
    assert any("4 lines were left out" in line for line in lines)
    assert not any("Ann" in line for line in lines)


def test_running_heads_in_a_report_are_sanitized(tmp_path: Path, file: str) -> None:
    preparation = Preparation(sanitizer=Sanitizer(mode=Mode.ON))
    world = make_library(tmp_path / "library", preparation=preparation).library.create_world(
        "world"
    )
    (said,) = world.ingest(file).warnings
    assert "4 lines were left out" in said
    assert "lee" not in said


@proves("loader.running-heads")
def test_running_heads_can_be_kept_by_option_or_setting(tmp_path: Path, file: str) -> None:
    world = make_library(tmp_path / "library").library.create_world("world")
    world.ingest(file)
    assert "page 3" not in world.documents.text("report.pdf")

    report = world.ingest(file, running_heads=True)
    assert report.ingested == ["report.pdf"]
    assert not report.warnings
    assert "page 3" in world.documents.text("report.pdf")
    assert world.ingest(file, running_heads=True).unchanged == 1

    settings = Preparation(running_heads=True)
    other = make_library(tmp_path / "other", preparation=settings).library.create_world("world")
    other.ingest(file)
    assert "page 3" in other.documents.text("report.pdf")
    other.ingest(file, running_heads=False)
    assert "page 3" not in other.documents.text("report.pdf")


def test_a_report_lists_a_limited_number_of_remarks(tmp_path: Path) -> None:
    content = make_pdf(heads("Page {}", range(1, 6)))
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(23):
        # A comment at its end makes each file another one.
        (folder / f"{number}.pdf").write_bytes(content + f"%{number}\n".encode())
    report = make_library(tmp_path / "library").library.create_world("world").ingest(str(folder))
    assert len(report.warnings) == 21
    assert report.warnings[-1].startswith("3 more documents")
