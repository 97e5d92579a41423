"""Where an answer quotes: block quotes, and words between quotation marks of any kind.

A quote that is missed goes unchecked. So each kind of marks is looked for by itself, and marks that
are never closed quote to the end of their paragraph. Of quotes within a quote the outer one counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

LEAST_SINGLE_WORDS = 3
LEAST_SINGLE_CHARACTERS = 15
"""Shorter ones between single marks are mostly apostrophes and words that are merely named."""

Span: TypeAlias = tuple[int, int, str]
"""Where a quote stands with its marks, and the words between them."""

_BLOCK = re.compile(r"^[ ]{0,3}>.*(?:\n[ ]{0,3}>.*)*", re.MULTILINE)
_BLOCK_MARK = re.compile(r"^[ ]{0,3}>[ ]?", re.MULTILINE)
_PARAGRAPH_END = re.compile(r"\n\s*\n|\Z")
_LOW = re.compile(r"„([^„“”]+)[“”]")
_ALIKE = re.compile(r"(?<!\w)”([^“”]+)”")
_STRAIGHT = re.compile(r'"((?:[^"\n]|\n(?!\s*\n))+)"')
_PAIRED = (
    re.compile(r"«([^«»]+)»|»([^«»]+)«"),
    re.compile(r"‹([^‹›]+)›|›([^‹›]+)‹"),
    re.compile(r"(?<!`)``(?!`)((?:[^`'\n]|\n(?!\s*\n)|'(?!'))+)''"),
)
_SINGLE = (
    re.compile(r"(?<!\w)‘((?:[^‘’]|’(?=\w))+)’"),
    re.compile(r"‚([^‚‘’]+)[‘’]"),
    re.compile(r"(?<![\w'])'(?![\s']|\d\ds\b)((?:[^'\n]|\n(?!\s*\n)|(?<=\w)'(?=\w))+)'(?![\w'])"),
)
_NESTING = ("“”", "「」", "『』", "《》")
_LEFT_OPEN = re.compile(r"(?<!\w)(?:“|„|\"|(?<!`)``(?!`))(?=[^\s“”„\"`])|[「『《]")


def quotes_in(answer: str) -> Iterator[Span]:
    """Give each quote with the span it stands in, by place; none lies within another."""
    blocks = [(found.start(), found.end()) for found in _BLOCK.finditer(answer)]
    spans = [(start, end, _BLOCK_MARK.sub("", answer[start:end])) for start, end in blocks]
    rest = _blanked(answer, blocks)
    closed = _outermost([*_nested(rest), *_flat(rest)])
    spans += [*closed, *_left_open(rest, closed)]
    yield from (span for span in sorted(spans) if any(one.isalnum() for one in span[2]))


def _flat(text: str) -> Iterator[Span]:
    """Give quotes between marks that do not nest."""
    for pattern in (_LOW, _STRAIGHT, *_PAIRED):
        yield from (_span(found) for found in pattern.finditer(text))
    for pattern in _SINGLE:
        yield from (span for span in map(_span, pattern.finditer(text)) if _is_long(span[2]))


def _nested(text: str) -> Iterator[Span]:
    """Give quotes between marks that nest, the inner ones too."""
    # The closing mark of a German quote is the opening one of an English one.
    text = _blanked(text, [(found.start(), found.end()) for found in _LOW.finditer(text)])
    for opening, closing in _NESTING:
        begun: list[int] = []
        for found in re.finditer(f"[{opening}{closing}]", text):
            if found[0] == opening:
                begun.append(found.end())
            elif begun:
                start = begun.pop()
                yield start - 1, found.end(), text[start : found.start()]
    yield from (_span(found) for found in _ALIKE.finditer(_without(text, "“", "”")))


def _without(text: str, opening: str, closing: str) -> str:
    """Return a text without what stands between two marks, as long as it was."""
    return re.sub(
        f"{opening}[^{opening}{closing}]*{closing}", lambda found: " " * len(found[0]), text
    )


def _left_open(text: str, closed: Sequence[Span]) -> Iterator[Span]:
    """Give what follows the first mark in each paragraph that is never closed."""
    taken = bytearray(len(text) + 1)
    for start, end, _ in closed:
        taken[start:end] = b"\1" * (end - start)
    reached = 0
    for found in _LEFT_OPEN.finditer(text):
        if found.start() >= reached and not taken[found.start()]:
            end = _PARAGRAPH_END.search(text, found.end())
            reached = end.start() if end else len(text)
            yield found.start(), reached, text[found.end() : reached]


def _outermost(spans: Sequence[Span]) -> list[Span]:
    kept: list[Span] = []
    reached = 0
    for span in sorted(spans, key=lambda one: (one[0], -one[1])):
        if span[1] > reached:
            kept.append(span)
            reached = span[1]
    return kept


def _span(found: re.Match[str]) -> Span:
    return found.start(), found.end(), next(group for group in found.groups() if group is not None)


def _is_long(text: str) -> bool:
    return len(text) >= LEAST_SINGLE_CHARACTERS and len(text.split()) >= LEAST_SINGLE_WORDS


def _blanked(answer: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return the answer with blank lines in place of some spans, so that places stay the same."""
    pieces, reached = [], 0
    for start, end in spans:
        pieces += [answer[reached:start], "\n" * (end - start)]
        reached = end
    return "".join([*pieces, answer[reached:]])
