"""A query as words and phrases: repeated words, stop words by language, quotes of every kind."""

from itertools import chain

import numpy as np

from tests.promises import proves
from truespan.words.query import Forms, WordQuery, find_phrases, parse_query
from truespan.words.scoring import WordMatches, match_words, score_chunks
from truespan.words.stop_words import STOP_WORDS
from truespan.words.terms import stem_function, words

EN = ("english",)


def content(query: str, *stemmers: str) -> list[tuple[str, ...]]:
    """Return the terms of each word under the stemmers where it is no stop word."""
    found = (word.content_forms for word in parse_query(query, stemmers or EN).words)
    return [tuple(chain.from_iterable(forms.values())) for forms in found if forms]


def test_every_stop_word_is_one_word_of_a_language_with_a_stemmer() -> None:
    wrong = [
        (name, word)
        for name, listed in STOP_WORDS.items()
        for word in listed
        if list(words(word)) != [word] or not stem_function(name)(word)
    ]
    assert wrong == []


QUESTIONS = {
    "arabic": ("كم عدد الركاب ومن هو؟", "الركاب"),
    "chinese": ("什么 船 ？ 多少 乘客 ？ 為什麼 ？", "船 乘客"),
    "danish": ("Hvor ofte og hvor mange passagerer var der, og hvilket skib?", "passagerer skib"),
    "dutch": ("Hoe vaak, en hoeveel passagiers waren er, en wiens schip?", "passagiers schip"),
    "english": (
        "How many passengers were there, how often, and how much oil, on whose ship?",
        "passengers oil ship",
    ),
    "finnish": (
        "Kuinka usein ja kuinka monta matkustajaa oli, ja kenen laiva?",
        "matkustajaa laiva",
    ),
    "french": ("Combien de passagers y avait-il, et lequel des navires?", "passagers navires"),
    "german": ("Wie viele Passagiere waren es, wie oft, wann und womit?", "passagiere"),
    "italian": ("Cosa può portare, e quanti passeggeri erano?", "portare passeggeri"),
    "japanese": ("どこ の 船 ですか 。 いつ 誰 が 乗客 でしたか 。", "船 乗客"),
    "korean": ("누가 언제 어디 에서 무엇을 했습니까? 승객 은 몇 명?", "승객 명"),
    "norwegian": (
        "Hvor ofte og hvor mange passasjerer var det, og hvilket skip?",
        "passasjerer skip",
    ),
    "polish": ("Kim był, jak często, ilu było pasażerów i czyj statek?", "pasażerów statek"),
    "portuguese": ("Quantos passageiros eram, e de quem o navio?", "passageiros navio"),
    "russian": (
        "Как часто, какова длина, какое судно и сколько было пассажиров?",
        "длина судно пассажиров",
    ),
    "spanish": ("¿Cuántos pasajeros había, y cuáles en el barco?", "pasajeros barco"),
    "swedish": (
        "Hur ofta och hur många passagerare var det, och vilket skepp?",
        "passagerare skepp",
    ),
    "thai": ("ใคร เรือ ที่ไหน เมื่อไหร่ คืออะไร ทำไม", "เรื"),
    "turkish": ("Kaç yolcu var, neyi ve hangi gemi nerede?", "yolcu gemi"),
}
"""A question of each language with stop words, and its content words."""


def test_question_and_quantity_words_are_stop_words() -> None:
    assert QUESTIONS.keys() == STOP_WORDS.keys()
    left = {
        name: [word for word in words(question) if word not in STOP_WORDS[name]]
        for name, (question, _) in QUESTIONS.items()
    }
    assert left == {name: content.split() for name, (_, content) in QUESTIONS.items()}


