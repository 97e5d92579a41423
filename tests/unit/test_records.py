"""CSV, TSV, JSON and JSON Lines: as one document, or with a mapping one for each record."""

import json
from typing import Any

import pytest

from tests.support.failures import raises_code
from truespan.errors import InvalidArgument
from truespan.parsing import load
from truespan.parsing.members import list_members, read_members
from truespan.types.source import DocumentOptions, Member
from truespan.types.text import Block


def block(name: str, data: str | bytes) -> Block:
    (found,) = load(name, data.encode() if isinstance(data, str) else data).blocks
    return found


def texts(name: str, data: str) -> list[tuple[int, str]]:
    return [(each.pages[0].page, each.text) for each in load(name, data.encode()).blocks]


ROWS = "name | note\nAnn | a, b\nBob | two lines"


def test_tables_are_read_in_any_dialect_and_encoding() -> None:
    plain = 'name,note\nAnn,"a, b"\nBob,"two\nlines"\n'
    for data in (
        plain.encode(), b"\xef\xbb\xbf" + plain.encode(), plain.encode("utf-16"),
        plain.encode("utf-16-le"), plain.encode("utf-16-be"), plain.replace("\n", "\r\n").encode(),
        plain.replace("\n", "\r").encode(), b'name;note\nAnn;a, b\nBob;"two\nlines"',
        b'name\tnote\nAnn\ta, b\nBob\t"two\nlines"\n\n',
        b'"name"|"note"\n"Ann"|"a, b"\n"Bob"|"two\nlines"\n',
        b'name , note\nAnn , "a, b"\nBob , "two\nlines"',
    ):  # fmt: skip
        found = block("x.csv", data)
        assert (found.text, found.header_rows) == (ROWS, 1), data
        assert [page.page for page in found.pages] == [1, 2, 3], data
        assert {page.unit for page in found.pages} == {"line"}
    hinted = block("x.csv", "sep=;\na;b\n1;2\n")
    assert (hinted.text, hinted.pages[0].page) == ("a | b\n1 | 2", 2)
    escaped = block("x.csv", 'a,b\n1,"say \\"hi, you\\""\n2,"x"\n')
    assert escaped.text == 'a | b\n1 | say "hi, you"\n2 | x'
    assert block("x.tsv", "a, b\tc\n1\t2, 3").text == "a, b | c\n1 | 2, 3"
    assert block("x.csv", "caf\xe9,b\n1,2".encode("cp1252")).text == "café | b\n1 | 2"


def test_csv_rows_have_their_lines_and_unclosed_quotes_lose_none() -> None:
    found = block("x.csv", 'a,b\n1,"x\n\ny"\n\n2,z\n')
    assert [(page.page, page.offset) for page in found.pages] == [(1, 0), (2, 6), (6, 14)]
    found = block("x.csv", 'id,size\n1,3"\n2,"open\n3,c\n')
    assert found.text == 'id | size\n1 | 3"\n2 | "open\n3 | c'


def test_first_row_is_a_header_unless_it_has_values() -> None:
    for data, expected in (
        ("name,city\nAnn,Oslo", 1), (",a,b\n0,x,y", 1), ("country,2019,2020\nNorway,5.3,5.4", 1),
        ("Norway,5.3\nSweden,4.1", 0), ("2019,2020\n1,2", 0), ("a@b.example,x\nc@d.example,y", 0),
        ("2026-05-01,x\n2026-05-02,y", 0), ("https://a.example,x\nhttps://b.example,y", 0),
        ("red,x\nred,y", 0), ("only,one", 0),
    ):  # fmt: skip
        assert block("x.csv", data).header_rows == expected, data


def test_csv_text_above_a_table_stays_text() -> None:
    above, table = load("x.csv", b"Fares of 2026\n\nfrom,to,fee\nA,B,4\nB,C,5\n").blocks
    assert (above.text, table.text, table.header_rows) == (
        "Fares of 2026", "from | to | fee\nA | B | 4\nB | C | 5", 1,
    )  # fmt: skip
    ragged = block("x.csv", "a,b,c\n1,2\n1,2,3,4\n1,2,3,4,5\n")
    assert (ragged.text, ragged.header_rows) == (
        "a | b | c\n1 | 2\n1 | 2 | 3 | 4\n1 | 2 | 3 | 4 | 5",
        1,
    )
    titled = load("x.csv", b"Fares, May\n\nfrom;to;fee\nA;B;4,5\n").blocks
    assert [(each.text, each.header_rows) for each in titled] == [
        ("Fares | May", 0), ("from | to | fee\nA | B | 4,5", 1),
    ]  # fmt: skip
    prose = "Hello, world, here I am.\nno comma here\nthe third"
    lines = block("x.csv", prose)
    assert (lines.text, lines.header_rows) == (prose, 0)
    with raises_code("source_not_text"):
        load("x.csv", b"a,b\n\x00\x01\x02\x03\x04\x05\x06\x07\x08")


