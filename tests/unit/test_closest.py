"""Passages with a refusal: the one with the words of the question, then the closest."""

from tests.promises import proves
from tests.unit.sources import source
from truespan.retrieval.search import choose_closest
from truespan.words.query import parse_query
from truespan.words.scoring import WordRarity

TEXTS = ("Four servers run.", "The gate is shut.", "Bins are emptied.", "Call Weber, 0171 555.")


def shown(query: str, *texts: str) -> list[str]:
    words = parse_query(query, ["english"]).words
    rarity = WordRarity(tuple((word.content_forms, 1.0) for word in words))
    parts = [source(text, start=number) for number, text in enumerate(texts)]
    return [part.text for part in choose_closest(parts, rarity)]


@proves("answers.refusal-explained")
def test_closest_passages_have_words_of_the_question_first() -> None:
    assert shown("What is Weber's number?", *TEXTS) == [TEXTS[3], *TEXTS[:2]]
    assert shown("How is insulin dosed?", *TEXTS) == [*TEXTS[:3]]
    assert shown("How is insulin dosed?") == []
