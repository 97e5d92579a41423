"""The adapter of LlamaIndex."""

from __future__ import annotations

import asyncio
from importlib import import_module

import pytest

from tests.integrations.library import CITED, QUESTION, Door, Shelf, require
from truespan.errors import InvalidArgument, ProviderUnavailable

door = Door("llamaindex", "llama_index")


def test_node_is_verified_text_with_citation_metadata(shelf: Shelf) -> None:
    bundle = shelf.world.retrieve(QUESTION, top_k=3)
    found = door.TruespanRetriever(shelf.world, similarity_top_k=3).retrieve(QUESTION)
    chunks = bundle.retrieved_chunks
    assert [(one.node.node_id, one.text) for one in found] == [
        (chunk.chunk_id, chunk.content) for chunk in chunks
    ]
    assert [one.score for one in found] == [chunk.relevance_score for chunk in chunks]
    assert {frozenset(one.metadata) for one in found} == {frozenset(CITED)}


def test_model_gets_only_the_text_of_a_node(shelf: Shelf) -> None:
    require("llama_index")
    modes = import_module("llama_index.core.schema").MetadataMode
    for one in door.TruespanSearchRetriever(shelf.world).retrieve(QUESTION):
        for mode in (modes.LLM, modes.EMBED):
            assert one.node.get_content(metadata_mode=mode) == one.text


def test_reader_retriever_follows_the_position(shelf: Shelf) -> None:
    retriever = door.TruespanReadingRetriever(shelf.world, "ada")
    early = retriever.retrieve(QUESTION)
    shelf.world.reader("ada").set_position("book.md", through_chapter="Chapter 4")
    later = retriever.retrieve(QUESTION)
    assert {one.metadata["chapter"] for one in early} == {"Chapter 1", "Chapter 2"}
    assert len({one.metadata["chapter"] for one in later}) == 4


def test_async_call_gives_the_same_result(shelf: Shelf) -> None:
    retriever = door.TruespanRetriever(shelf.world)
    there = asyncio.run(retriever.aretrieve(QUESTION))
    assert there == retriever.retrieve(QUESTION) != []


def test_empty_result_is_an_empty_list(shelf: Shelf) -> None:
    assert door.TruespanRetriever(shelf.world, documents=[]).retrieve(QUESTION) == []


def test_errors_are_raised_unchanged(shelf: Shelf) -> None:
    with pytest.raises(InvalidArgument):
        door.TruespanRetriever(shelf.world, nonsense=1)
    with pytest.raises(InvalidArgument):
        door.TruespanRetriever(shelf.world, similarity_top_k=21).retrieve(QUESTION)
    shelf.break_provider()
    with pytest.raises(ProviderUnavailable):
        door.TruespanRetriever(shelf.world).retrieve(QUESTION)
