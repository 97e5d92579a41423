"""The defaults of a world, recommended or contract, and their precedence."""

from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.worlds import WORDS, LibraryFixture, MemoryIndex, WordEmbedder, make_library
from truespan.engine.library import Library
from truespan.errors import InvalidArgument, StoreDamaged
from truespan.types.answer import AnswerRules
from truespan.types.decision import evidence_rules
from truespan.types.profile import Calibration
from truespan.types.request import Defaults, Mode, mode_in_force
from truespan.types.scope import OWNER, UNLIMITED, Authority, Scope, Verb
from truespan.types.trust import Hit

TALES = {
    "a.txt": "The harbour was dark. A boat came in with the tide.",
    "b.txt": "An otter swam past the boats.",
}
MEASURED = Calibration(
    calibrated_floor=0.1, threshold_low=0.9, threshold_high=0.95, short_query_threshold_low=0.91,
    short_query_threshold_high=0.96, min_similarity_for_hybrid=0.92, unrelated_high=0.05,
    measured_on="nothing",
)  # fmt: skip


@proves("defaults.explicit-wins")
def test_mode_of_the_request_wins_over_that_of_the_world() -> None:
    recommended, contract = Defaults.RECOMMENDED, Defaults.CONTRACT
    cases = [
        (None, recommended, "q", Mode.HYBRID), (None, contract, "q", Mode.VECTOR),
        (None, recommended, None, Mode.VECTOR), (Mode.AUTO, contract, "q", Mode.HYBRID),
        (Mode.AUTO, recommended, None, Mode.VECTOR), (Mode.VECTOR, recommended, "q", Mode.VECTOR),
        (Mode.KEYWORD, contract, "q", Mode.KEYWORD),
    ]  # fmt: skip
    assert [case for case in cases if mode_in_force(*case[:3]) is not case[3]] == []


@proves("defaults.explicit-wins")
def test_new_world_has_recommended_defaults_unless_specified(tmp_path: Path) -> None:
    lib = make_library(tmp_path, defaults="recommended")
    library = lib.library

    assert library.create_world("one").defaults is Defaults.RECOMMENDED
    assert library.create_world("two", defaults="contract").defaults is Defaults.CONTRACT
    assert library.world("three", create=True).defaults is Defaults.RECOMMENDED
    assert library.world("four", create=True, defaults="contract").defaults is Defaults.CONTRACT
    assert library.world("four", create=True).defaults is Defaults.CONTRACT
    listed = {world.name: world.defaults.value for world in library.worlds()}
    assert listed == {
        "one": "recommended", "two": "contract", "three": "recommended", "four": "contract",
    }  # fmt: skip
    for wrong in ("best", "", 1, True):
        with pytest.raises(InvalidArgument, match="recommended, contract"):
            library.create_world("five", defaults=wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="recommended, contract"):
            library.world("one").set_defaults(wrong)  # type: ignore[arg-type]


def test_administrators_change_defaults_with_immediate_effect(tmp_path: Path) -> None:
    world = filled(make_library(tmp_path), "contract")
    before = world.search("otter")
    writer = Authority(OWNER.worlds, frozenset({Verb.READ, Verb.WRITE}))

    with raises_code("world_not_found"):
        Library(world.access.components, writer).world(world.id).set_defaults("recommended")
    assert (before.mode, before.defaults) == (Mode.VECTOR, Defaults.CONTRACT)
    assert before.passages[0].fused is None

    world.set_defaults("recommended")
    after = world.search("otter")
    assert (after.mode, after.defaults) == (Mode.HYBRID, Defaults.RECOMMENDED)
    assert after.passages[0].fused is not None
    # Replies with the defaults of the contract have its names as well.
    names = dict.fromkeys(("content", "start_char", "end_char", "space_id"), UNSET)
    same = world.search("otter", mode="vector").passages
    assert list(same) == [replace(part, **names) for part in before.passages]

    world.set_defaults("contract")
    assert world.search("otter").passages == before.passages


@proves("defaults.explained")
def test_every_response_names_its_defaults_and_mode(tmp_path: Path) -> None:
    for defaults, mode in (("contract", "vector"), ("recommended", "hybrid")):
        world = filled(make_library(tmp_path / defaults), defaults)
        bundle = world.retrieve("otter", language=None).metadata
        selected = world.retrieve(selected_text="An otter.", language=None).metadata
        answer = world.answer("Where was the otter?").decision_explain
        words = world.answer("Where was the otter?", mode="keyword").decision_explain

        assert (bundle.mode, bundle.defaults) == (mode, defaults)
        # A selected text alone has no words to search for.
        assert (selected.mode, selected.defaults) == ("vector", defaults)
        assert (answer["search_mode"], answer["defaults"]) == (mode, defaults)
        assert words["search_mode"] == "keyword"


@proves("defaults.explained")
def test_changed_defaults_in_the_store_are_noticed(tmp_path: Path) -> None:
    for name, other in (("contract", "recommended"), ("recommended", "contract")):
        lib = make_library(tmp_path / name, store="sqlite")
        world = filled(lib, name)
        lib.sql("UPDATE worlds SET defaults = ?", other)
        with pytest.raises(StoreDamaged, match="defaults"):
            world.search("otter")
        with pytest.raises(StoreDamaged, match="defaults"):
            world.set_defaults("contract")
        with pytest.raises(StoreDamaged, match="defaults"):
            lib.library.worlds()


