"""The adapter of Haystack."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

import pytest

from tests.integrations.library import CITED, QUESTION, Door, Shelf, require
from truespan.errors import InvalidArgument, ProviderUnavailable

door = Door("haystack", "haystack")


def new_pipeline() -> Any:
    require("haystack")
    return import_module("haystack").Pipeline()


def test_document_is_verified_text_with_citation_metadata(shelf: Shelf) -> None:
    bundle = shelf.world.retrieve(QUESTION, top_k=3)
    found = door.TruespanRetriever(shelf.world, top_k=3).run(QUESTION)["documents"]
    chunks = bundle.retrieved_chunks
    assert [(one.id, one.content, one.score) for one in found] == [
        (chunk.chunk_id, chunk.content, chunk.relevance_score) for chunk in chunks
    ]
    assert {frozenset(one.meta) for one in found} == {frozenset(CITED)}


def test_component_works_in_a_pipeline(shelf: Shelf) -> None:
    pipeline = new_pipeline()
    pipeline.add_component("found", door.TruespanSearchRetriever(shelf.world, floor=0.0))
    result = pipeline.run({"found": {"query": QUESTION, "top_k": 2}})
    expected = shelf.world.search(QUESTION, top_k=2, floor=0.0).passages
    assert [one.content for one in result["found"]["documents"]] == [one.text for one in expected]


def test_reader_component_follows_the_position(shelf: Shelf) -> None:
    retriever = door.TruespanReadingRetriever(shelf.world, "ada")
    early = retriever.run(QUESTION)["documents"]
    shelf.world.reader("ada").set_position("book.md", through_chapter="Chapter 4")
    later = retriever.run(QUESTION)["documents"]
    assert {one.meta["chapter"] for one in early} == {"Chapter 1", "Chapter 2"}
    assert len({one.meta["chapter"] for one in later}) == 4


def test_async_call_gives_the_same_result(shelf: Shelf) -> None:
    retriever = door.TruespanRetriever(shelf.world)
    there = asyncio.run(retriever.run_async(QUESTION))
    assert there == retriever.run(QUESTION)
    assert there["documents"] != []


def test_empty_result_is_an_empty_list(shelf: Shelf) -> None:
    assert door.TruespanRetriever(shelf.world, documents=[]).run(QUESTION) == {"documents": []}


def test_errors_are_raised_unchanged_and_as_the_cause_in_pipelines(shelf: Shelf) -> None:
    with pytest.raises(InvalidArgument):
        door.TruespanRetriever(shelf.world, nonsense=1)
    shelf.break_provider()
    retriever = door.TruespanRetriever(shelf.world)
    with pytest.raises(ProviderUnavailable):
        retriever.run(QUESTION)
    pipeline = new_pipeline()
    pipeline.add_component("found", retriever)
    with pytest.raises(Exception, match="Nobody answers") as caught:
        pipeline.run({"found": {"query": QUESTION}})
    assert isinstance(caught.value.__cause__, ProviderUnavailable)
