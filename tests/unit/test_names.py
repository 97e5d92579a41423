"""Names of a question, and whether a passage has them."""

from __future__ import annotations

from tests.support.rows import each_row
from truespan.words.names import find_names, has_names


@each_row(
    ("query", "names"),
    [
        ("How many cigars can Hook smoke at once?", {"hook"}),
        ("Where had Mr. Darling hidden it?", {"mr", "darl"}),
        ("Who came? Nobody knew that Wendy did.", {"wendi"}),
        ("Where did Tom's aunt go, and what did I do?", {"tom"}),
        ("Aspirin inhibits the production of PGE2.", {"pge2"}),
        # The first word, a sentence, a quote, a stop word, a title and shouting have no name.
        ("Hook smokes cigars", set[str]()),
        ('What does "Lost boys" mean? Nobody says: Boys.', set[str]()),
        ("what is The point", set[str]()),
        ("The Adventures Of Tom Sawyer", set[str]()),
        ("WHO IS HOOK", set[str]()),
        ("who is hook", set[str]()),
        ("", set[str]()),
    ],
)
def test_names_are_capitalised_words_inside_sentences(query: str, names: set[str]) -> None:
    assert find_names(query) == names


def test_passage_has_a_name_with_a_capital_alone() -> None:
    names = find_names("How did Hook meet Smee?")

    assert has_names("Hook came, and called Smee’s brother.", names)
    assert not has_names("Smee came with a fish hook.", names)
    assert not has_names("Hook came.", names)
    assert not has_names("", names)
