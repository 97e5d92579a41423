"""Replies of `contract` worlds carry the names that the contract fixes, beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.interfaces.http_client import serve_library
from tests.support.worlds import WORDS, Place, place
from truespan.wire.serialize import chunk_data, document_data

TEXT = "The lamp went out at midnight. Nobody lit it again. The harbour was quiet."
CHUNK = {"content", "startChar", "endChar", "space_id"}
DOCUMENT = {"provider", "model", "dimensions", "space_id"}


def replies(here: Place) -> dict[str, Any]:
    """Return what each interface says of a search, of chunks and of a document."""
    world = here.library.world("world")
    result, page = world.search("lamp"), world.documents.chunks("a.txt")
    chunk = result.results[0].chunk_id
    found: dict[str, Any] = {
        "library": {
            "search": msgspec.to_builtins(result),
            "chunks": msgspec.to_builtins(page.chunks),
            "chunk": chunk_data(world.documents.chunk(chunk)),
            "documents": [document_data(document) for document in world.documents.list()],
            "document": document_data(world.documents.get("a.txt")),
        }
    }
    with serve_library(here.library) as client:
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
    here = place(tmp_path, defaults=defaults)
    world = here.world(a__txt=TEXT)
    wanted = defaults == "contract"

    for interface, said in replies(here).items():
        search = said["search"]
        assert ("chunk_text" in search) is wanted, interface
        for chunk in (*search["results"], *said["chunks"], said["chunk"]):
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
        if wanted:
            assert search["chunk_text"] == search["context"] == TEXT
