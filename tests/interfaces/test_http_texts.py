"""Texts over HTTP: a job makes a document of each."""

from __future__ import annotations

from pathlib import Path

from tests.interfaces.http_client import serve_library, until
from tests.support.worlds import make_library
from truespan.types.job import JobState


def test_texts_become_documents_with_their_metadata(tmp_path: Path) -> None:
    library = make_library(tmp_path).library
    world = library.create_world("w")
    body = {
        "texts": ["The key hangs on hook seven.", "The lamp is red."],
        "ids": ["key", "lamp"],
        "metadata": [{"team": "a"}, {"team": "b"}],
        "tags": ["x"],
    }

    with serve_library(library) as client:
        accepted = client.json("POST", "/v1/worlds/w/sources", body)
        assert accepted.status == 202
        job = accepted.content["job"]["id"]
        until(lambda: world.jobs.get(job).state is JobState.DONE)
        found = client.json(
            "POST", "/v1/worlds/w/search", {"query": "lamp", "metadata": {"team": "b"}, "floor": 0}
        )
        refused = client.json("POST", "/v1/worlds/w/sources", {**body, "ids": ["key"]})

        mixed = [
            client.json("POST", "/v1/worlds/w/sources", given)
            for given in (
                {},
                {"texts": ["a"], "urls": ["https://a.example/"]},
                {"texts": ["a"], "sample": True},
                {"ids": ["a"]},
                {"sample": True, "audience": []},
            )
        ]

    assert {(one.status, one.code) for one in mixed} == {(400, "invalid_argument")}
    assert [one["source"] for one in found.content["passages"]] == ["lamp.txt"]
    assert {document.tags for document in world.documents.list()} == {("x",)}
    assert (refused.status, refused.code) == (400, "invalid_argument")
    library.close()
