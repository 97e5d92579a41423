"""Decoding of text files, and refusals."""

import codecs

import pytest

from tests.support.failures import raises_code
from truespan.parsing import load, supported

SENTENCE = "Grüße – “quoted”, naïve € 漢字."


def text_of(data: bytes, name: str = "note.txt") -> str:
    """Return all text of a source."""
    return "\n\n".join(block.text for block in load(name, data).blocks)


@pytest.mark.parametrize(
    "name", ["a.txt", "a.text", "a.md", "a.markdown", "A.TXT", "dir/b.Md", "x.y.txt"]
)
def test_text_and_markdown_are_supported(name: str):
    assert supported(name)
    assert text_of(b"Hello there.", name) == "Hello there."


@pytest.mark.parametrize("name", ["a.doc", "a.msg", "a", "", ".txt", "a.txt.gz", "txt", "a.md/b"])
def test_other_names_are_not_supported(name: str):
    assert not supported(name)
    with raises_code("source_unsupported"):
        load(name, b"Hello there.")


@pytest.mark.parametrize(("mark", "encoding"), [
    (b"", "utf-8"), (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"), (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
])  # fmt: skip
def test_unicode_is_decoded_with_or_without_its_mark(mark: bytes, encoding: str):
    assert text_of(mark + SENTENCE.encode(encoding)) == SENTENCE


def test_decoding_restores_windows_1252_and_keeps_unicode():
    assert text_of("“Schöne Grüße” – it’s 5 €".encode("cp1252")) == "“Schöne Grüße” – it’s 5 €"
    data = SENTENCE.encode() + b" A broken \xe2 byte."
    assert text_of(data) == SENTENCE + " A broken \ufffd byte."
    assert text_of("\x93It\x92s true,\x94 he said\x85".encode()) == "“It’s true,” he said…"
    assert text_of("one\x85two".encode()) == "one\ntwo"
    assert text_of(b"A long enough line with one \x00stray byte.").endswith("one stray byte.")


@pytest.mark.parametrize("data", [
    b"\xd0\xcf\x11\xe0 an old office document", b"PK\x03\x04 an archive", b"\x89PNG\r\n\x1a\n",
    b"\x7fELF\x02\x01", b"\x1f\x8b\x08\x00", b"GIF89a and some words",
    b"x" * 257 + b"ustar" + b"x" * 100, b"a\x00b\x00c\x00", bytes(range(256)), b"\x80\x81\x8d\x8f",
    b"caf\xe9 with a control \x01 character", codecs.BOM_UTF16_LE + b"\x00\xd8\x41\x00",
    codecs.BOM_UTF32_LE + b"odd",
])  # fmt: skip
@pytest.mark.parametrize("name", ["note.txt", "note.md"])
def test_bytes_that_are_not_text_are_refused(name: str, data: bytes):
    with raises_code("source_not_text"):
        load(name, data)


@pytest.mark.parametrize(
    "data", [b"", b" \n\t\r\n ", codecs.BOM_UTF8, "\u200b\n\u2060".encode(), "\u3000".encode()]
)
@pytest.mark.parametrize("name", ["note.txt", "note.md"])
def test_source_without_text_is_refused(name: str, data: bytes):
    with raises_code("source_empty"):
        load(name, data)


def test_markdown_without_visible_text_is_refused():
    with raises_code("source_empty"):
        load("a.md", b"---\ntitle: Nothing\n---\n\n***\n\n[a]: http://example.org\n\n&#8203;\n")


def test_refusal_names_the_file_alone_and_loading_repeats():
    with raises_code("source_not_text") as refusal:
        load("private/folder/note.txt", b"\x00\x01\x02")
    assert refusal.value.name == "note.txt"
    assert "private" not in str(refusal.value)
    data = ("Chapter 1\n\nText.\n\n" * 5).encode()
    assert load("a.txt", data) == load("a.txt", data)


def test_title_has_no_terminal_control_characters() -> None:
    page = (
        "<html><head><title>The\x1b[31m lamp\u202e</title>"
        "<meta name='author' content='A. \x1b]0;B\x07'></head>"
        "<body><h1>Night\x1b[2J\twatch\u2066</h1><p>It burned.</p></body></html>"
    )
    loaded = load("lamp.html", page.encode())
    said = (loaded.title, loaded.properties.title, *loaded.properties.authors)
    assert said == ("Night[2J watch", "The[31m lamp", "A. ]0;B")
