"""The shared code of the framework adapters, without a framework."""

import asyncio
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.integrations.library import CITED, QUESTION, Shelf, shelf_in
from tests.support.docs_reader import DOCS, sections_of
from tests.support.failures import raises_code
from truespan.errors import (
    IndexUnavailable,
    InvalidArgument,
    ProfileMismatch,
    ProviderUnavailable,
    ScopeViolation,
    StoreDamaged,
)
from truespan.integrations import reading, retrieval, search
from truespan.types.bundle import Problem
from truespan.wire.serialize import failure_of


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    with shelf_in(tmp_path) as made:
        yield made


def test_retrieval_and_search_give_same_texts_and_metadata(shelf: Shelf) -> None:
    retrieved = retrieval(shelf.world, top_k=4).run(QUESTION)
    searched = search(shelf.world, top_k=4).run(QUESTION)

    bundle = shelf.world.retrieve(QUESTION, top_k=4)
    assert [one.text for one in retrieved] == [one.content for one in bundle.retrieved_chunks]
    assert retrieved == searched
    assert {frozenset(one.cited) for one in retrieved} == {frozenset(CITED)}


def test_the_page_explains_every_member_of_the_metadata(shelf: Shelf) -> None:
    text = sections_of(DOCS / "library.md")["Metadata in frameworks"]

    listed = re.findall(r"`(\w+)`", text)
    assert sorted(listed) == sorted(search(shelf.world).run(QUESTION)[0].cited)


def test_reader_is_searched_up_to_the_current_position(shelf: Shelf) -> None:
    engine = reading(shelf.world, "ada")

    early = {one.cited["chapter"] for one in engine.run(QUESTION)}
    shelf.world.reader("ada").set_position("book.md", through_chapter="Chapter 1")

    assert early == {"Chapter 1", "Chapter 2"}
    assert {one.cited["chapter"] for one in engine.run(QUESTION)} == {"Chapter 1"}


@pytest.mark.contract
def test_adapter_passes_only_given_options(shelf: Shelf) -> None:
    book = str(shelf.place.folder / "files" / "book.md")
    shelf.world.ingest([book], kind="book", title="The Keys", language="de")
    engine = retrieval(shelf.world, top_k=None)

    assert engine.run(QUESTION) == []
    assert len(engine.run(QUESTION, top_k=None, language=None)) == 5
    assert len(retrieval(shelf.world, language=None).run(QUESTION, top_k=2)) == 2


def test_adapter_refuses_unknown_options(shelf: Shelf) -> None:
    with pytest.raises(InvalidArgument, match=r"'flor'\. Known settings: top_k, floor, .*, mode"):
        search(shelf.world, flor=0.2)
    with pytest.raises(InvalidArgument, match="tags"):
        reading(shelf.world, "ada").run(QUESTION, tags=["x"])
    assert shelf.place.embedder.queries == []


def test_adapter_raises_errors_of_the_engine(shelf: Shelf) -> None:
    with raises_code("blank_query"):
        search(shelf.world).run(" ")
    with pytest.raises(InvalidArgument, match="between 1 and 20"):
        retrieval(shelf.world, top_k=21).run(QUESTION)


def test_failed_bundle_raises_kind_message_and_retry_flag(shelf: Shelf) -> None:
    shelf.break_provider()
    with pytest.raises(ProviderUnavailable) as response:
        shelf.world.search(QUESTION)

    with pytest.raises(ProviderUnavailable) as raised:
        retrieval(shelf.world).run(QUESTION)

    assert str(raised.value) == str(response.value)
    assert (raised.value.code, raised.value.retryable) == ("provider_unavailable", True)


def test_each_bundle_failure_is_found_by_its_code(shelf: Shelf) -> None:
    whole = shelf.world.retrieve(QUESTION)
    assert failure_of(whole) is None

    for kind in (ScopeViolation, StoreDamaged, IndexUnavailable, ProfileMismatch):
        response = replace(whole, error=Problem(kind.code, "In words.", not kind.retryable))
        failure = failure_of(response)
        assert type(failure) is kind
        assert (str(failure), failure.retryable) == ("In words.", not kind.retryable)


def test_event_loop_runs_during_an_engine_call(shelf: Shelf) -> None:
    engine = retrieval(shelf.world, top_k=3)

    async def together() -> list[object]:
        return await asyncio.gather(*(engine.run_async(QUESTION) for _ in range(8)))

    assert asyncio.run(together()) == [engine.run(QUESTION)] * 8


@pytest.mark.parametrize(
    ("framework", "package"),
    [("langchain", "langchain_core"), ("llamaindex", "llama_index"), ("haystack", "haystack")],
)
def test_missing_framework_error_names_the_extra(
    framework: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, f"truespan.integrations.{framework}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(ImportError) as caught:
        importlib.import_module(f"truespan.integrations.{framework}")

    assert str(caught.value).endswith(f"install Truespan with the extra '{framework}'.")
    assert "\n" not in str(caught.value)


def test_other_interfaces_import_no_framework() -> None:
    script = (
        "import sys, truespan.cli, truespan.integrations, truespan.wiring\n"
        "print(*{'langchain_core', 'llama_index', 'haystack'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert (done.returncode, done.stdout.strip()) == (0, "")
