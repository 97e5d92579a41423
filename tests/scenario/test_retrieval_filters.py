"""Filters by chapter, section, language, version, documents and tags in a retrieval."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.support.rows import each_row
from tests.support.worlds import LibraryFixture, MemoryIndex, Watching, make_library
from truespan.engine.world import World
from truespan.errors import InvalidArgument
from truespan.index.filters import AnyOf, Equals, Field, conditions
from truespan.types.bundle import BundleStatus, ContextBundle
from truespan.types.scope import UNLIMITED, Scope

BOTH_DEFAULTS = True
ONE = (
    "# Lamps\n\n## One\n\nThe lamp is red.\n\n### Above\n\nThe lamp is high.\n\n"
    "## Two\n\nThe lamp is old.\n"
)
TWO = "# Boats\n\n## One\n\nThe lamp of the boat.\n\n## STRASSE\n\nThe lamp of the road.\n"


def shelved(lib: LibraryFixture) -> World:
    """Return a world of four documents that differ in every label."""
    world = lib.library.create_world("world")
    labels = [
        ("one.md", ONE, {"language": "en", "version": "1.0", "tags": ["light", "red"]}),
        ("two.md", TWO, {"language": "en", "version": "2.0", "tags": ["light"]}),
        ("three.txt", "The lamp is French.", {"language": "fr", "version": "1.0"}),
        ("four.txt", "The lamp is late.", {"language": "fr", "version": "2.0", "tags": ["red"]}),
    ]
    for name, text, declared in labels:
        world.ingest(lib.write(name, text), chunking="sentences", **declared)
    return world


@pytest.fixture
def shelf(tmp_path: Path) -> World:
    return shelved(make_library(tmp_path))


def asked(world: World, **settings: Any) -> ContextBundle:
    wide: dict[str, Any] = {"language": None, "version": None, "top_k": 20}
    return world.retrieve("the lamp", **{**wide, **settings})


def contents(bundle: ContextBundle) -> set[str]:
    return {chunk.content.rpartition("\n")[2] for chunk in bundle.retrieved_chunks}


def sources(bundle: ContextBundle) -> set[str]:
    return {note.source for note in bundle.metadata.sources}


@proves("request.chapter-filter", "request.section-filter")
@each_row(
    ("settings", "places"),
    [
        ({"chapter": "One"}, {("One", "One")}),
        ({"chapter": "oNE"}, {("One", "One")}),
        ({"chapter": "Two"}, {("Two", "Two")}),
        ({"chapter": "straße"}, {("STRASSE", "STRASSE")}),
        ({"chapter": "three.txt"}, {("three.txt", "three.txt")}),
        ({"chapter": "On"}, set()),
        ({"chapter": "One "}, set()),
        ({"chapter": "O%"}, set()),
        ({"section": "two"}, {("Two", "Two")}),
        ({"section": "One", "chapter": "Two"}, set()),
        ({"section": "one", "chapter": "ONE"}, {("One", "One")}),
    ],
)
def test_chapter_and_section_match_whole_names_in_any_case(
    shelf: World, settings: dict[str, str], places: set[tuple[str, str]]
) -> None:
    bundle = asked(shelf, **settings)

    assert {(chunk.chapter, chunk.section) for chunk in bundle.retrieved_chunks} == places
    assert bundle.status is (BundleStatus.SUCCESS if places else BundleStatus.NO_MATCHES)


@pytest.mark.contract
@proves("request.section-filter", "request.constraints-combine")
def test_section_is_found_within_its_chapter_only(lib: LibraryFixture, world: World):
    part = " ".join(f"The lamp burned {count} times." for count in range(14))
    sections = "\n\n".join(f"### {name}\n\n{part}" for name in ("North", "South"))
    text = f"## One\n\n{sections}\n\n## Two\n\n{sections}\n"
    world.ingest(lib.write("lamps.md", text), chunking="sentences")

    south = asked(world, section="south")
    both = asked(world, section="SOUTH", chapter="two")

    assert {(chunk.chapter, chunk.section) for chunk in south.retrieved_chunks} == {
        ("One", "South"), ("Two", "South"),
    }  # fmt: skip
    assert {(chunk.chapter, chunk.section) for chunk in both.retrieved_chunks} == {("Two", "South")}


@proves("request.language-constraint", "request.version-constraint")
@each_row(
    ("settings", "names"),
    [
        ({}, {"one.md", "two.md", "three.txt", "four.txt"}),
        ({"language": "en"}, {"one.md", "two.md"}),
        ({"language": "FR"}, {"three.txt", "four.txt"}),
        ({"language": "f"}, set()),
        ({"version": "1.0"}, {"one.md", "three.txt"}),
        ({"version": "2.0"}, {"two.md", "four.txt"}),
        ({"version": "2"}, set()),
        ({"documents": ["two.md", "4"]}, {"two.md", "four.txt"}),
        ({"documents": []}, set()),
        ({"documents": ["absent.md"]}, set()),
        ({"tags": ["light"]}, {"one.md", "two.md"}),
        ({"tags": ["light", "red"]}, {"one.md"}),
        ({"tags": ["li"]}, set()),
    ],
)
def test_document_labels_match_whole_values_and_null_matches_any(
    shelf: World, settings: dict[str, Any], names: set[str]
) -> None:
    assert sources(asked(shelf, **settings)) == names


@pytest.mark.contract
@proves("request.language-constraint", "request.version-constraint")
def test_retrieval_defaults_to_english_of_the_first_version(tmp_path: Path) -> None:
    bundle = shelved(make_library(tmp_path)).retrieve("the lamp", top_k=20)

    assert sources(bundle) == {"one.md"}


@proves("request.constraints-combine")
def test_filters_combine_with_and(tmp_path: Path) -> None:
    world = shelved(make_library(tmp_path))
    choices: dict[str, list[Any]] = {
        "language": [None, "en", "fr"],
        "version": [None, "1.0", "2.0"],
        "tags": [(), ("light",), ("red",)],
        "documents": [None, ("1", "2"), ("one.md", "four.txt")],
        "chapter": [None, "one"],
    }
    alone = {
        (name, value): contents(asked(world, **{name: value}))
        for name, values in choices.items()
        for value in values
    }

    for values in product(*choices.values()):
        settings = dict(zip(choices, values, strict=True))
        expected = set.intersection(*(alone[pair] for pair in settings.items()))
        assert contents(asked(world, **settings)) == expected, settings


@proves("request.constraints-combine", "request.chapter-filter", "request.section-filter")
def test_index_request_contains_every_filter(tmp_path: Path) -> None:
    index = Watching()
    world = shelved(make_library(tmp_path, index=index))

    asked(
        world, language="en", version="2.0", tags=["light"],
        chapter="One", section="One",
    )  # fmt: skip
    asked(world)

    narrow, wide = (index.scopes[0], index.scopes[-1])
    assert set(conditions(narrow)[1:]) == {
        AnyOf(Field.DOCUMENT, (2,)),
        Equals(Field.CHAPTER, "one"),
        Equals(Field.SECTION, "one"),
    }
    assert conditions(wide)[1:] == ()
    assert wide.documents is UNLIMITED


@proves("request.constraints-combine")
@pytest.mark.parametrize(
    "settings",
    [{"chapter": "One"}, {"section": "Two"}, {"documents": ["1"]}, {"tags": ["red"]}],
    ids=str,
)
def test_index_that_ignores_the_filters_is_corrected(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    honest = asked(shelved(make_library(tmp_path / "honest")), **settings)

    class Deaf(MemoryIndex):
        def search(self, scope: Scope, *args: Any, **options: Any) -> Any:
            deaf = replace(scope, documents=UNLIMITED, chapter=None, section=None)
            return super().search(deaf, *args, **options)

    lib = make_library(tmp_path / "deaf", index=Deaf())
    world = shelved(lib)
    points = lib.points(world)
    bundle = asked(world, **settings)
    lib.library.close()

    assert contents(bundle) == contents(honest)
    assert [chunk.chapter for chunk in bundle.retrieved_chunks] == [
        chunk.chapter for chunk in honest.retrieved_chunks
    ]
    # A filter does not make the points of other documents count as orphans.
    assert lib.points(world) == points


def codes(bundle: ContextBundle) -> list[str]:
    return [notice.code for notice in bundle.metadata.warnings]


@pytest.mark.contract
@proves("request.language-constraint", "request.version-constraint")
@each_row(
    ("settings", "blamed"),
    [
        ({"documents": ["two.md"]}, True),
        ({"documents": ["three.txt"]}, True),
        ({"documents": ["four.txt"]}, True),
        ({"documents": ["two.md"], "version": "2.0"}, False),
        ({"documents": ["two.md"], "version": "3.0"}, False),
        ({"documents": ["one.md"], "language": "fr"}, False),
        ({"documents": ["two.md"], "language": "fr"}, False),
        ({"documents": ["four.txt"], "language": None}, True),
        ({"documents": ["absent.md"]}, False),
        ({"tags": ["absent"]}, False),
        ({}, False),
    ],
)
def test_warning_names_the_default_that_excluded_everything(
    shelf: World, settings: dict[str, Any], blamed: bool
) -> None:
    bundle = shelf.retrieve("the lamp", **settings)

    assert ("default_filter_emptied_result" in codes(bundle)) is blamed
    assert not (blamed and bundle.retrieved_chunks)


@proves("request.constraints-combine")
@pytest.mark.parametrize("name", ["documents", "tags"])
def test_single_name_instead_of_a_list_is_refused(tmp_path: Path, name: str) -> None:
    world = shelved(make_library(tmp_path))

    with pytest.raises(InvalidArgument):
        world.retrieve("the lamp", **{name: "12"})  # type: ignore[arg-type]


@pytest.mark.contract
@proves("request.language-constraint")
def test_changed_label_applies_at_once(lib: LibraryFixture, world: World) -> None:
    path = lib.write("one.txt", "The lamp is red.")
    world.ingest(path, language="en")
    assert sources(world.retrieve("the lamp")) == {"one.txt"}

    world.ingest(path, language="fr")

    assert sources(world.retrieve("the lamp")) == set()
    assert sources(world.retrieve("the lamp", language="fr")) == {"one.txt"}
