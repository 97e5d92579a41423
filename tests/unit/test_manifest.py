"""Manifests as bytes: allowed lines, and faults with their numbers."""

import codecs
import json
from typing import Any

from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.rows import each_row
from truespan.errors import LinesInvalid
from truespan.ingest.manifest import MAX_LINE_LENGTH, PathPattern, parse_manifest, split_path
from truespan.types.source import DocumentKind, DocumentOptions, Entry

PROFILES = ("window", "sentences", "tokens")


def parse(*lines: str | bytes | dict[str, Any]) -> tuple[Entry, ...]:
    spelled = [json.dumps(line) if isinstance(line, dict) else line for line in lines]
    data = b"\n".join(line.encode() if isinstance(line, str) else line for line in spelled)
    return parse_manifest("library.jsonl", data, profiles=PROFILES)


def faults(*lines: str | bytes | dict[str, Any]) -> list[tuple[int, str]]:
    """Return the faults of a manifest with these lines."""
    with raises_code("manifest_invalid") as caught:
        parse(*lines)
    assert caught.value.code == "manifest_invalid"
    return caught.value.lines


def fault(line: str | bytes | dict[str, Any]) -> str:
    """Return the only fault of a line."""
    [(number, reason)] = faults(line)
    assert number == 1
    return reason


@proves("manifest.lines")
def test_line_with_all_fields_is_parsed() -> None:
    entry = {
        "path": "books/ferry.epub", "doc_id": "glass-ferry", "profile": "sentences", "kind": "book",
        "tags": ["mystery", "boats", "mystery"], "lang": "en", "priority": 10,
        "metadata": {"shelf": 3, "by": {"name": "A. Ü."}}, "version": "2.0",
        "source_url": "https://example.org/ferry?x=1#top", "title": "The Glass Ferry",
    }  # fmt: skip

    assert parse(entry) == (
        Entry(
            line=1,
            path="books/ferry.epub",
            doc_id="glass-ferry",
            declared=DocumentOptions(
                kind=DocumentKind.BOOK, title="The Glass Ferry", language="en", version="2.0",
                chunking="sentences", tags=("boats", "mystery"),
                source_url="https://example.org/ferry?x=1#top",
                metadata='{"by":{"name":"A. Ü."},"shelf":3}', priority=10,
            ),
        ),
    )  # fmt: skip


@proves("manifest.lines")
def test_lines_declare_only_their_members() -> None:
    assert parse({"path": "a.txt"}) == (Entry(1, "a.txt", None, DocumentOptions()),)
    [entry] = parse({"path": "a.txt", "tags": []})
    assert entry.declared.tags == ()


def test_blank_lines_and_marks_are_skipped_and_line_feeds_end_lines() -> None:
    entries = parse("", '{"path": "a.txt"}\r', " \t ", '  {"path": "b.txt"}  ', "")
    assert [(entry.line, entry.path) for entry in entries] == [(2, "a.txt"), (4, "b.txt")]

    assert parse_manifest("empty.jsonl", b"", profiles=PROFILES) == ()
    assert parse_manifest("empty.jsonl", codecs.BOM_UTF8, profiles=PROFILES) == ()

    line = b'{"path": "a.txt"}'
    assert len(parse(codecs.BOM_UTF8 + line)) == 1
    assert "byte order mark" in faults(line, codecs.BOM_UTF8 + line)[0][1]
    assert fault(codecs.BOM_UTF16_LE + line.decode().encode("utf-16-le")) == "not UTF-8"

    title = "One\u2028two\u0085three"
    [entry] = parse(json.dumps({"path": f"{title[:7]}.txt"}, ensure_ascii=False))
    assert entry.path == "One\u2028two.txt"