@proves("defaults.explicit-wins")
def test_thresholds_are_measured_where_requested(lib: LibraryFixture) -> None:
    contract, recommended = filled(lib, "contract"), filled(lib, "recommended")
    scope = lib.scope(recommended)

    def low(world: Any, rules: AnswerRules | None = None) -> tuple[float, list[str]]:
        components = replace(lib.library._components, answers=rules or AnswerRules())
        opened = Library(components).world(world.id)
        answer = opened.answer("Where did the otter swim past?")
        notices = [notice.code for notice in answer.warnings]
        return answer.decision_explain["thresholds"]["low"], notices

    assert low(recommended) == (0.25, ["thresholds_not_calibrated"])
    assert low(contract) == (0.25, [])
    for world in (contract, recommended):
        lib.store.records.keep_calibration(lib.scope(world), MEASURED)
    assert low(recommended) == (evidence_rules(MEASURED).threshold, [])
    assert low(contract) == (0.25, [])
    assert low(contract, AnswerRules(calibrated=True)) == (0.9, [])
    assert low(recommended, AnswerRules(calibrated=False))[0] == 0.25
    assert scope.profile == WORDS


def filled(lib: LibraryFixture, defaults: str) -> Any:
    world = lib.library.create_world(defaults, defaults=defaults)
    world.ingest([lib.write(f"{defaults}/{name}", text) for name, text in TALES.items()])
    assert isinstance(lib.embedder, WordEmbedder)
    return world


LABELLED: dict[str, tuple[str, dict[str, Any]]] = {
    "a.txt": ("The key hangs in the gatehouse.", {}),
    "b.txt": ("The key hangs in the tower.", {"version": "2.0"}),
    "c.txt": ("The key hangs in the cellar.", {"version": "2.0"}),
    "d.txt": ("The key, das ist der Schlüssel.", {"language": "de"}),
}


@proves("defaults.never-silent")
def test_documents_excluded_by_a_default_are_counted_by_value(lib: LibraryFixture) -> None:
    contract, recommended = labelled(lib, "contract"), labelled(lib, "recommended")

    bundle = contract.retrieve("Where is the key?")
    [notice] = bundle.metadata.warnings
    # All that is in scope came back; the warning tells of the rest.
    assert bundle.status == "success"
    assert [note.source for note in bundle.metadata.sources] == ["a.txt"]
    assert notice.code == "default_filter_left_out"
    assert notice.message.startswith(
        "3 passages were left out by the default language 'en': de (1); by the default version "
        "'1.0': 2.0 (2). "
    )

    everything = {"a.txt", "b.txt", "c.txt", "d.txt"}
    for found in (
        contract.retrieve("Where is the key?", language=None, version=None),
        recommended.retrieve("Where is the key?"),
    ):
        assert (found.status, found.metadata.warnings) == ("success", ())
        assert {note.source for note in found.metadata.sources} == everything
    for world in (contract, recommended):
        assert {part.source for part in world.search("Where is the key?").passages} == everything
        answer = world.answer("Where is the key of the house?")
        assert {note.source for note in answer.retrieved_chunks_metadata} == everything

    # One that the caller chose is no default, and one that hides nothing above the floor is silent.
    chosen = contract.retrieve("the key", language="en", version="1.0")
    assert (chosen.status, chosen.metadata.warnings) == ("success", ())
    half = contract.retrieve("the key", language="en").metadata.warnings
    assert [("language" in notice.message.partition(". ")[0]) for notice in half] == [False]
    other = contract.retrieve("gatehouse")
    assert [note.source for note in other.metadata.sources] == ["a.txt"]
    assert (other.status, other.metadata.warnings) == ("success", ())


@proves("defaults.never-silent")
def test_index_that_ignores_filters_does_not_change_excluded_counts(tmp_path: Path) -> None:
    class Deaf(MemoryIndex):
        def search(self, scope: Scope, *args: Any, **options: Any) -> list[Hit]:
            return super().search(replace(scope, documents=UNLIMITED), *args, **options)

    world = labelled(make_library(tmp_path, index=Deaf()), "contract")

    [notice] = world.retrieve("Where is the key?").metadata.warnings
    assert notice.message.startswith("3 passages were left out by ")


@proves("defaults.never-silent")
def test_ingesting_excluded_documents_prints_the_command(lib: LibraryFixture):
    for defaults in ("contract", "recommended"):
        world = lib.library.create_world(defaults, defaults=defaults)
        text = "The key hangs in the gatehouse."
        plain = world.ingest(lib.write(f"{defaults}/plain.txt", text), language="en-GB")
        path = lib.write(f"{defaults}/late.txt", f"Later: {text}")
        late = world.ingest(path, language="en", version="2.0")
        again = world.ingest(path, language="en", version="2.0")
        relabelled = world.ingest(path, language="en", version="3.0")

        assert plain.warnings == again.warnings == []
        if defaults == "recommended":
            assert late.warnings == relabelled.warnings == []
            continue
        assert "version 2.0 (1)" in late.warnings[0]
        assert "truespan config --defaults recommended -w contract" in late.warnings[0]
        assert "version 3.0 (1)" in relabelled.warnings[0]
        lines = [line.line for line in world.jobs.lines(late.job)]
        assert any("hidden_by_defaults" in line for line in lines)


def labelled(lib: LibraryFixture, defaults: str) -> Any:
    world = lib.library.create_world(defaults, defaults=defaults)
    for name, (text, labels) in LABELLED.items():
        world.ingest(
            lib.write(f"{defaults}/{name}", text), **cast("Any", {"language": "en", **labels})
        )
    return world
