"""Compounds of a query's words, and the parts of a query's compounds."""

from collections.abc import Collection

from truespan.words.compounds import COMPOUNDING, divide, expand_compounds, index_parts
from truespan.words.query import WordQuery, parse_query

GERMAN = ("german",)
WORDS = ("haustur", "schlussel", "hausturschlussel", "schlusselbund", "regierung", "bezirk")


def expand(query: str, terms: Collection[str], stemmers: tuple[str, ...] = GERMAN) -> WordQuery:
    """Return a query expanded by terms, all of which occur."""
    return expand_partly(query, terms, terms, stemmers)


def expand_partly(
    query: str,
    terms: Collection[str],
    occurring: Collection[str],
    stemmers: tuple[str, ...] = GERMAN,
) -> WordQuery:
    loaded = set[str]()

    def occurs(_: str, term: str) -> bool:
        assert term in loaded
        return term in occurring

    return expand_compounds(
        parse_query(query, stemmers), [index_parts(terms)], loaded.update, occurs
    )


def test_compound_and_its_parts_find_each_other() -> None:
    [word] = expand("Schlüssel", WORDS).words
    assert word.forms == {"german": ("schlussel", "hausturschlussel")}
    assert word.parts == ()

    [word] = expand("Haustuerschluessel", WORDS).words
    assert word.forms == {"german": ("hausturschlussel",)}
    assert word.parts == ({"german": ("haustur",)}, {"german": ("schlussel",)})

    [word] = expand("Regierungsbezirk", WORDS).words
    assert word.parts == ({"german": ("regierung",)}, {"german": ("bezirk",)})

    known = {"land", "wirt", "schaft", "landwirt", "wirtschaft"}
    found = {*divide("landwirtschaft", ("",), known.__contains__)}
    assert found == {("land", "wirtschaft"), ("land", "wirt", "schaft"), ("landwirt", "schaft")}
    [word] = expand("Landwirtschaft", known).words
    assert word.parts == ({"german": ("land",)}, {"german": ("wirtschaft",)})


def test_compound_needs_parts_that_occur_unquoted() -> None:
    [word] = expand_partly("Schlüssel", WORDS, {*WORDS} - {"haustur"}).words
    assert word.forms == {"german": ("schlussel",)}
    [word] = expand_partly("Schlüssel", WORDS, {*WORDS} - {"hausturschlussel"}).words
    assert word.forms == {"german": ("schlussel",)}
    [word] = expand_partly("Haustürschlüssel", WORDS, {*WORDS} - {"schlussel"}).words
    assert word.parts == ()

    for query in ('"Schlüssel"', "welche", "Otter"):
        [word] = expand(query, (*WORDS, "hausturwelch")).words
        assert word.parts == ()
        assert len(word.forms["german"]) == 1, query
    # Stop words, such as "zwischen", are no parts.
    [word] = expand("Stand", ("zwisch", "zwischenstand", "stand")).words
    assert word.forms == {"german": ("stand",)}


def test_unused_terms_of_a_vocabulary_change_nothing() -> None:
    queries = ("Schlüssel", "Haustürschlüssel", "Regierungsbezirk Bezirk", "Türschlüssel")
    used = {"haustur", "schlussel", "hausturschlussel", "bezirk"}
    for query in queries:
        assert expand_partly(query, WORDS, used) == expand(query, used), query


def test_division_ends_and_applies_to_languages_with_compounds() -> None:
    terms = ("lighthouse", "light", "house")
    query = expand("house", terms, ("english", "french"))
    assert query == parse_query("house", ("english", "french"))
    assert COMPOUNDING.isdisjoint(("english", "french"))
    assert not COMPOUNDING.isdisjoint(("english", "swedish"))
    known = {"a" * length for length in range(4, 60)}
    assert len([*divide("a" * 60, ("", "a"), known.__contains__)]) < 10_000
