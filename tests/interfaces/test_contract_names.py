"""Names that the contract fixes: of arguments in every world, of replies in `contract` worlds."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

import truespan
from tests.interfaces.http_client import serve_library
from tests.interfaces.mcp_clients import command, session
from tests.support.worlds import WORDS, LibraryFixture, make_library
from truespan.errors import InvalidArgument
from truespan.extensions.server.arguments import (
    RetrievalArguments,
    SearchArguments,
    parse_arguments,
)
from truespan.extensions.server.http.openapi import CONTRACT_BODIES
from truespan.wire.serialize import chunk_data, document_data

TEXT = "The lamp went out at midnight. Nobody lit it again. The harbour was quiet."
CHUNK = {"content", "startChar", "endChar", "space_id"}
DOCUMENT = {"provider", "model", "dimensions", "space_id"}


def record_of(chunk: Any) -> dict[str, Any]:
    """Return the Python record of a chunk under the contract's names."""
    named = {"content": chunk.content, "startChar": chunk.start_char, "endChar": chunk.end_char}
    return {name: value for name, value in named.items() if value is not msgspec.UNSET}


def replies(lib: LibraryFixture) -> dict[str, Any]:
    """Return a search, chunks and a document as each interface shows them."""
    world = lib.library.world("world")
    result, page = world.search("lamp"), world.documents.chunks("a.txt")
    chunk = result.passages[0].chunk_id
    found: dict[str, Any] = {
        "library": {
            "search": msgspec.to_builtins(result),
            "chunks": msgspec.to_builtins(page.chunks),
            "chunk": chunk_data(world.documents.chunk(chunk)),
            "record": record_of(world.documents.chunk(chunk)),
            "documents": [document_data(document) for document in world.documents.list()],
            "document": document_data(world.documents.get("a.txt")),
        }
    }
    with serve_library(lib.library) as client:
        at = f"/v1/worlds/{world.id}"
        found["http"] = {
            "search": client.json("POST", f"{at}/search", {"query": "lamp"}).content,
            "chunks": client.json("GET", f"{at}/documents/1/chunks").content["chunks"],
            "chunk": client.json("GET", f"{at}/chunks/{chunk}").content,
            "documents": client.json("GET", f"{at}/documents").content["documents"],
            "document": client.json("GET", f"{at}/documents/1").content["document"],
        }
    return found


@pytest.mark.parametrize("defaults", ["contract", "recommended"])
def test_contract_names_are_in_contract_worlds_only(tmp_path: Path, defaults: str) -> None:
    lib = make_library(tmp_path, defaults=defaults)
    world = lib.world(a__txt=TEXT)
    wanted = defaults == "contract"

    for interface, said in replies(lib).items():
        search = said["search"]
        assert ("chunk_text" in search) is wanted, interface
        for chunk in (*search["passages"], *said["chunks"], said["chunk"]):
            assert chunk.keys() & CHUNK == (CHUNK if wanted else set()), interface
            if wanted:
                assert chunk["content"] == chunk["text"]
                assert (chunk["startChar"], chunk["endChar"]) == (chunk["start"], chunk["end"])
                assert TEXT[chunk["startChar"] : chunk["endChar"]] == chunk["content"]
                assert chunk["space_id"] == world.id
        for document in (*said["documents"], said["document"]):
            assert document.keys() & DOCUMENT == (DOCUMENT if wanted else set()), interface
            if wanted:
                named = document["provider"], document["model"], document["dimensions"]
                assert named == (WORDS.provider, WORDS.model, WORDS.dimensions)
                assert document["space_id"] == world.id
        if interface == "library":
            found = {name: said["chunk"][name] for name in CHUNK - {"space_id"} if wanted}
            assert said["record"] == found
        if wanted:
            assert search["chunk_text"] == search["context"] == TEXT


ALIASES = {
    "chapter_filter": ("chapter", "a.txt"),
    "section_filter": ("section", "a.txt"),
    "language_constraint": ("language", "de"),
    "version_constraint": ("version", "2.0"),
}


def test_contract_names_of_arguments_are_accepted(lib: LibraryFixture) -> None:
    lib.world(a__txt=TEXT)

    with serve_library(lib.library) as client:
        for alias, (name, value) in ALIASES.items():
            for operation in ("search", "retrieve"):
                said = [
                    client.json("POST", f"/v1/worlds/world/{operation}", {"query": "lamp", key: v})
                    for key, v in ((alias, value), (name, value), (name, None))
                ]
                assert [response.status for response in said] == [200, 200, 200]
                if operation == "search":
                    found = [response.content["passages"] for response in said]
                    assert found[0] == found[1], alias
                    assert found[2], alias
            both = {"query": "lamp", alias: value, name: value}
            refused = client.json("POST", "/v1/worlds/world/search", both)
            assert (refused.status, refused.code) == (400, "invalid_argument")


@pytest.mark.parametrize("kind", [SearchArguments, RetrievalArguments])
def test_parse_arguments_translates_contract_names(kind: type[Any]) -> None:
    for alias, (name, value) in ALIASES.items():
        translated = parse_arguments(kind, {"query": "lamp", alias: value})
        assert translated == parse_arguments(kind, {"query": "lamp", name: value})
        assert getattr(translated, name) == value
        with pytest.raises(InvalidArgument, match=alias):
            parse_arguments(kind, {"query": "lamp", alias: value, name: value})


def test_parse_arguments_translates_earlier_modes() -> None:
    for earlier, mode in (("meaning", "vector"), ("words", "keyword"), ("hybrid", "hybrid")):
        parsed = parse_arguments(SearchArguments, {"query": "lamp", "mode": earlier})
        assert parsed.mode == mode


def test_error_about_a_contract_name_quotes_the_sent_name(lib: LibraryFixture) -> None:
    lib.world(a__txt=TEXT)

    with serve_library(lib.library) as client:
        for alias, (name, _) in ALIASES.items():
            for body, sent in (({alias: 7}, alias), ({name: 7}, name)):
                said = client.json("POST", "/v1/worlds/world/search", {"query": "lamp", **body})
                assert (said.status, said.code) == (400, "invalid_argument")
                assert f"The argument '{sent}' is wrong" in said.content["detail"]


@pytest.mark.parametrize("defaults", ["contract", "recommended"])
def test_schemas_list_contract_names_in_contract_worlds(tmp_path: Path, defaults: str) -> None:
    wanted = set(ALIASES) if defaults == "contract" else set()
    folder = tmp_path / "library"
    with truespan.open(folder, create=True) as library, serve_library(library) as client:
        library.create_world("w", defaults=defaults)
        schemas = client.json("GET", "/openapi.json").content["components"]["schemas"]
        for body in CONTRACT_BODIES:
            assert schemas[body]["properties"].keys() & ALIASES.keys() == wanted
            assert schemas[body]["additionalProperties"] is False
    with session(command(folder, "--owner"), tmp_path / "errors.txt") as owner:
        for name in ("search", "retrieve"):
            schema = owner.tools()[name].input_schema
            assert schema["properties"].keys() & ALIASES.keys() == wanted