@proves("manifest.lines")
def test_all_bad_lines_are_reported_with_their_numbers() -> None:
    found = faults(
        {"path": "good.txt"}, "", {"path": "../bad.txt"}, "// a comment", {"title": "No path"},
        {"path": "two.txt", "priority": 11, "kind": "novel", "colour": "red"},
    )  # fmt: skip
    assert [number for number, _ in found] == [3, 4, 5, 6, 6, 6]


def test_message_lists_ten_lines_and_counts_the_rest() -> None:
    error = LinesInvalid("manifest_invalid", "m.jsonl", faults(*["?"] * 12))
    assert "line 10: not JSON" in str(error)
    assert "line 11" not in str(error)
    assert "and 2 more" in str(error)


@each_row("line", [
    '{"path": "a.txt",}', '{"path": "a.txt", "tags": ["x",]}', "{'path': 'a.txt'}",
    '{"path": "a.txt"} {"path": "b.txt"}', '{"path": "a.txt"} # why', "# a comment",
    '{"path": "a\tb.txt"}', '{"path": "a.txt"', '{"path": "a.txt", "metadata": {"x": NaN}}',
    '{"path": "a.txt", "metadata": {"x": -Infinity}}', '{"path": "a.txt", "priority": 07}',
    "\u00a0", "{", '"', "\x00",
])  # fmt: skip
def test_line_that_is_not_json_is_refused(line: str) -> None:
    assert fault(line).startswith("not JSON: ")


@each_row("line", ["[]", '["path"]', '"a.txt"', "1", "null", "true"])
def test_line_must_be_a_single_object(line: str) -> None:
    assert fault(line) == "not a JSON object"


@each_row(("line", "reason"), [
    (b'{"path": "\xff.txt"}', "not UTF-8"), (b'{"path": "\xed\xa0\x80.txt"}', "not UTF-8"),
    (b'{"path": "\xc0\xae\xc0\xae/a.txt"}', "not UTF-8"), (b'{"path": "\\ud800.txt"}', "surrogate"),
    (b'{"path": "\\udcff.txt"}', "surrogate"),
    (b'{"path": "a.txt", "metadata": {"\\udfff": 1}}', "surrogate"),
    (b'{"path": "a.txt", "path": "b.txt"}', "'path' occurs twice"),
    (b'{"path": "a.txt", "p\\u0061th": "b.txt"}', "'path' occurs twice"),
    (b'{"path": "a.txt", "metadata": {"x": {"y": 1, "y": 1}}}', "'y' occurs twice"),
    (b'{"path": "a.txt", "metadata": {"x": 1e999}}', "too large"),
    (b'{"path": "a.txt", "metadata": {"x": 9223372036854775808}}', "too large"),
    (b'{"path": "a.txt", "metadata": {"x": ' + b"9" * 100_000 + b"}}", "too large"),
    (b'{"path": "a.txt", "metadata": ' + b'{"x":' * 40 + b"1" + b"}" * 41, "nested"),
    (b"[" * 100_000, "nested"),
    (b" " * MAX_LINE_LENGTH + b'{"path": "a.txt"}', f"longer than {MAX_LINE_LENGTH} bytes"),
])  # fmt: skip
def test_strict_json_refuses_more_than_json(line: bytes, reason: str) -> None:
    assert reason in fault(line)


def test_metadata_depth_limit_is_inclusive() -> None:
    def line(depth: int) -> bytes:
        return b'{"path": "a.txt", "metadata": ' + b'{"x":' * depth + b"1" + b"}" * depth + b"}"

    assert len(parse(line(31))) == 1
    assert "nested" in fault(line(32))


@each_row(("field", "meant"), [
    ("titel", "title"), ("Path ", "path"), ("docId", "doc_id"), ("id", "doc_id"),
    ("language", "lang"), ("chunking", "profile"), ("prioritiy", "priority"),
])  # fmt: skip
@proves("manifest.lines")
def test_unknown_field_is_refused_with_the_closest_name(field: str, meant: str) -> None:
    reason = fault({"path": "a.txt", field: "x"})
    assert reason == f"unknown field {field!r}; did you mean {meant}?"