def test_json_records_are_lines_of_fields() -> None:
    long = "word " * 100
    data = json.dumps([{"n": 1.10, "to": {"city": "Oslo"}}, {"tags": ["a", "b"], "body": long}])
    data = data.replace('{"tags', '\n{"tags').replace("1.1,", "1.10,")
    assert texts("x.json", data) == [
        (1, "n: 1.10\nto.city: Oslo"), (2, "tags: a, b"), (2, f"body: {long.strip()}"),
    ]  # fmt: skip
    config = (
        '{"name": "app",\n"on": true, "no": null,\n"build": {"x": "y"},\n"lists": [[1], [2]],\n'
        '"items": [{"a": 1},\n{"a": [{"b": 2}, {"b": 3}]}]}'
    )
    assert texts("x.json", config) == [
        (1, "name: app\non: true"), (3, "build.x: y"), (4, "lists.1: 1\nlists.2: 2"),
        (5, "items"), (5, "a: 1"), (6, "a.1.b: 2\na.2.b: 3"),
    ]  # fmt: skip
    assert [each.section for each in load("x.json", config.encode()).blocks[-3:]] == ["items"] * 3
    assert texts("x.json", '["x", 3]\n') == [(1, "x"), (1, "3")]
    # Equal names, and halves of characters.
    assert texts("x.json", '{"a": 1, "a": 2, "b": "\\ud800\u00e9"}') == [
        (1, "a: 1\na: 2\nb: \ufffdé")
    ]


def test_lines_that_are_not_json_are_kept_as_text() -> None:
    loaded = load("x.jsonl", b'{"a": 1}\n\n{"a": 2,}\n{"a": {"b": 3}}\n')
    assert [(each.pages[0].page, each.text) for each in loaded.blocks] == [
        (1, "a: 1"), (3, '{"a": 2,}'), (4, "a.b: 3"),
    ]  # fmt: skip
    assert loaded.warnings == ("1 line is not JSON and read as text.",)
    # Lines of objects under the name of JSON, and JSON with comments.
    assert texts("x.json", '{"a": 1, "b": {"c": 2}}\n{"a": 3}\n') == [
        (1, "a: 1"), (1, "b.c: 2"), (2, "a: 3"),
    ]  # fmt: skip
    commented = block("x.json", '{\n  // why\n  "a": 1\n}\n')
    assert commented.text == '{\n  // why\n  "a": 1\n}'
    assert [page.page for page in commented.pages] == [1, 2, 3, 4]
    # A file that breaks off, or goes on with something else, keeps what precedes that.
    for rest in ("", "\n{bad}\n]", ',\n{"a": 2,\n"b"'):
        kept, *others = load("x.json", f'{{"n": 1,\n"list": [{{"a": 1}}{rest}'.encode()).blocks
        assert (kept.text, [each.text for each in others[:2]]) == ("n: 1", ["list", "a: 1"])
        assert "".join(each.text for each in others[2:]).split() == rest.strip(",").split()
    mixed = load("x.json", b'{"a": 1}\noh\n{"b": 2}\n"c"\n').blocks
    assert [each.text for each in mixed] == ["a: 1", "oh", "b: 2", '"c"']


def test_json_depth_and_repeated_names_are_limited() -> None:
    inner = {str(number): "x" for number in range(2000)}
    name = "n" * 50_000
    for value in (inner, [[inner]] * 20, [inner] * 20, {"a": [inner] * 20}):
        found = load("x.json", json.dumps({name: value}).encode())
        assert sum(len(each.text) + len(each.section or "") for each in found.blocks) < 10_000_000
    for data in ("[" * 100_000, '{"a":' * 5000, "[" * 200 + "]" * 200):
        with raises_code("source_unsafe"):
            load("x.json", data.encode())


TICKETS = """\
ticket,subject,body,link,author,created,open,votes,labels,lang
T-1,Lamp,The lamp is out.,https://desk.example/1,Ann,2026-05-01,true,3,"dark; harbour",en
T/2,Ferry,<p>The ferry &amp; the <b>bell</b>.</p>,,Bob,2026-05-02T10:00:00Z,false,007,,
,No id,Text,,,,,,,
T-4,,,,,,,,,
T-1,Again,Text,,,,,,,
"""
FIELDS = {
    "text": "body", "title": "subject", "source_url": "link",
    "metadata": ["author", "created", "open", "votes"], "id": "ticket", "tags": "labels",
    "language": "lang",
}  # fmt: skip


def options(fields: dict[str, Any]) -> DocumentOptions:
    return DocumentOptions.from_arguments(fields=fields)


