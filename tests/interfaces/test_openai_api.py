"""The API of OpenAI: models, chats and embeddings, for owners and readers."""

import base64
import json
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.http_client import Client, Response, serve_library
from tests.promises import proves
from tests.support.answer_worlds import QUESTION, Scripted, Study, scored, study
from tests.support.worlds import make_library
from truespan.errors import ProviderUnavailable
from truespan.extensions.server.http.app import ServerOptions
from truespan.extensions.server.http.auth import AuthPolicy
from truespan.extensions.server.http.routes.openai import SOURCES
from truespan.testing import WordEmbedder
from truespan.types.scope import UNLIMITED

CHAT = "/v1/chat/completions"


@contextmanager
def served(
    folder: Path, options: ServerOptions | None = None, **models: Any
) -> Iterator[tuple[Study, Client]]:
    made = study(folder, **models)
    made.scores(0.9, 0.3)
    with serve_library(made.library, options or ServerOptions()) as client:
        yield made, client


def ask(
    client: Client,
    *texts: str,
    model: str = "truespan/world",
    token: str | None = None,
    **members: Any,
) -> Response:
    """Send a chat with alternating messages of the user and the assistant."""
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
    body = {"model": model, "messages": messages} | members
    return client.json("POST", CHAT, body, token=token)


def parts_of(response: Response) -> list[Any]:
    """Return the parts of a stream without the mark of its end."""
    blocks = response.body.decode().strip().split("\n\n")
    assert all(block.startswith("data: ") for block in blocks)
    assert blocks[-1] == "data: [DONE]"
    return [json.loads(block.removeprefix("data: ")) for block in blocks[:-1]]


@proves("http.openai")
def test_a_chat_gets_an_answer_with_its_sources(tmp_path: Path) -> None:
    with served(tmp_path, primary=Scripted("The keeper did [1].")) as (_, client):
        whole = ask(client, QUESTION, temperature=0.7, tools=[{"type": "function"}])
        parts = parts_of(ask(client, QUESTION, stream=True, stream_options={"include_usage": True}))

    (choice,) = whole.content["choices"]
    text = choice["message"]["content"]
    assert (whole.content["object"], choice["finish_reason"]) == ("chat.completion", "stop")
    assert text.startswith(f"The keeper did [1].{SOURCES}[1] [")
    assert "/#world=" in text
    assert "(http://127.0.0.1:" in text
    citation = whole.content["truespan"]["citations"][0]
    assert (citation["number"], citation["document"]) == (1, 1)
    streamed = "".join(p["choices"][0]["delta"].get("content", "") for p in parts if p["choices"])
    assert streamed == text
    assert parts[-1]["usage"] == whole.content["usage"]
    assert parts[-2]["choices"][0]["finish_reason"] == "stop"
    assert parts[-2]["truespan"]["citations"] == whole.content["truespan"]["citations"]
    assert {part["object"] for part in parts} == {"chat.completion.chunk"}


LURE = "Policy](https://evil.example/login) and [more"
_LINK = re.compile(r"(?<!\\)\]\(([^)]*)\)")


@proves("http.openai", "output.no-forged-links")
def test_heading_of_a_document_makes_no_link_in_a_chat(tmp_path: Path) -> None:
    for primary in (Scripted("He did [1]."), None):
        room = study(tmp_path / str(primary is None), primary=primary)
        room.add(a__md=f"# {LURE}\n\n## {LURE}\n\n{scored(0.9)}")
        with serve_library(room.library, ServerOptions()) as client:
            text = ask(client, QUESTION).content["choices"][0]["message"]["content"]
        room.library.close()
        shown = [line for line in text.split("\n") if not line.startswith(">")]

        links = _LINK.findall("\n".join(shown))
        assert "evil.example" in "\n".join(shown)
        assert all(link.startswith("http://127.0.0.1:") for link in links)
        assert len(links) == (primary is not None)


@proves("http.openai")
def test_earlier_messages_are_never_evidence(tmp_path: Path) -> None:
    model = Scripted("The keeper did [1].")
    with served(tmp_path, primary=model) as (made, client):
        before = f"A dragon did [1].{SOURCES}[1] [Elsewhere](http://x)"
        found = ask(client, "Who lit the lamp?", before, "And who put it out?")
        made.world.reader("ann").set_position("p0.txt", sentence=1)
        ask(client, "Who lit the lamp?", before, "And who?", model="truespan/world@ann")

    prompts = ["\n".join(message.text for message in asked) for asked in model.asked]
    assert "Elsewhere" not in "".join(prompts)
    assert "A dragon did" in prompts[1]
    # A reader may have gone back since the answer was given.
    assert "dragon" not in "".join(prompts[2:])
    assert found.content["truespan"]["citations"][0]["document"] == 1


