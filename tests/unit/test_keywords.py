"""Keywords of a text: the same for both ways of finding its words."""

import random

from tests.support.sample_texts import story
from truespan.ingest.metadata import keywords

ODD = ("it's", "well-known", "x", "ab", "4th", "a_b", "_under", "-dash", "O'Brien's", "3d-print")
ODD += ("[FIGURE:doc-1]", "Lamp", "LAMP", "lamp", "don't-", "--", "e.g.", "co-op", "1984", "Z9")


def random_text(seed: int) -> str:
    choose = random.Random(seed)
    words = [*ODD, *story(seed % 7 + 3).split()]
    marks = (" ", " ", " ", "\n", ", ", ". ", "\t", "/", "\x1f")
    count = choose.choice((5, 60, 900, 6000))
    return "".join(f"{choose.choice(words)}{choose.choice(marks)}" for _ in range(count))


def test_a_text_that_repeats_few_words_has_keywords_that_it_uses_once() -> None:
    # The words of one part, because the others are empty.
    assert keywords("lamp Lamp harbour keeper" + " " * 2000) == ["Lamp", "harbour", "keeper"]
