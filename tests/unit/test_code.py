"""Source code: lines and their numbers."""

import re

from msgspec.structs import replace

from tests.support.formats import format_name
from truespan.ingest.canonical import assemble
from truespan.ingest.chunking import MeasuredText, chunk_spans
from truespan.parsing import load
from truespan.parsing.detect import supported
from truespan.text.sentences import split_sentences
from truespan.types.profile import SENTENCES, TOKENS, WINDOW
from truespan.types.text import BlockKind, TokenMap


def test_lines_of_code_are_sentences_with_their_numbers() -> None:
    text = "a = 1\r\n\x0c\r\n\r\ndef f():\r\n\tx = '\x0b'\r\n\r\n\r\n\treturn x\r\n"
    [block] = load("a.py", text.encode()).blocks
    assert (block.kind, block.chapter, block.section) == (BlockKind.CODE, "a.py", None)
    canonical = assemble([block])
    assert canonical.text == "a = 1\n \n\ndef f():\n\tx = ' '\n\n\n\treturn x"
    found = [canonical.location(start, end) for _, start, end in split_sentences(canonical)]
    assert found == ["line 1", "line 4", "line 5", "line 8"]

    text = 'x = "One. Two."\n\n# First it. Then this.\n@cache\ndef f(a="A. B."):\n    y. Z\n'
    canonical = assemble(load("a.py", text.encode()).blocks)
    shown = [canonical.text[start:end] for _, start, end in split_sentences(canonical)]
    lines = ['x = "One. Two."', "# First it. Then this.", "@cache", 'def f(a="A. B."):', "y. Z"]
    assert shown == lines
    assert canonical.text == text.rstrip()

    canonical = assemble(load("a.py", b"x. Y" * 3000).blocks)
    assert max(end - start for _, start, end in split_sentences(canonical)) < 12_000


def test_source_code_is_found_only_by_pattern() -> None:
    assert not supported("a.py")
    assert not supported("a.py", "*")
    assert not supported("a.py", "*.md")
    assert supported("a.py", "*.py")
    assert supported("a.PY", ".py")
    assert format_name("a.py", b"x = 1") == "code"
    assert format_name("a.yaml", b"x: 1") == "code"


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