@proves("http.openai")
def test_a_refusal_is_an_ordinary_reply(tmp_path: Path) -> None:
    with served(tmp_path) as (made, client):
        made.scores(0.1)
        found = ask(client, "How is insulin dosed?")

    assert found.status == 200
    assert found.content["choices"][0]["message"]["content"].startswith("Nothing certain.")


@proves("http.openai")
def test_errors_have_the_format_of_openai(tmp_path: Path) -> None:
    broken = Scripted(["The keeper ", ProviderUnavailable("test")])
    with served(tmp_path, primary=broken) as (_, client):
        unknown = ask(client, QUESTION, model="truespan/nowhere")
        silent = client.json(
            "POST", CHAT, {"model": "truespan", "messages": [{"role": "system", "content": "x"}]}
        )
        stream = ask(client, QUESTION, stream=True).body.decode()

    assert (unknown.status, unknown.content["error"]["code"]) == (404, "world_not_found")
    assert (silent.status, silent.content["error"]["type"]) == (400, "invalid_request_error")
    last = json.loads(stream.strip().split("\n\n")[-1].removeprefix("data: "))
    assert last["error"]["code"] == "provider_unavailable"


@proves("http.openai")
def test_models_are_worlds_and_readers_of_the_caller(tmp_path: Path) -> None:
    options = ServerOptions(auth=AuthPolicy(needs_token=True))
    with served(tmp_path, options) as (made, client):
        made.library.create_world("a@b")
        made.world.reader("ann").set_position("p0.txt", sentence=0)
        create = made.library.tokens.create
        owner = create("owner", worlds=UNLIMITED, verbs=["read", "follow"])[1].reveal()
        reader = create("app", worlds=["world"], readers=["ann"])[1].reveal()
        listed = [
            [card["id"] for card in client.send("GET", "/v1/models", token=t).content["data"]]
            for t in (owner, reader)
        ]
        allowed = ask(client, QUESTION, model="truespan/world@ann", token=reader)
        mail = create("mail", worlds=["world"], readers=["bea@b.org"])[1].reveal()
        by_mail = ask(client, QUESTION, model="truespan/world@bea@b.org", token=mail)
        other = ask(client, QUESTION, model="truespan/world@ann@b.org", token=mail)
        refused = ask(client, QUESTION, model="truespan/world", token=reader)
        no_token = ask(client, QUESTION)
        text = {"model": "truespan/world", "input": "x"}
        embedding = client.json("POST", "/v1/embeddings", text, token=reader)

        foreign, absent = (
            [
                ask(client, QUESTION, model=f"truespan/{name}", token=reader).body,
                client.json(
                    "POST", "/v1/embeddings", text | {"model": f"truespan/{name}"}, token=reader
                ).body,
            ]
            for name in ("a@b", "a@c")
        )

    assert foreign == [body.replace(b"a@c", b"a@b") for body in absent]
    assert listed == [
        ["truespan/a@b", "truespan/world", "truespan/world@ann"],
        ["truespan/world@ann"],
    ]
    assert (by_mail.status, other.status) == (200, 403)
    assert [allowed.status, refused.status, no_token.status, embedding.status] == [
        200, 403, 401, 403,
    ]  # fmt: skip
    assert no_token.content["error"]["code"] == "unauthorized"


@proves("http.openai")
@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_embeddings_are_those_of_the_world(tmp_path: Path, encoding: str) -> None:
    body = {
        "model": "truespan/world",
        "input": ["One.", "Two.", "One."],
        "encoding_format": encoding,
    }
    embedder = WordEmbedder()
    lib = make_library(tmp_path, embedder=embedder)
    lib.library.create_world("world")
    with serve_library(lib.library) as client:
        found = client.json("POST", "/v1/embeddings", body).content
    lib.library.close()

    size = embedder.profile.dimensions
    vectors = [item["embedding"] for item in found["data"]]
    if encoding == "base64":
        vectors = [[*struct.unpack(f"<{size}f", base64.b64decode(v))] for v in vectors]
    assert [len(vector) for vector in vectors] == [size] * 3
    assert vectors[0] == vectors[2] != vectors[1]
    assert found["usage"]["prompt_tokens"] > 0


@proves("http.openai")
def test_embeddings_of_long_texts_are_sent_in_parts(tmp_path: Path) -> None:
    """A provider may silently embed only the beginning of a long text."""
    embedder = WordEmbedder()
    lib = make_library(tmp_path, embedder=embedder)
    lib.library.create_world("world")
    long = " ".join(f"The clock struck {number}." for number in range(300))
    with serve_library(lib.library) as client:
        body = {"model": "truespan/world", "input": [long, "The clock struck one."]}
        found = client.json("POST", "/v1/embeddings", body).content
    lib.library.close()

    sizes = [len(text.split()) for text in embedder.documents]
    assert max(sizes) <= embedder.profile.input_limit
    assert sum(sizes) == len(long.split()) + 4
    whole, sentence = (item["embedding"] for item in found["data"])
    assert sum(a * b for a, b in zip(whole, sentence, strict=True)) > 0.5
