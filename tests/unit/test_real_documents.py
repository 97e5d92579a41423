"""Fixtures made by LibreOffice and pandoc keep their words on every machine."""

from pathlib import Path

import pytest

from tests.support.sample_document import PIECES, REVIEWED, told
from tests.support.sample_document_contract import DOCUMENTS, Document, Made, TreatiseContract
from tests.support.word_diff import Comparison, compare, words_of
from truespan.parsing import load

FIXTURES = Path(__file__).parents[1] / "fixtures"
MAX_SIZE = 60_000


@pytest.fixture
def made() -> Made:
    return lambda document: (FIXTURES / document.name).read_bytes()


class TestKeptDocuments(TreatiseContract):
    """The whole suite, on the files in the folder of fixtures."""


def test_words_allowed_to_move_occur_nowhere_else() -> None:
    source = told(PIECES + REVIEWED)
    apart = [*source.notes, *source.boxes]
    assert len({*apart}) == len(apart)
    assert not {*apart} & {*source.body}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_stored_document_is_small_and_names_its_producer(document: Document) -> None:
    assert (FIXTURES / document.name).stat().st_size < MAX_SIZE
    assert f"`{document.name}`" in (FIXTURES / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("found", "difference"), [
    ("one two three four", Comparison()), ("one three four", Comparison(lost=("two",))),
    ("one two two three four", Comparison(doubled=("two",))),
    ("one two three five four", Comparison(added=("five",))),
    ("two three four one", Comparison(moved=1)),
    ("onetwo three four", Comparison(lost=("one", "two"), added=("onetwo",))),
])  # fmt: skip
def test_real_documents_lose_no_words(found: str, difference: Comparison) -> None:
    assert compare(words_of("“One”, two: three – four.".lower()), words_of(found)) == difference


def test_pdf_right_to_left_text_stays_together() -> None:
    loaded = load("libreoffice.pdf", (FIXTURES / "libreoffice.pdf").read_bytes())
    arabic = [block.text for block in loaded.blocks if "\u0645" in block.text and " " in block.text]
    assert len(arabic) == 1
    assert len(arabic[0].split()) > 10
