"""Keywords of a text: the same for both ways of finding its words."""

from truespan.ingest.metadata import keywords

ODD = ("it's", "well-known", "x", "ab", "4th", "a_b", "_under", "-dash", "O'Brien's", "3d-print")
ODD += ("[FIGURE:doc-1]", "Lamp", "LAMP", "lamp", "don't-", "--", "e.g.", "co-op", "1984", "Z9")


def test_repetitive_text_has_keywords_that_occur_once() -> None:
    # The words of one part, because the others are empty.
    assert keywords("lamp Lamp harbour keeper" + " " * 2000) == ["Lamp", "harbour", "keeper"]