def test_unknown_field_unlike_any_other_is_refused() -> None:
    assert fault({"path": "a.txt", "xyzzy": 1}) == "unknown field 'xyzzy'"
    assert len(fault({"path": "a.txt", "x" * 500_000: 1})) < 120


WRONG = [
    ("path", [None, 1, True, [], {}, "", " ", "a/", "."]),
    ("doc_id", [None, 1, "", "-a", ".a", "_a", "a/b", "a\\b", "a b", "a..b", "a.", "ü", "a\n"]),
    ("doc_id", ["a" * 129, "CON", "nul.txt", "Aux", "com1", "LPT9.tar.gz", "..", "a\u2024b"]),
    ("profile", [None, 1, "", "Window", "pages", "local/bge-small", "bge-small-en-v1.5"]),
    ("kind", [None, 1, "Book", "novel", ["book"]]),
    ("tags", [None, "mystery", {}, [1], [None], [""], ["  "], ["a\nb"], ["x"] * 101, ["x" * 201]]),
    ("lang", [None, 1, "", "e", "english language", "en_GB", "en-", "e\u0301n"]),
    ("priority", [None, True, False, -1, 11, 5.0, 0.5, "5", [5]]),
    ("metadata", [None, [], "x", 1, {"x": "y" * 16_384}]),
    ("version", [None, 1, 1.0, "", " ", "1\x00", "x" * 201]),
    ("title", [None, 1, "", "\t", "a\x1bb", "x" * 1001]),
    ("source_url", [None, 1, "", "example.org", "//example.org", "ftp://example.org/x"]),
    ("source_url", ["file:///etc/passwd", "javascript:alert(1)", "data:text/plain,x", "http://"]),
    ("source_url", ["https:///x", "https://a b", "https://exämple.org", "https://[::1", "http://u:p@h"]),
    ("source_url", ["https://h:99999/", "https://h:x/", "truespan://", "truespan://world"]),
    ("source_url", ["truespan://world/", " https://example.org", "https://h/\n", "https://h/\\x"]),
]  # fmt: skip


@each_row(("field", "value"), [(field, value) for field, values in WRONG for value in values])
@proves("manifest.lines")
def test_invalid_value_is_refused_with_its_field(field: str, value: Any) -> None:
    reason = fault({"path": "a.txt", field: value})
    assert reason.startswith(f"{field} ")
    assert len(reason) < 200


RIGHT = [
    ("doc_id", ["a", "0", "A.b_c-d", "a" * 128, "console", "com10", "nulls", "a.con"]),
    ("profile", ["window", "tokens"]), ("kind", ["document", "book"]),
    ("lang", ["en", "pt-BR", "zh-Hant-TW", "deu"]), ("priority", [0, 10]),
    ("metadata", [{}, {"x": None, "y": [1.5, True, "z\n"]}]),
    ("source_url", ["http://h", "HTTPS://example.org:8080/a/b?c=d#e", "https://[::1]/x"]),
    ("source_url", ["truespan://world/document", "https://example.org/%C3%BC"]),
    ("title", ["“Überfahrt”", "a" * 1000]),
]  # fmt: skip


@each_row(("field", "value"), [(field, value) for field, values in RIGHT for value in values])
def test_values_at_the_limits_are_accepted(field: str, value: Any) -> None:
    assert len(parse({"path": "a.txt", field: value})) == 1


@each_row("path", [
    "/etc/passwd", "//server/share/a.txt", "\\\\server\\share\\a.txt", "\\a.txt", "C:\\a.txt",
    "C:/a.txt", "c:a.txt", "../a.txt", "a/../../b.txt", "a/../b.txt", "./../a.txt", "a/..", "..",
    "**/../a.txt", "**/..", "*/../*", ".. /a.txt", "../", ".../a.txt", "..../a.txt", ".. ./a.txt",
    "a\0.txt", "a.txt\0.png", "a/..\\..\\b.txt", "..\\a.txt", "a\\b.txt", "a" * 4097,
])  # fmt: skip
@proves("manifest.inside-root")
def test_escaping_path_is_refused_before_any_file_access(path: str) -> None:
    assert fault({"path": path}).startswith("path ")


