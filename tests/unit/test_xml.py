"""Hostile XML, and malformed pages."""

import contextlib

import pytest

from tests.support.failures import raises_code
from tests.support.rows import each_row
from truespan.errors import SourceRefused
from truespan.parsing.xml import local, parse_xhtml, parse_xml

LAUGHS = (
    '<!DOCTYPE a [<!ENTITY b "ha">'
    + "".join(
        f'<!ENTITY {n} "{f"&{p};" * 10}">' for p, n in zip("bcdefghi", "cdefghij", strict=True)
    )
    + "]><a>&j;</a>"
)
EXTERNAL = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]><a>&x;</a>'
REMOTE = '<!DOCTYPE a SYSTEM "http://127.0.0.1:9/x.dtd"><a/>'


def page(body: str) -> str:
    """Return the text of the page with this body, as it would be read."""
    return "".join(parse_xhtml("p", f"<html><body>{body}</body></html>".encode()).itertext())


# Strict


def test_elements_omit_comments_and_instructions() -> None:
    root = parse_xml(
        "a", b'<?xml version="1.0"?><!-- c --><a x="1">b<!-- c -->c<?pi x?>d</a><!-- -->'
    )
    assert (root.text, len(root), root.get("x")) == ("bcd", 0, "1")


@each_row("document", [LAUGHS, EXTERNAL, REMOTE, "<!DOCTYPE a><a/>"])
@each_row("before", ["", "\n", "<!-- x -->", '<?xml version="1.0"?>\n<?x y?> <!--\n-->'])
@each_row("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_document_type_is_refused(document: str, before: str, encoding: str) -> None:
    if encoding.startswith("utf-16-"):
        before = before.strip()
    with raises_code("source_unsafe"):
        parse_xml("a", (before + document).encode(encoding))


def test_document_type_in_a_misleading_encoding_is_refused() -> None:
    hidden = f'<?xml version="1.0" encoding="UTF-32BE"?>{EXTERNAL}'.encode("utf-32-be")
    with raises_code("source_unsafe"):
        parse_xml("a", hidden)


@each_row(
    "document",
    [b"", b"  ", b"text", b"<a>", b"<a></b>", b"<a/><b/>", b"<a>&nbsp;</a>", b"<a>\x00</a>",
     b"<q:a/>", b'<?xml version="1.0" encoding="nonsense"?><a/>', b"\xff\xfe<",
     b"<\0a", b"<a>\xff</a>"],
)  # fmt: skip
def test_malformed_xml_is_broken(document: bytes) -> None:
    with raises_code("source_broken"):
        parse_xml("a", document)


@each_row("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "iso-8859-1"])
def test_encoding_is_detected_by_mark_or_declaration(encoding: str) -> None:
    declared = f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?><a>é</a>'
    assert parse_xml("a", declared.encode(encoding)).text == "é"
    assert parse_xhtml("a", declared.encode(encoding)).text == "é"


@each_row("depth", [300, 100_000])
def test_endless_nesting_is_refused(depth: int) -> None:
    deep = b"<a>" * depth + b"</a>" * depth
    with raises_code("source_unsafe"):
        parse_xml("a", deep)
    with raises_code("source_unsafe"):
        parse_xhtml("a", deep.replace(b"a", b"div"))


def test_text_over_the_parser_limit_is_too_large() -> None:
    with raises_code("source_too_large"):
        parse_xml("a", b"<a>" + b"x" * 10_100_000 + b"</a>")


def test_names_are_read_without_their_namespace() -> None:
    root = parse_xml("a", b'<w:a xmlns:w="urn:x"><b/></w:a>')
    assert [local(element) for element in root.iter()] == ["a", "b"]


# Pages


@each_row("doctype", [
    "<!DOCTYPE html>", "<!doctype html>",
    '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN"\n "http://127.0.0.1:9/x[1].dtd">',
    '<?xml version="1.0"?>\n<!-- a > b -->\n<!DOCTYPE html>',
])  # fmt: skip
def test_harmless_document_type_is_dropped(doctype: str) -> None:
    root = parse_xhtml("a", f"{doctype}<html><body>x&nbsp;y</body></html>".encode())
    assert "".join(root.itertext()) == "x\xa0y"
    assert not root.getroottree().docinfo.doctype


@each_row("document", [LAUGHS, EXTERNAL, LAUGHS.lower()])
@each_row("before", ["", "\ufeff", "<?xml version='1.0'?><!-- x -->"])
def test_document_type_with_declarations_is_refused(document: str, before: str) -> None:
    with raises_code("source_unsafe"):
        parse_xhtml("a", (before + document).encode())


@each_row(("written", "shown"), [
    ("a&nbsp;b&eacute;", "a\xa0bé"), ("&amp;&lt;&gt;&quot;&apos;", "&<>\"'"),
    ("&AMP;&nvlt;", "&<\u20d2"), ("&LT;b&GT;", "<b>"), ("&#233;&#xE9;", "éé"),
    ("&unknown;", "&unknown;"), ("AT&T & co", "AT&T & co"), ("<![CDATA[&nbsp;<b>]]>", "&nbsp;<b>"),
    ("a<!-- &nbsp; -->b", "ab"), ("a\x0cb\x01c", "a bc"),
])  # fmt: skip
def test_named_characters_become_the_characters(written: str, shown: str) -> None:
    assert page(written) == shown


def test_named_quote_does_not_end_its_attribute() -> None:
    root = parse_xhtml("a", b'<img alt="so &quot;called&quot; &lt;b&gt;"/>')
    assert root.get("alt") == 'so "called" <b>'


def test_malformed_pages_are_read_as_html() -> None:
    assert page("<p>a<br>b<p>c & d<title/><![CDATA[e<f]]>&eacute;") == "abc & de<fé"
    assert page("<p>x" * 1000) == "x" * 1000
    strict = parse_xhtml("a", b'<html xmlns="http://www.w3.org/1999/xhtml"><body/></html>')
    loose = parse_xhtml("a", b"<html><body><svg:image></body></html>")
    assert [local(element) for element in strict.iter()] == ["html", "body"]
    assert [local(element) for element in loose.iter()] == ["html", "body", "image"]


@each_row("document", [b"", b"  ", b"\x89PNG\r\n\x1a\n\0\0", b"<!-- x -->"])
def test_other_data_is_a_broken_page(document: bytes) -> None:
    with raises_code("source_broken"):
        parse_xhtml("a", document)


@each_row("encoding", ["punycode", "idna", "unicode_escape", "hex", "rot13", "zlib"])
def test_unknown_encoding_is_not_used(encoding: str) -> None:
    declared = f'<?xml version="1.0" encoding="{encoding}"?><a>\\u0041b-</a>'.encode()
    assert parse_xhtml("a", declared).text == "\\u0041b-"


def test_an_encoding_declared_in_the_head_of_a_page_is_used() -> None:
    meta = '<html><head><meta charset="windows-1251"></head><body>Глава</body></html>'
    assert "".join(parse_xhtml("a", meta.encode("cp1251")).itertext()) == "Глава"


@pytest.mark.parametrize(
    "piece",
    ["<!--", "<?x ?>", "<!-- -->", "&a", "<![CDATA[", "<meta ", " ", "<?xml ", "<a ", "<", '<a b="',
     "<!DOCTYPE a ", "]]>", "&amp", "<![CDATA[]]>"],
)  # fmt: skip
@pytest.mark.timeout(60)
def test_unclosed_constructs_take_linear_time(piece: str) -> None:
    # With work that grows by the square of the length, this would take ten minutes.
    hostile = (piece * 500_000).encode()
    for parse in (parse_xml, parse_xhtml):
        with contextlib.suppress(SourceRefused):
            parse("p", hostile)
