"""Source code: functions and classes as sections, and line numbers."""

from __future__ import annotations

import re
from textwrap import dedent

from msgspec.structs import replace

from tests.support.formats import format_name
from tests.support.rows import each_row
from truespan.ingest.canonical import assemble
from truespan.ingest.chunking import MeasuredText, chunk_spans
from truespan.parsing import load
from truespan.parsing.detect import supported
from truespan.parsing.formats.code import LANGUAGES
from truespan.text.sentences import split_sentences
from truespan.types.profile import SENTENCES, TOKENS, WINDOW
from truespan.types.text import BlockKind, TokenMap

PYTHON = '''
    """Ferries."""
    import os

    # Says where it lies.
    @cache
    def pier(name, sizes=(1, 2),
             last="}"
    ):
        def inner():
            return "def fake(): x"
        return inner()  # The end.
        # Not quite.

    class Ferry:
        """Text with a line
    at the margin."""

        async def cross(self): ...

        class Crew:
            def row(self):
                pass
    done = True
    '''
C = """
    #include <x.h>
    static int count = 3; /* { */

    /* Crosses { the water. */
    static struct ferry *
    cross(struct ferry *it, char c)
    {
        if (c == '{') { return 0; }
    #ifdef A
        while (1) {
    #else
        while (2) {
    #endif
        }
        return it;
    }
    struct ferry { int n; };
    int main(void) { return R"x(}})x"[0]; }
    """
SCRIPT = """
    import { a } from "b"
    const s = `}${a}`, r = /[/"{]/g
    /** Adds. */
    export async function add({ x, y } = {}) {
      return [x, y].map((z) => { return z })
    }
    const twice = async (n) => {
      return n * 2
    }
    class Ferry extends Boat {
      static cross(to) { return to }
      get name() {
        return "}"
      }
    }
    on("x", () => {
      add()
    })
    """


def outline(name: str, text: str) -> list[tuple[str | None, int, int]]:
    """Return the section of each block with its first and last line."""
    blocks = load(name, dedent(text).lstrip("\n").encode()).blocks
    assert {block.kind for block in blocks} == {BlockKind.CODE}
    assert {block.chapter for block in blocks} == {name}
    return [(block.section, block.pages[0].page, block.pages[-1].page) for block in blocks]


ROWS = (
    (
        "a.py",
        PYTHON,
        [
            (None, 1, 5),
            ("pier", 6, 12),
            ("Ferry", 14, 16),
            ("Ferry.cross", 18, 18),
            ("Ferry.Crew", 20, 20),
            ("Ferry.Crew.row", 21, 22),
            (None, 23, 23),
        ],
    ),
    ("a.c", C, [(None, 1, 6), ("cross", 7, 16), ("ferry", 17, 17), ("main", 18, 18)]),
    (
        "a.ts",
        SCRIPT,
        [
            (None, 1, 3),
            ("add", 4, 6),
            ("twice", 7, 9),
            ("Ferry", 10, 10),
            ("Ferry.cross", 11, 11),
            ("Ferry.name", 12, 15),
            (None, 16, 18),
        ],
    ),
    (
        "a.java",
        "class A {\n  // {\n  @Override\n  public int f(int x) throws E {\n    return x;\n"
        "  }\n  private A a = new A() {};\n}\n",
        [("A", 1, 3), ("A.f", 4, 6), ("A", 7, 8)],
    ),
    (
        "a.go",
        "package a\n\n// Reads.\nfunc (r *Reader[T]) Read(p []byte) (int, error) {\n\treturn"
        "\n}\n\ntype Pair struct {\n\tA int\n}\n",
        [(None, 1, 3), ("Reader.Read", 4, 6), ("Pair", 8, 10)],
    ),
    (
        "a.rs",
        "impl<T: Clone> From<T> for Ferry<T> {\n    #[inline]\n    fn from(t: &'a T) {\n"
        "        '{'\n    }\n}\nmod tests {\n    fn it() {}\n}\n",
        [("Ferry", 1, 2), ("Ferry.from", 3, 6), ("tests", 7, 7), ("tests.it", 8, 9)],
    ),
    (
        "a.rb",
        "module Quay\n  class Ferry\n    def cross?(x)\n      x # def no\n    end\n  end\nend\n",
        [("Quay", 1, 1), ("Quay.Ferry", 2, 2), ("Quay.Ferry.cross?", 3, 7)],
    ),
    (
        "a.sh",
        "set -e\nsay() {\n  cat <<EOF\n}\nEOF\n}\nsay\n",
        [(None, 1, 1), ("say", 2, 6), (None, 7, 7)],
    ),
    (
        "a.sql",
        "create table if not exists pier (\n  id int -- (\n);\nselect ';';\n",
        [("pier", 1, 3), (None, 4, 4)],
    ),
    (
        "a.php",
        '<?php\nfunction f($x) { return "}"; } # {\nclass A { public function g() {\n}\n}\n',
        [(None, 1, 1), ("f", 2, 2), ("A.g", 3, 5)],
    ),
    (
        "a.kt",
        "fun String.shout(): String {\n  return this\n}\nclass A(val x: Int) : B() {\n"
        "  fun f() = 1\n}\n",
        [("String.shout", 1, 3), ("A", 4, 6)],
    ),
    (
        "a.cs",
        "namespace N\n{\n    public class A\n    {\n        public int X { get; set; }\n"
        '        public A(string s = @"\\") { }\n    }\n}\n',
        [(None, 1, 3), ("A", 4, 5), ("A.A", 6, 8)],
    ),
    (
        "a.lua",
        "local x = [[ function f() ]]\nlocal function f()\n  return 1\n"
        "end\nM.g = function()\nend\n",
        [(None, 1, 1), ("f", 2, 4), ("M.g", 5, 6)],
    ),
    (
        "a.pl",
        "=head1 {\n\n=cut\nsub f {\n  my $x = shift; # {\n}\n1;\n",
        [(None, 1, 3), ("f", 4, 6), (None, 7, 7)],
    ),
    ("a.r", "f <- function(x) {\n  x\n}\ny <- 1\n", [("f", 1, 3), (None, 4, 4)]),
    (
        "a.toml",
        "a = 1\n\n[tool.x]\nb = 2\n# c\n\n[[y]]\nd = 3\n",
        [(None, 1, 1), ("tool.x", 3, 5), ("y", 7, 8)],
    ),
    ("a.yaml", "# x\na:\n  b: 1\nc: 2\n", [(None, 1, 1), ("a", 2, 3), ("c", 4, 4)]),
    (
        "a.swift",
        "struct A {\n  init(x: Int) {\n  }\n  func f() -> Int {\n    1\n  }\n}\n",
        [("A", 1, 1), ("A.init", 2, 3), ("A.f", 4, 7)],
    ),
    (
        "a.cpp",
        "namespace a { namespace b {\nint A::f(int x) const {\n  return x;\n}\nA::~A() {}\n} }\n",
        [(None, 1, 1), ("A::f", 2, 4), ("A::~A", 5, 6)],
    ),
)


