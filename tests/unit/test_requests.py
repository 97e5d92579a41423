"""The rules of a request as a table: each row is one test."""

from typing import Any

import pytest
from msgspec.structs import fields, replace

from tests.promises import proves
from truespan.errors import InvalidArgument
from truespan.retrieval.filters import with_defaults
from truespan.types.bundle import BundleMetadata, BundleStatus, ContextBundle, RetrievedChunk
from truespan.types.ids import WorldId
from truespan.types.request import (
    FILTER_NAMES,
    MAX_CONTEXT_TOKENS,
    NO_FILTERS,
    Defaults,
    PassageOptions,
    ReadingRequest,
    RetrievalRequest,
)
from truespan.types.scope import World


def request_of(settings: dict[str, Any]) -> RetrievalRequest:
    """Return the request that a library method makes from its arguments."""
    given = {name: value for name, value in settings.items() if name in FILTER_NAMES}
    others = {name: value for name, value in settings.items() if name not in FILTER_NAMES}
    filters = NO_FILTERS.with_arguments(given)  # type: ignore[arg-type]
    return RetrievalRequest(filters=filters, **others)


def arguments_of(request: RetrievalRequest) -> dict[str, Any]:
    """Return the arguments of such a request."""
    filters = {name: getattr(request.filters, name) for name in FILTER_NAMES}
    others = {entry.name: getattr(request, entry.name) for entry in fields(request)}
    return {
        name: value for name, value in others.items() if name not in ("filters", "by_default")
    } | filters


def spelled(settings: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} of {len(value)}"
        if isinstance(value, str) and len(value) > 9
        else f"{name}={value}"
        for name, value in settings.items()
    )


@proves(
    "request.query-or-selection",
    "request.query-length",
    "request.selection-length",
    "request.top-k-range",
)
@pytest.mark.parametrize("settings", [
    {}, {"query": None, "selected_text": None}, {"query": ""}, {"query": "q" * 10_001},
    {"query": 7}, {"query": b"bytes"}, {"query": "", "selected_text": "text"},
    {"selected_text": ""}, {"selected_text": "s" * 5001}, {"selected_text": ["text"]},
    {"query": "q", "selected_text": ""}, {"query": "q", "selected_text": "s" * 5001},
    {"query": "q", "top_k": 0}, {"query": "q", "top_k": 21}, {"query": "q", "top_k": -1},
    {"query": "q", "top_k": True}, {"query": "q", "top_k": False}, {"query": "q", "top_k": "3"},
    {"query": "q", "top_k": 3.0}, {"query": "q", "top_k": None}, {"query": "q", "chapter": ""},
    {"query": "q", "chapter": 1}, {"query": "q", "section": ""}, {"query": "q", "section": ["One"]},
    {"query": "q", "language": ""}, {"query": "q", "language": 1}, {"query": "q", "version": ""},
    {"query": "q", "version": 1.0}, {"query": "q", "documents": "a.txt"},
    {"query": "q", "documents": (1,)}, {"query": "q", "tags": "tag"},
    {"query": "q", "tags": (None,)},
], ids=spelled)  # fmt: skip
def test_invalid_request_is_refused_when_created(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        request_of(settings)
    long = len(str(settings.get("query"))) > 10_000
    assert refusal.value.code == ("query_too_long" if long else "invalid_argument")


@proves("request.query-length", "request.selection-length", "request.top-k-range")
@pytest.mark.parametrize("settings", [
    {"query": "q"}, {"query": "q" * 10_000}, {"query": "漢" * 10_000}, {"selected_text": "s"},
    {"selected_text": "s" * 5000}, {"query": "q" * 1000, "selected_text": "s" * 5000},
    {"query": "q", "top_k": 1}, {"query": "q", "top_k": 20},
    {"query": "q", "chapter": None, "section": None},
    {"query": "q", "language": None, "version": None}, {"query": "q", "documents": (), "tags": ()},
], ids=spelled)  # fmt: skip
def test_valid_request_keeps_its_values(settings: dict[str, Any]) -> None:
    arguments = arguments_of(request_of(settings))
    assert {name: arguments[name] for name in settings} == settings


@proves(
    "request.top-k-default", "request.chapter-filter", "request.section-filter",
    "request.language-constraint", "request.version-constraint",
)  # fmt: skip
def test_retrieval_request_gets_the_defaults_of_its_world() -> None:
    request = RetrievalRequest(query="q")
    recommended, contract = (
        replace(request, filters=with_defaults(request.filters, request.by_default, world))
        for world in (World(WorldId("w"), "w", None, 0, defaults=known) for known in Defaults)
    )

    assert recommended == request
    assert arguments_of(contract) == {
        "query": "q", "selected_text": None, "top_k": 5, "chapter": None, "section": None,
        "language": "en", "version": "1.0", "documents": None, "tags": (), "kinds": (),
        "source": None, "metadata": (), "mode": None, "rerank": None, "passages": PassageOptions(),
    }  # fmt: skip


def test_unknown_filter_is_an_unexpected_keyword_argument() -> None:
    with pytest.raises(TypeError, match="chapter_fliter"):
        NO_FILTERS.with_arguments({"chapter_fliter": "One"})  # type: ignore[typeddict-unknown-key]


@proves("bundle.query-type")
def test_request_with_a_selection_is_about_it() -> None:
    assert RetrievalRequest(query="q").query_type == "standard"
    assert RetrievalRequest(selected_text="s").query_type == "selected_text"
    assert RetrievalRequest(query="q", selected_text="s").query_type == "selected_text"


@proves("reading.query-required", "reading.dense-only")
@pytest.mark.parametrize("settings", [
    {"query": None}, {"query": ""}, {"query": "q" * 10_001}, {"query": 5},
    {"query": "q", "top_k": 0}, {"query": "q", "top_k": 21}, {"query": "q", "top_k": True},
    {"query": "q", "book": ""}, {"query": "q", "book": 3},
], ids=spelled)  # fmt: skip
def test_reader_request_must_have_a_valid_query(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        ReadingRequest(**settings)


@proves("reading.query-required", "reading.top-k-default")
def test_reader_request_has_a_book_but_no_reader_or_position() -> None:
    assert [entry.name for entry in fields(ReadingRequest)] == [
        "query", "top_k", "book", "mode", "rerank", "passages",
    ]  # fmt: skip
    assert ReadingRequest("q").top_k == 20
    with pytest.raises(TypeError):
        ReadingRequest()  # type: ignore[call-arg]


@proves("bundle.chunk-fields-filled", "bundle.status-values")
def test_bundle_has_the_fields_of_the_contract() -> None:
    assert [entry.name for entry in fields(RetrievedChunk)] == [
        "content", "source_url", "chapter", "section", "chunk_id", "relevance_score", "token_count",
    ]  # fmt: skip
    assert [entry.name for entry in fields(ContextBundle)][:4] == [
        "retrieved_chunks", "metadata", "status", "total_tokens",
    ]  # fmt: skip
    assert [entry.name for entry in fields(BundleMetadata)][:4] == [
        "query_type", "processing_time_ms", "original_top_k", "returned_count",
    ]  # fmt: skip
    assert {status.value for status in BundleStatus} == {
        "success", "partial", "no_matches", "error",
    }  # fmt: skip
    assert MAX_CONTEXT_TOKENS == 4000


def test_empty_tags_and_kinds_restrict_nothing() -> None:
    for nothing in (None, (), []):
        arguments: Any = {"tags": nothing, "kinds": nothing}
        assert NO_FILTERS.with_arguments(arguments) == NO_FILTERS