@each_row("path", [
    "．．／a.txt", "\u2024\u2024/a.txt", "‥/a.txt", "a∕b.txt", "a⧵b.txt", "%2e%2e/a.txt", "~/a.txt",
    "$HOME/a.txt", "..a/b.txt", "a../b.txt", "...a", ".hidden/a.txt", "./a.txt", "a//b.txt",
    "a\nb.txt", "-rf", "12:30 notes.txt", "a b.txt", "[a].txt", "**/*.md", "Ａ：/a.txt",
])  # fmt: skip
def test_name_that_resembles_an_escape_is_accepted(path: str) -> None:
    [entry] = parse({"path": path})
    assert entry.path == path


def test_metadata_text_does_not_depend_on_key_order() -> None:
    first, second = parse(
        '{"path": "a.txt", "metadata": {"b": 1, "a": {"d": [1, 2], "c": null}}}',
        '{"path": "b.txt", "metadata": {"a": {"c": null, "d": [1,2]}, "b": 1}}',
    )
    assert first.declared.metadata == second.declared.metadata == '{"a":{"c":null,"d":[1,2]},"b":1}'


# Patterns


def matches(pattern: str, path: str) -> bool:
    return PathPattern.of(split_path(pattern)).matches(path.split("/"))


@each_row(("pattern", "yes", "no"), [
    ("*.md", ["a.md", "[.md"], ["a.txt", "b/a.md", ".a.md", "a.MD"]),
    ("**", ["a", "a/b/c"], [".a", "a/.b", ".a/b"]),
    ("**/*.md", ["a.md", "x/a.md", "x/y/a.md"], ["a.txt", "x/.y/a.md", "x/a.md/b"]),
    ("**/**/*.md", ["a.md", "x/y/z/a.md"], ["a"]), ("x/**", ["x/a", "x/y/a"], ["x", "y/a", "xx/a"]),
    ("x/**/y/*", ["x/y/a", "x/1/2/y/a", "x/y/y/a"], ["x/y", "x/a", "x/y/b/a"]),
    ("**/x/**/y", ["x/y", "a/x/b/y", "x/x/y"], ["y", "x", "x/y/z"]),
    ("?.txt", ["a.txt", "ü.txt", "\udcff.txt", "\n.txt"], [".txt", "ab.txt", "..txt"]),
    ("[ab].txt", ["a.txt", "b.txt"], ["c.txt", "[ab].txt", "ab.txt"]),
    ("[!ab].txt", ["c.txt"], ["a.txt", "..txt"]), ("[a.txt", ["[a.txt"], ["a.txt"]),
    ("[[]a].txt", ["[a].txt"], ["a.txt"]), (".*", [".a"], ["a"]),
    (".x/*", [".x/a"], [".x/.a", "x/a"]), ("a**b", ["ab", "axxb"], ["a/b"]),
    ("a.b", ["a.b"], ["aXb"]), ("*/*", ["a/b"], ["a", "a/b/c"]),
])  # fmt: skip
def test_pattern_has_the_meaning_of_a_shell_pattern(pattern: str, yes: list[str], no: list[str]):
    assert [path for path in yes if not matches(pattern, path)] == []
    assert [path for path in no if matches(pattern, path)] == []


def test_pattern_with_many_stars_takes_linear_time() -> None:
    # Tried one after the other, the ways to share these folders out would outlast the universe.
    assert not matches("/".join(["**", "a"] * 40) + "/b", "/".join(["a"] * 400))
    assert not matches("*a" * 60 + "b", "a" * 2000)
