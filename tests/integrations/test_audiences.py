"""Retrievers with the labels of a caller, and the FastAPI application that passes them on."""

from __future__ import annotations

import asyncio
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.library import Door, require
from tests.interfaces.http_client import serve_library
from tests.support.worlds import make_library
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.errors import InvalidArgument

EXAMPLE = Path(__file__).parents[2] / "examples" / "fastapi_app.py"
QUERY = "lamp"


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    with make_library(tmp_path / "library").library as made:
        yield made


@pytest.fixture
def world(library: Library) -> World:
    made = library.create_world("company")
    made.add_texts(["The lamp of everyone."], ids=["open.txt"])
    made.add_texts(["The lamp of people."], ids=["people.txt"], audience=["group:people"])
    made.add_texts(["The lamp of security."], ids=["safe.txt"], audience=["group:security"])
    return made


OPEN, PEOPLE = ["open.txt"], ["open.txt", "people.txt"]


def sources(found: Any) -> list[str]:
    return sorted({one["source"] for one in found})


def test_langchain_takes_labels_for_each_question(world: World) -> None:
    kinds = Door("langchain", "langchain_core")
    for retriever in (
        kinds.TruespanRetriever(world=world),
        kinds.TruespanSearchRetriever(world=world, floor=0.0),
    ):

        def ask(asked: Any = retriever, **labels: Any) -> list[str]:
            return sources(one.metadata for one in asked.invoke(QUERY, **labels))

        assert ask() == ["open.txt", "people.txt", "safe.txt"]
        assert ask(audience=["group:people"]) == PEOPLE
        assert ask(audience=[]) == OPEN
        found = asyncio.run(retriever.ainvoke(QUERY, audience=["group:people"]))
        assert sources(one.metadata for one in found) == PEOPLE
        with pytest.raises(InvalidArgument):
            ask(audience=[""])
    bound = kinds.TruespanRetriever(world=world, audience=["group:people"])
    assert sources(one.metadata for one in bound.invoke(QUERY)) == PEOPLE
    # Labels of a question narrow those of the retriever.
    found = bound.invoke(QUERY, audience=["group:security"])
    assert sources(one.metadata for one in found) == OPEN


def test_llamaindex_makes_a_retriever_for_each_caller(world: World) -> None:
    kinds = Door("llamaindex", "llama_index")
    shared = kinds.TruespanRetriever(world)
    limited = shared.for_audience(["group:people"])
    assert sources(one.node.metadata for one in limited.retrieve(QUERY)) == PEOPLE
    assert len(shared.retrieve(QUERY)) == 3
    other = limited.for_audience(["group:security"])
    assert sources(one.node.metadata for one in other.retrieve(QUERY)) == OPEN


def test_haystack_takes_labels_for_each_question(world: World) -> None:
    kinds = Door("haystack", "haystack")
    retriever = kinds.TruespanRetriever(world)

    def ask(**labels: Any) -> list[str]:
        return sources(one.meta for one in retriever.run(query=QUERY, **labels)["documents"])

    assert ask(audience=["group:people"]) == PEOPLE
    assert ask(audience=[]) == OPEN
    assert len(ask()) == 3


def test_fastapi_application_forwards_its_user(
    library: Library, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("fastapi")
    import httpx2

    _, secret = library.tokens.create("app", worlds=[world.id], impersonate=True)
    with serve_library(library) as client:
        monkeypatch.setenv("TRUESPAN_URL", f"http://127.0.0.1:{client.port}")
        monkeypatch.setenv("TRUESPAN_TOKEN", secret.reveal())
        application = runpy.run_path(str(EXAMPLE))["app"]

        async def ask(user: tuple[str, str] | None = None, **headers: str) -> Any:
            transport = httpx2.ASGITransport(application)
            address = "http://application"
            async with httpx2.AsyncClient(transport=transport, base_url=address) as browser:
                spelled = {name.replace("_", "-"): value for name, value in headers.items()}
                reply = await browser.get(
                    "/search", params={"query": QUERY}, auth=user, headers=spelled
                )
                return sorted(reply.json()) if reply.status_code == 200 else reply.status_code

        async def ask_all() -> list[Any]:
            return [
                await ask(("ana", "ana's password")),
                await ask(("bo", "bo's password"), x_truespan_audience="group:people"),
                await ask(("bo", "a guess")),
                await ask(),
            ]

        assert asyncio.run(ask_all()) == [PEOPLE, ["open.txt", "safe.txt"], 401, 401]
