"""The language of a query, and the order of texts in other languages."""

from tests.promises import proves
from tests.support.rows import each_row
from tests.support.worlds import other_profile
from truespan.retrieval.fused import Scale
from truespan.retrieval.query import query_language
from truespan.types.profile import crosses_languages
from truespan.words.query import parse_query

MULTILINGUAL = other_profile(
    provider="multilingual", model="google/universal-sentence-encoder-multilingual-v3"
)
ENGLISH = other_profile(provider="local", model="BAAI/bge-small-en-v1.5")
UNKNOWN = other_profile()


@proves("answers.cross-language")
@each_row("query, language", [
    ("Who signed the lease of the house?", "en"), ("Wer hat den Mietvertrag unterschrieben?", "de"),
    ("Кто подписал договор аренды?", "ru"), ("谁签署了房屋的租约？", "zh"),
    # Too short for the detector, but not without stop words.
    ("Who has the key?", "en"), ("Wer hat ihn?", "de"), ("¿Quién es él?", "es"),
    # Too short to tell.
    ("the key", None), ("de la casa", None), ("Mietvertrag", None), ("Miami", None), ("", None),
])  # fmt: skip
def test_query_language_is_detected_from_a_few_words(query: str, language: str | None) -> None:
    assert query_language(MULTILINGUAL, query) == language
    # One language, or no known one: nothing could follow from it.
    assert query_language(ENGLISH, query) is None
    assert query_language(UNKNOWN, query) is None


@each_row("query, text, crosses", [
    ("en", "de", True), ("de", "en-GB", True), ("en", "en-GB", False), ("zh", "ZH_tw", False),
    (None, "de", False),
    # The model does not know Greek: similarity says little.
    ("el", "de", False), ("en", "el", False),
])  # fmt: skip
def test_languages_cross_if_the_model_knows_both(query: str | None, text: str, crosses: bool):
    assert crosses_languages(MULTILINGUAL, query, text) is crosses
    assert not crosses_languages(ENGLISH, query, text)
    assert not crosses_languages(UNKNOWN, query, text)


@each_row("query, counted", [
    # "die" and "war" are words of English too.
    ("Wer war die Besitzerin der alten Lampe?", {"german": 3, "english": 3}),
    ("Who was the owner of the old lamp?", {"german": 3, "english": 3}),
    # Of unknown language, or in quotes.
    ("die Lampe", {"german": 1, "english": 2}),
    ('Wer kannte das alte Lied "die Lampe"?', {"german": 5, "english": 5}),
])  # fmt: skip
def test_stop_words_of_the_query_count_in_no_language(query: str, counted: dict[str, int]) -> None:
    words = parse_query(query, ["english", "german"], query_language(MULTILINGUAL, query)).words
    found = {name: sum(name in word.content_forms for word in words) for name in counted}
    assert found == counted


@proves("answers.cross-language")
def test_words_of_other_languages_never_lower_a_blend() -> None:
    scale = Scale(unrelated=0.1, related=0.5, best_words=4.0, possible_words=4.0)

    def blend(bm25: float, similarity: float, weight: float = 0.5, *, crossed: bool) -> float:
        return scale.blend(weight, bm25, similarity, crossed=crossed)

    # Without a shared word, similarity has four fifths instead of half of the blend.
    assert blend(0.0, 0.4, crossed=False) == 0.375
    assert blend(0.0, 0.4, crossed=True) == 0.6
    # Shared words still count, and so does a chunk whose language was mistaken.
    assert blend(1.0, 0.4, crossed=True) > 0.6
    assert blend(4.0, 0.4, crossed=True) == blend(4.0, 0.4, crossed=False) == 0.875
    # Where words alone rank, they do in every language.
    assert blend(0.0, 0.4, weight=1.0, crossed=True) == 0.0