def members(name: str, data: str, fields: dict[str, Any]) -> tuple[Member, ...]:
    listed = list_members(name, data.encode(), options(fields)).members
    if not listed:
        return ()
    return read_members(name, data.encode(), options(fields), listed[0].name).members


def test_each_row_of_a_table_becomes_a_document() -> None:
    assert list_members("x.csv", TICKETS.encode(), options(FIELDS)).unsupported == 1
    lamp, ferry, blank, again = members("x.csv", TICKETS, FIELDS)

    assert (lamp.name, lamp.ending, lamp.line) == ("T-1", ".txt", 2)
    assert lamp.data == b"Lamp\n\nThe lamp is out."
    assert lamp.declared == {
        "title": "Lamp", "source_url": "https://desk.example/1", "language": "en",
        "tags": ["dark", "harbour"],
        "metadata": {"author": "Ann", "created": "2026-05-01", "open": True, "votes": 3},
    }  # fmt: skip
    assert (ferry.name, ferry.ending) == ("T%2F2", ".html")
    assert [each.text for each in load(f"{ferry.name}{ferry.ending}", ferry.data).blocks] == [
        "Ferry",
        "The ferry & the bell.",
    ]
    assert ferry.declared["metadata"]["votes"] == "007"
    for refused, fault in ((blank, "In line 4 its ticket is blank."), (again, "also in line 2.")):
        assert refused.refusal is not None
        assert refused.refusal.advice is not None
        assert refused.refusal.advice.endswith(fault)


def test_each_object_of_a_json_file_becomes_a_document() -> None:
    records = [
        {"id": 7, "fields": {"summary": "Lamp", "by": {"name": "Ann"}}, "body": ["one", "two"]},
        {"id": 8, "fields": {"summary": "Ferry"}, "body": "<script>1 < 2", "n": 1.5, "on": False},
    ]
    mapped = {
        "text": ["fields.summary", "body"],
        "id": "id",
        "metadata": {"who": "fields.by.name", "count": "n", "on": "on"},
    }
    lines = "\n".join(map(json.dumps, [*records]))
    for name, data in (
        ("x.jsonl", lines), ("x.json", lines), ("x.json", json.dumps(records)),
        ("x.json", json.dumps({"total": 2, "pages": [{"n": 1}], "items": records})),
        ("x.json", json.dumps({"pages": [{}, {}, {}], "items": records})),
    ):  # fmt: skip
        chosen = {"records": "items"} if '"pages": [{},' in data else {}
        lamp, ferry = members(name, data, mapped | chosen)
        assert (lamp.name, lamp.data, lamp.declared) == (
            "7", b"Lamp\n\none, two", {"metadata": {"who": "Ann"}},
        ), data  # fmt: skip
        assert ferry.data == b"Ferry\n\n<script>1 < 2"
        assert ferry.declared == {"metadata": {"count": 1.5, "on": False}}
    deep = json.dumps({"response": {"docs": records}})
    assert len(members("x.json", deep, mapped | {"records": "response.docs"})) == 2
    assert [m.name for m in members("x.json", json.dumps(records[0]), {"text": "body"})]
    broken, good, _ = members("x.jsonl", f"{{no\n{lines}", mapped)
    assert broken.refusal is not None
    assert "In line 1 it is not JSON" in (broken.refusal.advice or "")
    assert good.name == "7"


def test_without_an_id_the_content_identifies_a_record() -> None:
    first = members("x.csv", "text,by\nLamp,Ann\nFerry,Bob\nLamp,Ann\n", {"text": "text"})
    moved = members("x.csv", "text,by\nFerry,Bob\nNew,Eve\nLamp,Ann\n", {"text": "text"})
    assert len(first) == 2
    assert {each.name for each in first} < {each.name for each in moved}


def test_unknown_fields_are_refused_with_the_known_ones() -> None:
    for name, data, fields, reason in (
        ("x.csv", "a,b\n1,2", {"text": "body"}, "no field 'body'. The fields are a, b."),
        ("x.json", '[{"a": {"b": 1}}]', {"text": "c"}, "no field 'c'. The fields are a, a.b."),
        ("x.json", '{"a": [{"b": 1}]}', {"text": "b", "records": "c"}, "The lists are: a."),
    ):
        with raises_code("fields_invalid") as caught:
            list_members(name, data.encode(), options(fields))
        assert reason in (caught.value.advice or ""), data
    for fields, reason in (
        ({"title": "a"}, "must name the text"),
        ({"text": "a", "titel": "b"}, "unknown member 'titel'"),
        ({"text": 3}, "has a text that must be a list"),
        ({"text": ["a", ""]}, "has a text that is blank"),
        ({"text": "a", "format": "pdf"}, "must be 'text', 'html' or 'markdown'"),
        ({"text": "a", "metadata": "b"}, "has a metadata that must be a list"),
    ):
        with pytest.raises(InvalidArgument, match=reason):
            options(fields)
