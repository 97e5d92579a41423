"""Follow-up rules match plain patterns, in linear time."""

from __future__ import annotations

import re
from time import process_time

from hypothesis import given
from hypothesis import strategies as st

from tests.laws.examples import examples
from truespan.answers.citations import GROUP
from truespan.answers.follow_up import begins_sentence, strip_citations

SENTENCE_END = re.compile(r"[.!?:;\n\"\u201c\u201d\u00ab\u00bb(\[][\s\"'\u201c\u2018(\[]*$")
CITED = re.compile(rf"[ \t]*(?:{GROUP.pattern})", GROUP.flags)
SIGNS = ".!?:;\n\"\u201c\u201d\u2018\u2019\u00ab\u00bb([])' \t\x1c\u00a0\u2028aA1,-\\"
TEXTS = st.text(SIGNS, max_size=12)


@given(TEXTS | st.text(max_size=6))
@examples(300)
def test_sentence_starts_match_the_plain_pattern(before: str) -> None:
    expected = not before.strip() or SENTENCE_END.search(before) is not None

    assert begins_sentence(f"{before}Ida", len(before)) == expected


@given(st.lists(st.sampled_from(["[1]", "[2, 3]", "\\[4\\]", " ", "\t", "\n", "a", "[", "]"])))
@examples(200)
def test_citations_are_removed_with_the_spaces_before_them(parts: list[str]) -> None:
    text = "".join(parts)

    assert strip_citations(text) == CITED.sub("", text).strip()


def test_long_runs_of_spaces_and_brackets_take_linear_time() -> None:
    start = process_time()

    assert strip_citations("a" + " " * 40_000 + "b").count(" ") == 40_000
    assert not begins_sentence("'" * 40_000 + "Ida", 40_000)
    assert not begins_sentence("(" * 40_000 + "a Ida", 40_002)

    assert process_time() - start < 1