@each_row("name, text, expected", ROWS)
def test_functions_and_classes_are_sections(name: str, text: str, expected: object) -> None:
    assert outline(name, text) == expected


def test_no_line_is_lost_and_each_has_its_number() -> None:
    text = "a = 1\r\n\x0c\r\n\r\ndef f():\r\n\tx = '\x0b'\r\n\r\n\r\n\treturn x\r\n"
    canonical = assemble(load("a.py", text.encode()).blocks)

    assert canonical.text == "a = 1\n\ndef f():\n\tx = ' '\n\n\n\treturn x"
    found = [canonical.location(start, end) for _, start, end in split_sentences(canonical)]
    assert found == ["line 1", "line 4", "line 5", "line 8"]


def test_each_line_is_a_sentence_and_keeps_its_neighbours() -> None:
    text = 'x = "One. Two."\n\n# First it. Then this.\n@cache\ndef f(a="A. B."):\n    y. Z\n'
    canonical = assemble(load("a.py", text.encode()).blocks)

    shown = [canonical.text[start:end] for _, start, end in split_sentences(canonical)]
    lines = ['x = "One. Two."', "# First it. Then this.", "@cache", 'def f(a="A. B."):', "y. Z"]
    assert shown == lines
    assert canonical.text == text.rstrip()


def test_lines_far_too_long_are_split() -> None:
    canonical = assemble(load("a.py", b"x. Y" * 3000).blocks)
    assert max(end - start for _, start, end in split_sentences(canonical)) < 12_000


def test_source_code_is_found_only_by_pattern() -> None:
    assert not supported("a.py")
    assert not supported("a.py", "*")
    assert not supported("a.py", "*.md")
    assert supported("a.py", "*.py")
    assert supported("a.PY", ".py")
    assert format_name("a.py", b"x = 1") == "code"
    assert all(format_name(f"a.{ending}", b"x") == "code" for ending in LANGUAGES)


def test_hostile_programs_take_linear_time() -> None:
    """Every row would take minutes if brackets, comments or strings were searched again."""
    size = 60_000
    rows = ["{", "}", "f(){", "f(){}", "/*", '"', "'", "`", "=/[", 'R"x(', "<<AB\n", "$a$ ", "[["]
    rows += ["impl a for ", "class A{\n", "def a(\n", "// x\n", "@a\n", "x({", "a: ", "(", "#\\\n"]
    for row in rows:
        for ending in ("py", "cpp", "js", "rs", "sql", "lua", "rb", "sh"):
            text = row * (size // len(row))
            # What is cleaned away is white space, which divides blocks.
            kept = "".join(block.text for block in load(f"a.{ending}", text.encode()).blocks)
            assert "".join(kept.split()) == "".join(text.split())


def test_chunks_hold_whole_lines() -> None:
    lines = "".join(f"    call_{n}('One. Two! Three.', a | b)\n" for n in range(200))
    canonical = assemble(load("a.py", f"def f():\n{lines}".encode()).blocks)
    words = [found.start() for found in re.finditer(r"\S+", canonical.text)]
    tokens = TokenMap(canonical.text, words, range(len(words) + 1), lambda text: len(text.split()))
    sentences = split_sentences(canonical)

    for standard in (WINDOW, TOKENS, SENTENCES):
        profile = replace(standard, whole_rows=True)
        spans = chunk_spans(MeasuredText(canonical, sentences, tokens), profile, 500)
        assert len(spans) > 5
        for span in spans:
            text = canonical.text[span.start : span.end]
            first, last = text.strip().split("\n")[0], text.strip().split("\n")[-1]
            assert first.lstrip().startswith(("def", "call_")), (profile.name, first)
            assert last.endswith(("b)", "():")), (profile.name, last)
