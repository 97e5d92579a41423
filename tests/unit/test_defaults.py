"""The defaults of a world: recommended or those of the contract, and who wins over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.worlds import WORDS, Place, WordEmbedder, place
from truespan.errors import InvalidSettings, StoreDamaged, WorldNotFound
from truespan.library import Library
from truespan.types.answer import AnswerRules
from truespan.types.profile import Calibration
from truespan.types.request import Defaults, Mode, mode_in_force
from truespan.types.scope import OWNER, Authority, Verb

TALES = {
    "a.txt": "The harbour was dark. A boat came in with the tide.",
    "b.txt": "An otter swam past the boats.",
}
MEASURED = Calibration(
    calibrated_floor=0.1,
    threshold_low=0.9,
    threshold_high=0.95,
    short_query_threshold_low=0.91,
    short_query_threshold_high=0.96,
    min_similarity_for_hybrid=0.92,
    unrelated_high=0.05,
    measured_on="nothing",
)


def test_the_mode_is_that_of_the_request_and_else_that_of_the_world() -> None:
    recommended, contract = Defaults.RECOMMENDED, Defaults.CONTRACT
    cases = [
        (None, recommended, "q", Mode.AUTO),
        (None, contract, "q", Mode.MEANING),
        (None, recommended, None, Mode.MEANING),
        (Mode.AUTO, contract, "q", Mode.AUTO),
        (Mode.AUTO, recommended, None, Mode.MEANING),
        (Mode.MEANING, recommended, "q", Mode.MEANING),
        (Mode.WORDS, contract, "q", Mode.WORDS),
    ]
    assert [case for case in cases if mode_in_force(*case[:3]) is not case[3]] == []


def test_a_new_world_has_the_recommended_defaults_unless_told_otherwise(tmp_path: Path) -> None:
    here = place(tmp_path, defaults="recommended")
    library = here.library

    assert library.create_world("one").defaults is Defaults.RECOMMENDED
    assert library.create_world("two", defaults="contract").defaults is Defaults.CONTRACT
    assert library.world("three", create=True).defaults is Defaults.RECOMMENDED
    assert library.world("four", create=True, defaults="contract").defaults is Defaults.CONTRACT
    assert library.world("four", create=True).defaults is Defaults.CONTRACT
    listed = {world.name: world.defaults.value for world in library.worlds()}
    assert listed == {
        "one": "recommended",
        "two": "contract",
        "three": "recommended",
        "four": "contract",
    }
    for wrong in ("best", "", 1, True):
        with pytest.raises(InvalidSettings, match="recommended, contract"):
            library.create_world("five", defaults=wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidSettings, match="recommended, contract"):
            library.world("one").set_defaults(wrong)  # type: ignore[arg-type]


def test_defaults_are_changed_by_who_may_administer_and_count_at_once(tmp_path: Path) -> None:
    world = filled(place(tmp_path), "contract")
    before = world.search("otter")
    writer = Authority(OWNER.worlds, frozenset({Verb.READ, Verb.WRITE}))

    with pytest.raises(WorldNotFound):
        Library(world.access.components, writer).world(world.id).set_defaults("recommended")
    assert (before.mode, before.defaults) == (Mode.MEANING, Defaults.CONTRACT)
    assert before.results[0].fused is None

    world.set_defaults("recommended")
    after = world.search("otter")
    assert (after.mode, after.defaults) == (Mode.AUTO, Defaults.RECOMMENDED)
    assert after.results[0].fused is not None
    assert world.search("otter", mode="meaning").results == before.results

    world.set_defaults("contract")
    assert world.search("otter").results == before.results


def test_every_request_says_which_defaults_and_which_mode_it_had(tmp_path: Path) -> None:
    for defaults, mode in (("contract", "meaning"), ("recommended", "auto")):
        world = filled(place(tmp_path / defaults), defaults)
        bundle = world.retrieve("otter", language_constraint=None).metadata
        selected = world.retrieve(selected_text="An otter.", language_constraint=None).metadata
        answer = world.answer("Where was the otter?").decision_explain
        words = world.answer("Where was the otter?", mode="words").decision_explain

        assert (bundle.mode, bundle.defaults) == (mode, defaults)
        # A selected text alone has no words to search for.
        assert (selected.mode, selected.defaults) == ("meaning", defaults)
        assert (answer["search_mode"], answer["defaults"]) == (mode, defaults)
        assert words["search_mode"] == "words"


def test_changed_defaults_in_the_store_are_noticed(tmp_path: Path) -> None:
    for name, other in (("contract", "recommended"), ("recommended", "contract")):
        here = place(tmp_path / name, store="sqlite")
        world = filled(here, name)
        here.sql("UPDATE worlds SET defaults = ?", other)
        with pytest.raises(StoreDamaged, match="defaults"):
            world.search("otter")
        with pytest.raises(StoreDamaged, match="defaults"):
            world.set_defaults("contract")
        with pytest.raises(StoreDamaged, match="defaults"):
            here.library.worlds()


def test_thresholds_are_measured_ones_where_the_world_or_the_operator_wants_them(
    tmp_path: Path,
) -> None:
    here = place(tmp_path)
    contract, recommended = filled(here, "contract"), filled(here, "recommended")
    scope = here.scope(recommended)

    def low(world: Any, rules: AnswerRules | None = None) -> tuple[float, list[str]]:
        components = replace(here.library._components, answers=rules or AnswerRules())
        opened = Library(components).world(world.id)
        answer = opened.answer("Where did the otter swim past?")
        notices = [notice.code for notice in answer.warnings]
        return answer.decision_explain["thresholds"]["low"], notices

    assert low(recommended) == (0.25, ["thresholds_not_calibrated"])
    assert low(contract) == (0.25, [])
    for world in (contract, recommended):
        here.store.keep_calibration(here.scope(world), MEASURED)
    assert low(recommended) == (0.9, [])
    assert low(contract) == (0.25, [])
    assert low(contract, AnswerRules(calibrated=True)) == (0.9, [])
    assert low(recommended, AnswerRules(calibrated=False))[0] == 0.25
    assert scope.profile == WORDS


def filled(here: Place, defaults: str) -> Any:
    world = here.library.create_world(defaults, defaults=defaults)
    world.ingest([here.write(f"{defaults}/{name}", text) for name, text in TALES.items()])
    assert isinstance(here.embedder, WordEmbedder)
    return world
