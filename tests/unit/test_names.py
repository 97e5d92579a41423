"""Names of a question, and whether a passage has them."""

from tests.support.rows import each_row
from truespan.words.names import find_names, has_names, has_names_across


@each_row(("query", "names"), [
    ("How many cigars can Hook smoke at once?", {"hook"}),
    ("Where had Mr. Darling hidden it?", {"mr", "darl"}),
    ("Who came? Nobody knew that Wendy did.", {"wendi"}),
    ("Where did Tom's aunt go, and what did I do?", {"tom"}),
    ("Aspirin inhibits the production of PGE2.", {"pge2"}),
    ("are topic7 and topic8 of the 1990s", {"1990"}),
    ("who won 1,066 votes, 3.5 %, on the 14th?", {"1066", "3", "5", "14"}),
    # The first word, a sentence, a quote, a stop word, a title and shouting have no name.
    ("Hook smokes cigars", set[str]()),
    ('What does "Lost boys" mean? Nobody says: Boys.', set[str]()),
    ("what is The point", set[str]()), ("The Adventures Of Tom Sawyer", set[str]()),
    ("WHO IS HOOK", set[str]()), ("who is hook", set[str]()), ("", set[str]()),
])  # fmt: skip
def test_names_are_capitalised_words_inside_sentences(query: str, names: set[str]) -> None:
    assert find_names(query, "english") == names


@each_row(("query", "stemmer", "names"), [
    # German nouns behind an article or an adjective are no names.
    ("Wer hat den ersten Brief von Luther 1521 gelesen?", "german", {"luth", "1521"}),
    ("In welcher Stadt und in welchem Jahr starb Ada Lovelace?", "german", {"ada", "lovelac"}),
    ("Wie viele Tore fielen im Spiel gegen Polen?", "german", {"pol"}),
    ("¿Dónde nació Lutero en España?", "spanish", {"luter", "espan"}),
    ("Когда Лютер приехал в Польшу?", "russian", {"лютер", "польш"}),
    ("Polonya'nın başkenti Varşova mı?", "turkish", {"varso"}),
    # Scripts without capitals, and digits of other scripts.
    ("١٩٧٣ متى كانت أزمة", "arabic", {"1973"}),
    ("超级碗50是在2016年举行的吗", "chinese", {"50", "2016"}),
    # A language without a stemmer.
    ("Ai đã gặp Luther ở Maastricht?", "", {"luther", "maastricht"}),
])  # fmt: skip
def test_names_follow_the_language(query: str, stemmer: str, names: set[str]) -> None:
    assert find_names(query, stemmer) == names


def test_passage_has_a_name_in_another_form() -> None:
    names = find_names("How did Hook meet Smee?", "english")
    assert has_names("Hook came, and called Smee’s brother.", names, "english")
    assert not has_names("Smee came with a fish hook.", names, "english")
    assert not has_names("Hook came.", names, "english")
    assert not has_names("", names, "english")

    names = find_names("When did Temur meet Dvořák?", "english")
    assert has_names("Here Temür met Dvorak.", names, "english")
    assert not has_names("Here Timur met Dvorak.", names, "english")

    names = find_names("Когда Лютер приехал в Польшу?", "russian")
    assert has_names("В Польше знали о Лютере мало.", names, "russian")
    assert not has_names("В Пруссии знали о Лютере мало.", names, "russian")

    names = find_names("Was geschah 1521?", "german")
    assert has_names("Im Jahr 1521 sprach er in Worms.", names, "german")
    assert has_names("١٥٢١", names, "german")
    assert has_names("Es waren 1.521 Menschen.", names, "german")
    assert not has_names("Am 15. Mai 1520 und 15210 Tage danach.", names, "german")


@each_row(("text", "found"), [
    ("Luther kam 1521 nach Worms.", True), ("Lutero llegó en 1521 a Wormacia.", True),
    ("Luther kam 1522 nach Worms.", False), ("Er kam 1521 nach Worms.", False),
    ("Der luther von 1521 kam nach Worms.", False),
    # In other scripts names are spelt anew, numbers are not.
    ("Лютер прибыл в Вормс в 1521 году.", True), ("Лютер прибыл в Вормс.", False),
])  # fmt: skip
def test_passage_in_another_language_has_the_beginning_of_a_name(text: str, found: bool) -> None:
    names = find_names("When did Luther come to Worms, in 1521?", "english")
    assert has_names_across(text, names, "english") is found


def test_names_in_other_spellings_are_not_compared() -> None:
    def compare(query: str, stemmer: str, text: str) -> bool | None:
        return has_names_across(text, find_names(query, stemmer), stemmer)

    assert compare("Did Luther come to Worms?", "english", "Лютер прибыл в Вормс.") is None
    assert compare("Did Luther come to Worms?", "english", "") is None
    assert compare("Когда Лютер приехал?", "russian", "Luther came to Worms.") is None
    # A German noun is translated, so that only numbers are compared.
    visit, dated = "Wann hatte Luther in der Stadt Besuch?", "Wann hatte Luther 1521 dort Besuch?"
    assert find_names(visit, "german") == {"luth", "besuch"}
    assert compare(visit, "german", "Luther had guests.") is None
    assert compare(dated, "german", "Luther had guests.") is False
    assert compare(dated, "german", "Luther had guests in 1521.") is True
