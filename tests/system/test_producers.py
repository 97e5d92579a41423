"""Documents made by LibreOffice and pandoc during the test keep their content."""

from __future__ import annotations

import pytest

from tests.support.sample_document import PIECES, REVIEWED, shown_words, told
from tests.support.sample_document_contract import (
    Document,
    Holds,
    Made,
    TreatiseContract,
    check_words,
)
from tests.support.word_diff import compare
from tests.system.producers import Workshop
from truespan.parsing import load

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("workshop"))


@pytest.fixture(scope="module")
def made(workshop: Workshop) -> Made:
    kept: dict[str, bytes] = {}

    def make(document: Document) -> bytes:
        if document.name not in kept:
            by = workshop.pandoc if document.name.startswith("pandoc") else workshop.libreoffice
            kept[document.name] = by(document.pieces, document.name).read_bytes()
        return kept[document.name]

    return make


class TestFreshDocuments(TreatiseContract):
    """The whole suite, on files made during the test."""


@pytest.mark.parametrize("ending", ["docx", "odt"])
def test_document_converted_twice_keeps_every_word(workshop: Workshop, ending: str) -> None:
    first = workshop.pandoc(PIECES, f"both.{ending}")
    again = workshop.converted(first, "docx")

    check_words(Document(again.name, frozenset(Holds)), load(again.name, again.read_bytes()))


def test_page_saved_by_a_word_processor_keeps_every_word(workshop: Workshop) -> None:
    page = workshop.pandoc(PIECES, "opened.html")
    again = workshop.converted(page, "docx")

    check_words(Document(again.name, frozenset(Holds)), load(again.name, again.read_bytes()))


def test_changed_document_saved_again_keeps_tracked_changes(workshop: Workshop) -> None:
    first = workshop.libreoffice(PIECES + REVIEWED, "again.docx")
    again = workshop.converted(first, "docx")

    document = Document(again.name, frozenset(Holds), PIECES + REVIEWED)
    check_words(document, load(again.name, again.read_bytes()))


@pytest.mark.parametrize("name", ["contents.docx", "contents-3.epub", "contents.html"])
def test_table_of_contents_removes_nothing(workshop: Workshop, name: str) -> None:
    with_contents = workshop.pandoc(PIECES, name, "--toc", "--toc-depth=2")
    loaded = load(name, with_contents.read_bytes())

    found = [word for block in loaded.blocks for word in shown_words(block.text)]
    assert compare(told(PIECES).body, found).lost == ()
    (lamp,) = [b for b in loaded.blocks if b.text.startswith("The lamp on Vael Rock was lit")]
    assert (lamp.chapter, lamp.section) == ("The Lamp", None)
