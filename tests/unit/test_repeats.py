"""Text that occurs twice: found with any white space, and rendered once."""

from hypothesis import given
from hypothesis import strategies as st

from tests.laws.examples import examples
from tests.support.rows import each_row
from tests.unit.sources import source
from truespan.retrieval.pack import Packer
from truespan.retrieval.repeats import MIN_REPEATED, EqualTexts, merge_copies, render
from truespan.types.chunk import ChunkKind

WORDS = st.lists(st.sampled_from(["a", "b", "the", "lamp", "-5", "5", " ", "\n"]), max_size=6)


@examples(200)
@given(st.lists(WORDS.map(" ".join), max_size=12))
def test_equal_texts_agree_with_comparing_all_words(texts: list[str]) -> None:
    found, known = EqualTexts[int](), list[list[str]]()
    for number, text in enumerate(texts):
        known.append(text.split())
        assert found.add(text, number) == known.index(text.split())


@each_row("first, second", [
    ("It cost -5.", "It cost 5."), ("He did.", "he did."), ("a b", "ab"), ("", "x"), ("1.5", "15"),
])  # fmt: skip
def test_texts_that_differ_in_a_character_are_not_merged(first: str, second: str) -> None:
    assert len(merge_copies([source(first), source(second, document=2)])) == 2


def test_merged_passages_keep_rank_and_all_places() -> None:
    parts = [
        source("The lamp is red.", document=1), source("Another text.", document=2),
        source("The lamp  is red.", document=3), source("The lamp is red.", document=1, start=500),
    ]  # fmt: skip
    first, second = merge_copies(parts)
    assert [(at.document, at.start) for at in first.other_places] == [(3, 0), (1, 500)]
    assert second == parts[1]


def test_figures_with_equal_descriptions_are_not_merged() -> None:
    figures = [source("A lamp.", document=n, kind=ChunkKind.FIGURE) for n in (1, 2)]
    assert merge_copies(figures) == figures


def test_packing_merges_copies_that_tie_with_the_last() -> None:
    parts = [source("The lamp is red.", document=n) for n in (1, 2, 3)]
    other = source("A text of its own.", document=4, score=0.6)
    later = source("The lamp is red.", document=5, score=0.5)
    packed = Packer(k=1, budget=100, plain=False).pack([*parts, other, later])
    assert [(part.document, len(part.other_places)) for part in packed.chosen] == [(1, 2)]
    assert [part.document for part in packed.left_out["duplicate_passage"]] == [2, 3]
    assert len(Packer(k=3, budget=100).pack([*parts, other]).chosen) == 3


def test_copy_of_a_chunk_over_budget_gets_no_place() -> None:
    large = source("one two three four five six", document=1)
    parts = [large, source("lamp", document=2), source(large.text, document=3)]
    packed = Packer(k=3, budget=3, plain=False).pack(parts)
    assert [(part.document, part.other_places) for part in packed.chosen] == [(2, ())]
    assert [part.document for part in packed.left_out["over_budget"]] == [1, 3]


TEXT = " ".join(f"Sentence {n} of the record names lamp {n * 3}." for n in range(60))


@examples(150)
@given(st.integers(0, 900), st.integers(50, 900), st.integers(0, 900), st.integers(50, 900))
def test_render_has_no_long_run_twice(first: int, size: int, second: int, other: int) -> None:
    one, two = TEXT[first : first + size], TEXT[second : second + other]
    context = render([source(one), source(two, document=2)])
    pieces = context.split("\n\n")
    assert pieces[0] == one.strip()
    for piece in pieces[1:]:
        assert piece in two
        assert piece[: MIN_REPEATED + 20] not in one or len(piece) < MIN_REPEATED + 20
        assert piece[-MIN_REPEATED - 20 :] not in one or len(piece) < MIN_REPEATED + 20
    # Every word of the second passage is in one of them.
    assert set(two.split()) <= {*context.split(), *one.split(), *two.split()[:1], *two.split()[-1:]}


def test_render_keeps_the_header_of_each_part_of_a_table() -> None:
    header = (
        "Tariff | Price of a day in euros | Price of a month in euros | Validity and conditions"
    )
    rows = [f"Zone {n} | {n}.50 | {n}0.00 | from May on, not on public holidays" for n in range(8)]
    parts = ["\n".join([header, *rows[:4]]), "\n".join([header, *rows[4:]])]
    assert render([source(parts[0]), source(parts[1], document=2)]).count(header) == 2
