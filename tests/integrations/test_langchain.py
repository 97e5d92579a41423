"""The adapter of LangChain: its own standard tests, and further ones."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.library import CITED, QUESTION, Door, Shelf, require, shelf_in
from tests.support.failures import raises_code
from truespan.errors import InvalidArgument, ProviderUnavailable
from truespan.types.ids import hash_text

door = Door("langchain", "langchain_core")
Standard: Any = object
if find_spec("langchain_tests"):
    Standard = import_module("langchain_tests.integration_tests").RetrieversIntegrationTests


class _Standard(Standard):
    """LangChain's standard tests, on the small world."""

    __test__ = False

    @pytest.fixture(autouse=True)
    def _made(self, tmp_path: Path) -> Iterator[None]:
        with shelf_in(tmp_path) as self.shelf:
            yield

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"world": self.shelf.world}

    @property
    def retriever_query_example(self) -> str:
        return QUESTION


class TestRetrieverStandard(_Standard):
    __test__ = True

    @property
    def retriever_constructor(self) -> type[Any]:
        return door.TruespanRetriever


class TestSearchStandard(_Standard):
    __test__ = True

    @property
    def retriever_constructor(self) -> type[Any]:
        return door.TruespanSearchRetriever


class TestReadingStandard(_Standard):
    __test__ = True

    @property
    def retriever_constructor(self) -> type[Any]:
        return door.TruespanReadingRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        # Of the whole book read there are enough chunks for what the standard tests ask.
        self.shelf.world.reader("ada").set_position("book.md", through_chapter="Chapter 6")
        return {"world": self.shelf.world, "reader": "ada"}


def test_standard_tests_are_collected() -> None:
    require("langchain_tests")
    for kind in (TestRetrieverStandard, TestSearchStandard, TestReadingStandard):
        assert hasattr(kind, "test_k_constructor_param")


def test_document_is_verified_text_with_citation_metadata(shelf: Shelf) -> None:
    bundle = shelf.world.retrieve(QUESTION, top_k=3)
    found = door.TruespanRetriever(world=shelf.world, k=3).invoke(QUESTION)
    assert [one.page_content for one in found] == [c.content for c in bundle.retrieved_chunks]
    for one, note in zip(found, bundle.metadata.sources, strict=True):
        assert set(one.metadata) == CITED
        assert one.id == one.metadata["chunk_id"] == note.chunk_id
        assert one.metadata["text_hash"] == note.text_hash == hash_text(one.page_content)
        assert one.metadata["world"] == shelf.world.id
        assert one.metadata["title"] == "The Keys"
        assert one.metadata["last_sid"] == note.last_sid


def test_retriever_search_equals_the_world_search(shelf: Shelf) -> None:
    passages = shelf.world.search(QUESTION, top_k=6, floor=0.0).passages
    found = door.TruespanSearchRetriever(world=shelf.world, k=6, floor=0.0).invoke(QUESTION)
    assert [one.page_content for one in found] == [one.text for one in passages]
    assert {frozenset(one.metadata) for one in found} == {frozenset(CITED)}


def test_reader_retriever_follows_the_position(shelf: Shelf) -> None:
    retriever = door.TruespanReadingRetriever(world=shelf.world, reader="ada")
    early = retriever.invoke(QUESTION)
    shelf.world.reader("ada").set_position("book.md", through_chapter="Chapter 4")
    later = retriever.invoke(QUESTION)
    assert {one.metadata["chapter"] for one in early} == {"Chapter 1", "Chapter 2"}
    assert len({one.metadata["chapter"] for one in later}) == 4


def test_a_reader_without_a_position_gets_nothing(shelf: Shelf) -> None:
    assert door.TruespanReadingRetriever(world=shelf.world, reader="bob").invoke(QUESTION) == []


def test_settings_reach_the_engine_from_the_constructor_and_the_call(shelf: Shelf) -> None:
    retriever = door.TruespanRetriever(world=shelf.world, chapter="Chapter 3")
    assert [one.metadata["chapter"] for one in retriever.invoke(QUESTION)] == ["Chapter 3"]
    assert [one.metadata["chapter"] for one in retriever.invoke(QUESTION, chapter="Chapter 5")] == [
        "Chapter 5"
    ]


def test_unknown_or_invalid_arguments_raise_the_engine_error(shelf: Shelf) -> None:
    with pytest.raises(InvalidArgument, match="chapter_filtre"):
        door.TruespanRetriever(world=shelf.world, chapter_filtre="Chapter 3")
    for k in (0, 21, True, "3"):
        with pytest.raises(InvalidArgument):
            door.TruespanRetriever(world=shelf.world, k=k).invoke(QUESTION)
    with raises_code("blank_query"):
        door.TruespanRetriever(world=shelf.world).invoke(" ")


def test_failed_bundle_raises_its_error(shelf: Shelf) -> None:
    shelf.break_provider()
    for kind in (door.TruespanRetriever, door.TruespanSearchRetriever):
        with pytest.raises(ProviderUnavailable, match="Nobody answers") as caught:
            kind(world=shelf.world).invoke(QUESTION)
        assert caught.value.retryable


def test_concurrent_calls_get_the_same_result(shelf: Shelf) -> None:
    retriever = door.TruespanRetriever(world=shelf.world, k=3)

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*(retriever.ainvoke(QUESTION) for _ in range(12)))

    assert asyncio.run(all_at_once()) == [retriever.invoke(QUESTION)] * 12


def test_tags_of_documents_filter_and_those_of_langchain_are_refused(shelf: Shelf) -> None:
    """LangChain's own `tags` and `metadata` only label runs, and would filter nothing."""
    for team in ("a", "b"):
        text = f"Team {team} had the spare key in the safe of room {team}."
        shelf.world.ingest([shelf.place.write(f"{team}.md", text)], tags=[f"team-{team}"])

    for kind in (door.TruespanRetriever, door.TruespanSearchRetriever):
        retriever = kind(world=shelf.world, document_tags=["team-a"])
        assert {one.metadata["source"] for one in retriever.invoke(QUESTION)} == {"a.md"}
        found = retriever.invoke(QUESTION, document_tags=["team-b"])
        assert {one.metadata["source"] for one in found} == {"b.md"}
        for name, other in (("tags", "document_tags"), ("metadata", "document_metadata")):
            value: Any = ["team-a"] if name == "tags" else {"team": "a"}
            with pytest.raises(InvalidArgument, match=f"'{name}'.*'{other}'"):
                kind(world=shelf.world, **{name: value})
            with pytest.raises(InvalidArgument, match=f"'{name}'.*'{other}'"):
                kind(world=shelf.world).invoke(QUESTION, **{name: value})
        with pytest.raises(InvalidArgument, match="documents, document_tags, kinds"):
            kind(world=shelf.world, document_tag="team-a")
        labelled = retriever.with_config(tags=["run"], metadata={"run": 1})
        assert labelled.invoke(QUESTION) == retriever.invoke(QUESTION)
    for name in ("tags", "document_tags"):
        with pytest.raises(InvalidArgument, match=f"'{name}'"):
            door.TruespanReadingRetriever(world=shelf.world, reader="ada", **{name: ["team-a"]})


def test_repr_of_a_retriever_does_not_describe_its_world(shelf: Shelf) -> None:
    assert "world" not in repr(door.TruespanRetriever(world=shelf.world))