def test_words_count_without_the_stop_words_of_their_language() -> None:
    assert content("What did the keeper of the lamps do?") == [("keeper",), ("lamp",)]
    [die, lampe] = parse_query("die Lampe", ("english", "german")).words
    assert die.content_forms == {"english": ("die",)}
    assert lampe.content_forms == lampe.forms == {"english": ("lamp",), "german": ("lamp",)}
    assert content("die Lampe", "") == [("die",), ("lampe",)]
    [lamp, key] = parse_query("lamp, lamps, key. LAMP!", EN).words
    assert (lamp.count, key.count) == (3, 1)
    assert content('who is "The Who"') == [("who",), ("the",)]
    assert content("who is the keeper") == [("keeper",)]


def matches_of(query: str, chunks: list[list[str]]) -> list[WordMatches]:
    def find(forms: Forms) -> WordMatches:
        counts = np.array([sum(map(chunk.count, forms["english"])) for chunk in chunks], np.int64)
        return WordMatches(counts.nonzero()[0], counts[counts > 0])

    return match_words(parse_query(query, EN), find)[1]


@proves("search.words")
def test_word_that_occurs_nowhere_changes_nothing() -> None:
    chunks = [["the", "lamp", "burn"], ["the", "key"], ["a", "lamp", "and", "a", "lamp"]]
    lengths = np.array([len(chunk) for chunk in chunks], np.int64)

    def scores(query: str) -> list[float]:
        found = score_chunks(matches_of(query, chunks), lengths, chunks=3, total=int(lengths.sum()))
        return [found.of(place) for place in range(3)]

    # Also where only stop words are left, or nothing.
    for query in ("the lamp", "lamp lamp key", "the a", "otter"):
        assert scores(f"{query} zebra") == scores(f"zebra {query}") == scores(query)
    assert scores("lamp") == scores("the lamp")
    assert scores("the")[2] == 0.0 < scores("the")[0]
    assert scores("lamp lamp") == [2 * score for score in scores("lamp")]
    assert scores("otter") == [0.0, 0.0, 0.0]


def test_phrases_are_text_in_double_quotes_of_any_kind() -> None:
    expected = {
        'who said "the old lamp" twice': ("the old lamp",),
        "“the old lamp” and „die alte Lampe“ and „lampa”": (
            *("the old lamp", "die alte Lampe", "lampa"),
        ),
        "«la vieille lampe» und »die Lampe«": ("la vieille lampe", "die Lampe"),
        "「古い灯台」と『鍵』": ("古い灯台", "鍵"),
        "他说“你好”吗": ("你好",),
        '"one" "two" "one"': ("one", "two"),
        '(“red”, "blue")': ("red", "blue"),
        'the 5" and the 6" disk': (),
        'an "unclosed one': (),
        '"" "..." " "': (),
        "the keeper's 'lamp' and ‘key’": (),
    }
    assert {query: find_phrases(query) for query in expected} == expected


def test_phrase_uses_whole_stems_of_shortened_terms() -> None:
    phrase = parse_query('"государственного закона"', ["russian"])
    assert phrase.occurs_in("Государственный закон принят.", "ru")
    assert not phrase.occurs_in("Государство, закон и суд.", "ru")


def test_phrase_occurs_where_its_terms_are_consecutive() -> None:
    phrase = parse_query('"old lamps"', EN)
    assert phrase.occurs_in("An Old\nlamp burned.", "en")
    assert phrase.occurs_in("old old lamp", "en")
    assert not phrase.occurs_in("The lamp was old.", "en")
    assert not phrase.occurs_in("An old green lamp.", "en")
    assert not phrase.occurs_in("", "en")
    both = parse_query('"old lamp" "green key"', EN)
    assert both.occurs_in("A green key, an old lamp.", "en")
    assert not both.occurs_in("An old lamp.", "en")
    assert parse_query("「東京都」", ("",)).occurs_in("これは東京都です", "ja")
    assert WordQuery((), ()).occurs_in("", "en")


def test_arabic_word_is_also_searched_without_its_particle() -> None:
    [word] = parse_query("لناسا", ["arabic"]).words
    assert word.forms == {"arabic": ("لناس", "ناس")}
    [short, quoted] = parse_query('ولد "لناسا"', ["arabic"]).words
    assert short.forms == {"arabic": ("ولد",)}
    assert len(quoted.forms["arabic"]) == 1
