"""Statuses of a retrieval: their table, and an example of each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.promises import proves
from tests.scenario.test_retrieve import HARBOUR, STAGES, numbers, skipped, three
from tests.support.failures import raises_code
from tests.support.sample_texts import once
from tests.support.worlds import LibraryFixture, make_library, scored
from truespan.engine.world import World
from truespan.errors import (
    IndexUnavailable,
    InvalidArgument,
    ProviderUnavailable,
    StoreDamaged,
    TruespanError,
)
from truespan.retrieval.pack import status_of
from truespan.types.bundle import BundleStatus, ContextBundle, WhyNot
from truespan.types.profile import Calibration

SUCCESS, PARTIAL = BundleStatus.SUCCESS, BundleStatus.PARTIAL
NO_MATCHES, ERROR = BundleStatus.NO_MATCHES, BundleStatus.ERROR


@proves("bundle.partial-or-success", "bundle.no-matches", "bundle.status-values")
@pytest.mark.parametrize(
    ("failed", "reached", "returned", "expected", "status"),
    [
        (True, False, 0, 0, ERROR), (True, False, 0, 5, ERROR), (True, True, 0, 5, ERROR),
        (True, True, 5, 5, ERROR), (False, False, 0, 0, NO_MATCHES),
        (False, False, 0, 5, NO_MATCHES), (False, True, 0, 5, PARTIAL),
        (False, True, 0, 1, PARTIAL), (False, True, 1, 5, PARTIAL), (False, True, 4, 5, PARTIAL),
        (False, True, 5, 5, SUCCESS), (False, True, 1, 1, SUCCESS),
        (False, True, 20, 20, SUCCESS),
    ],
)  # fmt: skip
def test_status_is_the_first_that_applies(
    failed: bool, reached: bool, returned: int, expected: int, status: BundleStatus
) -> None:
    assert status_of(failed=failed, reached=reached, returned=returned, expected=expected) is status


@proves("bundle.partial-or-success", "bundle.returned-count", "bundle.original-top-k")
def test_requested_or_available_number_is_a_success(tmp_path: Path) -> None:
    world = three(make_library(tmp_path, index=scored(0.9, 0.8, 0.7)))

    two, all_there_is = world.retrieve("light", top_k=2), world.retrieve("light", top_k=20)

    assert (two.status, len(two.retrieved_chunks)) == (SUCCESS, 2)
    assert (all_there_is.status, len(all_there_is.retrieved_chunks)) == (SUCCESS, 3)
    assert all_there_is.metadata.original_top_k == 20
    assert all_there_is.metadata.returned_count == 3


@proves("bundle.partial-or-success", "bundle.within-top-k")
def test_fewer_than_available_is_partial(tmp_path: Path) -> None:
    world = three(make_library(tmp_path, index=scored(0.9, 0.29, 0.28)))

    bundle = world.retrieve("light", top_k=2)

    assert (bundle.status, numbers(bundle)) == (PARTIAL, [1])
    assert bundle.metadata.returned_count == 1 < bundle.metadata.original_top_k == 2


@proves("bundle.no-matches")
def test_no_result_at_the_floor_is_no_match_with_near_misses(tmp_path: Path) -> None:
    world = three(make_library(tmp_path, index=scored(0.29, 0.28, 0.1)))

    bundle = world.retrieve("light")

    assert bundle.status is NO_MATCHES
    assert (bundle.retrieved_chunks, bundle.total_tokens, bundle.context) == ((), 0, "")
    assert bundle.error is None
    near = bundle.metadata.near_misses
    assert [(miss.source, miss.score) for miss in near] == [
        ("a.txt", 0.29), ("b.txt", 0.28), ("c.txt", 0.1),
    ]  # fmt: skip


@proves("bundle.no-matches", "search.non-interference")
@pytest.mark.parametrize("more", [12, 80])
def test_near_misses_do_not_depend_on_the_index(tmp_path: Path, more: int):
    answers = []
    lib = make_library(tmp_path)
    far = {f"d{number:02}__txt": "lamp and much other wood or stone" for number in range(more)}
    world = lib.world(**far, a__txt="lamp and wood or stone or much else")
    points = lib.index._of(lib.scope(world))
    for _ in range(2):
        turned = dict(list(points.items())[::-1])
        points.clear()
        points.update(turned)
        near = world.retrieve("lamp of a ship").metadata.near_misses
        answers.append([(miss.source, miss.score) for miss in near])

    assert answers[0] == answers[1]
    assert len(answers[0]) <= 5


@proves("bundle.partial-or-success")
def test_untrusted_candidates_give_partial_not_no_match(lib: LibraryFixture) -> None:
    world = three(lib)
    for point in lib.index._of(lib.scope(world)).values():
        point.text_hash = "0" * 64

    bundle = world.retrieve("harbour roses clock")

    assert (bundle.status, bundle.retrieved_chunks) == (PARTIAL, ())
    assert skipped(bundle)["stale_vector"] > 0


def failing(error: TruespanError) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


def without_index(lib: LibraryFixture) -> None:
    lib.index.search = failing(IndexUnavailable("The index did not answer."))


def without_provider(lib: LibraryFixture) -> None:
    lib.embedder.before = failing(ProviderUnavailable("The provider did not answer."))


def without_store(lib: LibraryFixture) -> None:
    lib.store.chunks.read = failing(StoreDamaged("The file is damaged."))


@proves("bundle.error-without-chunks", "bundle.exactly-one", "embedding.down-is-an-error")
@pytest.mark.parametrize(
    ("breaking", "code", "retryable", "reached"),
    [
        (without_provider, "provider_unavailable", True, ("received",)),
        (without_index, "index_unavailable", True, ("received", "vectorized")),
        (without_store, "store_damaged", False, ("received", "vectorized")),
    ],
)
def test_failure_is_one_bundle_with_an_error_and_no_chunks(
    lib: LibraryFixture,
    breaking: Callable[[LibraryFixture], None],
    code: str,
    retryable: bool,
    reached: tuple[str, ...],
) -> None:
    world = three(lib)
    breaking(lib)

    bundle = world.retrieve("harbour light")

    assert isinstance(bundle, ContextBundle)
    assert bundle.status is ERROR
    assert (bundle.retrieved_chunks, bundle.context, bundle.total_tokens) == ((), "", 0)
    assert bundle.metadata.returned_count == 0
    assert bundle.error is not None
    assert (bundle.error.code, bundle.error.retryable) == (code, retryable)
    assert bundle.metadata.trace == reached


@proves("bundle.exactly-one")
def test_invalid_request_raises_and_reads_nothing(tmp_path: Path) -> None:
    lib = make_library(tmp_path, watched=True)
    world = three(lib)
    lib.journal.clear()

    with pytest.raises(InvalidArgument):
        world.retrieve("harbour", top_k=0)
    assert lib.journal == []
    with raises_code("blank_query"):
        world.retrieve("   \n")
    with raises_code("blank_query"):
        world.retrieve("harbour", selected_text=" \t ")
    assert set(lib.journal) == {"store.worlds.find"}
    lib.store.worlds.find = lambda *_: None  # type: ignore[method-assign]
    with raises_code("world_not_found"):
        world.retrieve("harbour")


@proves("bundle.exactly-one")
def test_document_replaced_during_a_request_has_its_new_state(lib: LibraryFixture):
    world = three(lib)
    new = "The harbour light went out at once."
    lib.embedder.before = once(lambda: world.ingest(lib.write("world/a.txt", new)) and None)

    bundle = world.retrieve("harbour light", top_k=1)

    assert [chunk.content for chunk in bundle.retrieved_chunks] == [new]
    assert bundle.metadata.trace == STAGES
    assert bundle.metadata.funnel.returned == 1


def keyword_world(folder: Path) -> World:
    """Return a world whose defaults hide a document, and whose floor excludes hardly anything."""
    lib = make_library(folder)
    world = lib.library.create_world("world", defaults="contract")
    far = " ".join(f"word{number}" for number in range(60))
    texts = {"light.txt": f"{HARBOUR}", "far.txt": f"The clerk of the harbour. {far}"}
    for name, text in texts.items():
        world.ingest(lib.write(name, text), language="en", version="1.0")
    world.ingest(lib.write("hafen.txt", f"{HARBOUR} Der Leuchtturm."), language="de")
    high = Calibration(0.9, 0.9, 0.95, 0.9, 0.95, 0.9, 0.9, "a test")
    lib.store.records.keep_calibration(lib.scope(world), high)
    return world


@proves("search.words")
def test_keyword_mode_explains_by_chunks_with_a_word_of_the_query(tmp_path: Path) -> None:
    world = keyword_world(tmp_path)

    def find(query: str) -> tuple[list[str], list[str]]:
        found = world.retrieve(query, mode="keyword", near_misses=True).metadata
        codes = [notice.code for notice in found.warnings]
        return codes, [near.source for near in found.near_misses]

    assert find("zeppelin") == (["no_word_matches"], [])
    codes, near = find("clerk")
    assert "default_filter_left_out" not in codes
    assert near == ["far.txt"]
    codes, _ = find("harbour light")
    assert "default_filter_left_out" in codes
    assert [notice.code for notice in world.search("zeppelin", mode="keyword").warnings] == [
        "no_word_matches"
    ]
    light = world.documents.chunks("light.txt").chunks[0].chunk_id
    assert world.why_not(light, "clerk", mode="keyword").code == WhyNot.NO_WORDS


@proves("bundle.token-budget")
def test_small_budget_warns_and_counts_in_every_operation(tmp_path: Path) -> None:
    world = three(make_library(tmp_path))
    reader = world.reader("ann")
    reader.set_position("a.txt", sentence=1)

    found = world.search("harbour", max_tokens=5, floor=0.0)
    bundle, read = (
        world.retrieve("The harbour light burned all night", max_tokens=5),
        reader.retrieve("harbour", max_tokens=5),
    )

    for warnings, left_out in (
        (found.warnings, found.skipped),
        (bundle.metadata.warnings, bundle.metadata.skipped),
        (read.metadata.warnings, read.metadata.skipped),
    ):
        assert "over_budget" in [notice.code for notice in warnings]
        assert "over_budget" in [entry.code for entry in left_out]
    plain = world.retrieve("harbour").metadata.warnings
    assert "over_budget" not in [notice.code for notice in plain]
