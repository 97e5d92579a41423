"""Languages of chunks in documents of another language."""

from truespan.retrieval.chunk_language import find_language, foreign_languages
from truespan.words.term_counts import count_each, count_terms
from truespan.words.terms import terms

TEXTS = {
    "en": "The keeper of the lamps went down to the harbour, and the boat was not there any more.",
    "de": "Der Wärter ging am Abend zum Hafen hinunter, aber das Boot war nicht mehr da.",
    "es": "El guardián de las lámparas bajó al puerto por la tarde, pero el barco no estaba allí.",
    "fr": "Le gardien des lampes est descendu au port le soir, mais le bateau n'était plus là.",
    "ru": "Смотритель маяка вечером спустился в гавань, но лодки там уже не было.",
    "ar": "نزل حارس المنارة في المساء إلى الميناء ولكن القارب لم يكن هناك وكان المطر يهطل",
    "ja": "灯台守は夕方に港へ下りていったが、船はもうそこにはなく、雨が激しく降っていた。",
    "zh": "灯塔看守人傍晚走到港口，但是船已经不在那里了，而且下着很大的雨，他只好回家。",
    "th": "ผู้ดูแลประภาคารเดินลงไปที่ท่าเรือในตอนเย็น แต่เรือไม่อยู่ที่นั่นแล้ว และฝนตกหนักมาก",
    "el": "Ο φύλακας του φάρου κατέβηκε το βράδυ στο λιμάνι, αλλά η βάρκα δεν ήταν πια εκεί.",
}
ROWS = (
    "Lamp No. 7 | 12.50 | 1889 | brass | oil | Dresden | 3 | 14 | 2 | 8 | grade A | 12 | 4",
    "def sort_rows(rows, key): return sorted(rows, key=key, reverse=True) if rows else list()",
    "Smith J, Müller K, García L, Rossi M, Dubois P, Novak A, Jensen B, Kowalski C, Silva D, Ito E",
    "Zum Hafen",
)


def test_chunk_is_in_the_language_of_its_own_text() -> None:
    for document in ("en", "de"):
        assert {code: find_language(text, document) for code, text in TEXTS.items()} == {
            code: code for code in TEXTS
        }
    for document in ("ru", "zh", "th", "el"):
        for code in ("en", "de", "es", "fr", document):
            assert find_language(TEXTS[code], document) == code


def test_language_of_unclear_texts_follows_document_and_counts() -> None:
    for text in ROWS:
        for language in ("en", "de"):
            assert find_language(text, language) == language, text
    texts = [TEXTS["en"], TEXTS["de"], *ROWS, TEXTS["zh"]]
    counts = count_terms(texts, "en")
    assert foreign_languages(texts, "en", counts) == {1: "de", len(texts) - 1: "zh"}
    assert foreign_languages([TEXTS["en"]] * 3, "en", count_terms([TEXTS["en"]] * 3, "en")) == {}


def test_counts_exclude_no_text_in_another_language() -> None:
    """Half of each text has no language, so that stop words are as rare as can be."""
    rows = " ".join(ROWS)
    texts = [f"{text} {rows[:size]}" for text in TEXTS.values() for size in range(0, 200, 10)]
    for language in ("en", "de", "ru", "zh"):
        each = {place: find_language(text, language) for place, text in enumerate(texts)}
        others = {place: other for place, other in each.items() if other != language}
        assert foreign_languages(texts, language, count_terms(texts, language)) == others
        assert others


def test_texts_in_several_languages_are_counted_each_in_its_own() -> None:
    languages = ["en", "de", "en", "zh"]
    texts = [TEXTS["en"], TEXTS["de"], "Häuser and houses", TEXTS["zh"]]
    found = count_each(languages, texts)
    assert found.terms == sorted(set(found.terms))
    assert found.sizes == [
        len(terms(text, own)) for text, own in zip(texts, languages, strict=True)
    ]
    for place, (text, own) in enumerate(zip(texts, languages, strict=True)):
        rows = found.text == place
        listed = dict(zip(found.term[rows].tolist(), found.count[rows].tolist(), strict=True))
        expected = terms(text, own)
        assert {found.terms[term]: count for term, count in listed.items()} == {
            term: expected.count(term) for term in expected
        }
