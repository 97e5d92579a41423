"""Answers over HTTP: the mode in a header, domains, and requests to models."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.interfaces.http_client import Client, Response, serve_library
from tests.interfaces.tenants import timeless
from tests.promises import proves
from tests.support.answer_worlds import QUESTION, Scripted, Study, scored, study
from tests.support.providers.chat import KEY, OpenAiChatServer, openai_chat
from tests.support.providers.loopback import Loopback
from truespan.engine.library import Library
from truespan.errors import ProviderUnavailable
from truespan.extensions.server.http.app import ServerOptions
from truespan.extensions.server.http.auth import AuthPolicy
from truespan.protocols import ChatModels
from truespan.types.scope import UNLIMITED, Verb

ANSWER = "/v1/worlds/world/answer"
MODES = [
    # scores of the passages, reply of the primary model, and the resulting mode
    ([0.9, 0.3], "The keeper did.", "rag"),
    ([0.55], "The keeper did.", "rag"),
    ([0.52], "The keeper did.", "hybrid"),
    ([0.3], "The keeper did.", "fallback"),
    ([0.1], "The keeper did.", "fallback"),
    ([0.9], "", "fallback"),
    ([0.9], " NO_CONTEXT ", "fallback"),
]


@contextmanager
def studied(folder: Path, *scores: float, **models: Any) -> Iterator[tuple[Study, Client]]:
    made = study(folder, **models)
    made.scores(*scores)
    with serve_library(made.library) as client:
        yield made, client


def events(response: Response) -> list[tuple[str, Any]]:
    found = []
    for block in response.body.decode().strip().split("\n\n"):
        name, content = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(content.removeprefix("data: "))))
    return found


@proves("decision.mode-header")
@pytest.mark.parametrize(("scores", "said", "mode"), MODES)
@pytest.mark.parametrize("path", [ANSWER, "/chat"])
def test_header_names_the_decision_mode(
    tmp_path: Path, scores: list[float], said: str, mode: str, path: str
) -> None:
    models = {"primary": Scripted(said), "fallback": Scripted("I would not know.")}
    with studied(tmp_path, *scores, **models) as (_, client):
        whole = client.json("POST", path, {"query": QUESTION})
        streamed = client.json("POST", path, {"query": QUESTION, "stream": True})
        accept = [("accept", "text/event-stream, */*;q=0.1")]
        accepted = client.json("POST", path, {"query": QUESTION}, headers=accept)

    assert [name for name, _ in events(accepted)] == [name for name, _ in events(streamed)]
    assert whole.header("x-answer-mode") == mode
    assert whole.content["decision_explain"]["mode"] == whole.content["mode"] == mode
    (first, started), *pieces, (last, finished) = events(streamed)
    assert (first, last) == ("started", "finished")
    assert streamed.header("x-answer-mode") == started["mode"] == mode
    assert finished["decision_explain"]["mode"] == mode
    assert finished["support"]["claims"] == len(finished["support"]["sentences"])
    assert timeless(json.dumps(finished).encode()) == timeless(whole.body)
    assert {name for name, _ in pieces} <= {"piece"}
    assert "".join(piece["text"] for _, piece in pieces) == whole.content["answer"]


@proves("decision.mode-header")
def test_header_names_the_mode_of_a_reader_answer(tmp_path: Path) -> None:
    with studied(tmp_path, 0.9, primary=Scripted("The keeper did.")) as (made, client):
        made.world.reader("ann").set_position("p0.txt", sentence=1)
        address = "/v1/worlds/world/readers/{}/answer"
        read = client.json("POST", address.format("ann"), {"query": QUESTION})
        unread = client.json("POST", address.format("bob"), {"query": QUESTION})

    assert read.header("x-answer-mode") == read.content["decision_explain"]["mode"] == "rag"
    assert unread.header("x-answer-mode") == unread.content["decision_explain"]["mode"]
    assert unread.content["decision_explain"]["mode"] == "fallback"


def test_failed_answer_has_no_mode_and_broken_stream_its_reason(tmp_path: Path) -> None:
    down = ProviderUnavailable("test")
    model = Scripted([down], ["The keeper [1] ", down])
    with studied(tmp_path, 0.9, primary=model) as (_, client):
        failed = client.json("POST", ANSWER, {"query": QUESTION})
        broken = client.json("POST", ANSWER, {"query": QUESTION, "stream": True})

    assert (failed.status, failed.code) == (503, down.code)
    assert failed.header("x-answer-mode") is None
    assert [name for name, _ in events(broken)][-1] == "problem"
    assert events(broken)[-1][1]["code"] == down.code


# Domains


@pytest.fixture(scope="module")
def domains(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Study, Client]]:
    made = study(tmp_path_factory.mktemp("domains"))
    # Between the thresholds, where gates decide.
    made.scores(0.52, 0.4)
    made.world.generations.reindex(chunking="sentences")
    made.world.generations.promote(2, domain="second")
    other = made.library.create_world("other")
    other.ingest(made.lib.write("other/p.txt", scored(0.53, "Elsewhere.")))
    other.generations.promote(1, domain="elsewhere")
    with serve_library(made.library) as client:
        yield made, client
    made.library.close()


def asked(client: Client, path: str, domain: str | None, **more: Any) -> Response:
    headers = [] if domain is None else [("x-rag-domain", domain)]
    return client.json("POST", path, {"query": QUESTION, **more}, headers=headers)


@proves("decision.domain-header")
@pytest.mark.parametrize(
    ("path", "domain", "world", "generation"),
    [
        (ANSWER, None, "world", 1),
        (ANSWER, "second", "world", 2),
        ("/chat", "second", "world", 2),
        ("/chat", "elsewhere", "other", 1),
        ("/v1/worlds/other/answer", None, "other", 1),
        ("/v1/worlds/other/answer", "elsewhere", "other", 1),
    ],
)
def test_domain_header_selects_the_domain(
    domains: tuple[Study, Client], path: str, domain: str | None, world: str, generation: int
) -> None:
    made, client = domains
    response = asked(client, path, domain)

    assert response.status == 200
    assert response.header("x-rag-domain") == domain
    target = response.content["decision_explain"]["retrieval_target"]
    library = made.library
    direct = library.domain(domain) if domain else library.world(world)
    expected = direct.answer(QUESTION)
    assert target == expected.decision_explain["retrieval_target"]
    assert timeless(response.body) == timeless(json.dumps(plain(expected)).encode())
    assert str(generation) in target or (domain or "") in target
    chunks = {note["chunk_id"] for note in response.content["retrieved_chunks_metadata"]}
    assert chunks
    tenant = f"{library.world(world).id}.{generation}"
    assert chunks <= set(next(v for k, v in made.lib.index.points.items() if k[1] == tenant))


def plain(value: Any) -> Any:
    import msgspec

    return msgspec.json.decode(msgspec.json.encode(value))


@proves("decision.domain-header")
def test_thresholds_and_gates_are_the_same_in_every_domain(domains: tuple[Study, Client]) -> None:
    _, client = domains
    response = [asked(client, "/chat", "second"), asked(client, "/chat", "elsewhere"),
            asked(client, ANSWER, None)]  # fmt: skip

    rules = [one.content["decision_explain"] for one in response]
    for name in ("thresholds", "score_mode", "distance", "short_query_active"):
        assert len({json.dumps(rule[name], sort_keys=True) for rule in rules}) == 1, name
    gates = [[(gate["name"], gate["needed"]) for gate in rule["gates"]] for rule in rules]
    assert len(gates[0]) == 3
    assert all(one == gates[0] for one in gates)


@proves("decision.domain-header")
@pytest.mark.parametrize("call", ["answer", "search", "retrieve", "why-not"])
def test_foreign_domain_is_refused_and_unknown_not_found(
    domains: tuple[Study, Client], call: str
) -> None:
    _, client = domains
    more = {"chunk_id": "c"} if call == "why-not" else {}
    crossed = asked(client, f"/v1/worlds/world/{call}", "elsewhere", **more)
    unknown = asked(client, f"/v1/worlds/world/{call}", "nowhere", **more)
    routed = asked(client, f"/v1/worlds/world/{call}", "second", **more)

    assert (crossed.status, crossed.code) == (400, "invalid_argument")
    assert (unknown.status, unknown.code) == (404, "domain_not_found")
    assert routed.status == 200
    assert asked(client, "/chat", "elsewhere", world="world").code == "invalid_argument"
    assert asked(client, "/chat", None).code == "world_not_named"
    assert asked(client, "/chat", None, world="other").status == 200
    twice = [("x-rag-domain", "second")] * 2
    assert client.json("POST", ANSWER, {"query": "x"}, headers=twice).code == "invalid_argument"


@proves("decision.domain-header", "authority.only-narrows")
def test_foreign_domain_is_answered_like_a_missing_one(domains: tuple[Study, Client]) -> None:
    made, client = domains
    key = made.library.tokens.create("mine", worlds=["world"], verbs=[Verb.READ])[1].reveal()

    def response(domain: str, path: str, **more: Any) -> Response:
        headers = [("x-rag-domain", domain)]
        body = {"query": QUESTION, **more}
        return client.json("POST", path, body, headers=headers, token=key)

    for path, more in (("/chat", {}), ("/chat", {"world": "world"}), (ANSWER, {})):
        foreign, absent = response("elsewhere", path, **more), response("elsewhen!", path, **more)
        assert foreign.status == absent.status == 404
        assert foreign.body.replace(b"elsewhere", b"elsewhen!") == absent.body


# Requests to providers


class Deaf(Loopback):
    """An address that must not be contacted."""


@proves("http.local-and-checked", "http.outbound-urls", "errors.no-secrets")
def test_provider_gets_no_token_or_header_of_a_caller(tmp_path: Path) -> None:
    with OpenAiChatServer() as model, Deaf() as stranger:
        made = study(tmp_path)
        made.scores(0.9)
        chat = openai_chat(model)
        parts = replace(made.library._components, chat=ChatModels(chat, chat))
        library = Library(parts)
        key = library.tokens.create("all", worlds=UNLIMITED, verbs=list(Verb))[1].reveal()
        headers = [
            ("cookie", "session=zqcookie"),
            ("x-api-key", "zqapikey"),
            ("x-forwarded-host", f"127.0.0.1:{stranger.port}"),
            ("x-openai-base-url", stranger.url),
            ("referer", f"{stranger.url}/zqreferer"),
        ]
        with serve_library(library, ServerOptions(auth=AuthPolicy(needs_token=True))) as client:
            for stream in (False, True):
                body = {"query": f"{QUESTION} {stranger.url}/v1", "stream": stream}
                response = client.json("POST", ANSWER, body, headers=headers, token=key)
                assert response.status == 200
                assert KEY.encode() not in response.everything()
            refused = client.json(
                "POST", ANSWER, {"query": "x", "base_url": stranger.url}, token=key
            )
        library.close()

    assert refused.code == "invalid_argument"
    assert len(model.asked) == 2
    assert stranger.asked == []
    for request in model.asked:
        assert request.headers["authorization"] == f"Bearer {KEY}"
        sent = json.dumps(request.headers).encode() + request.body
        for secret in (key, key[20:], "zqcookie", "zqapikey", "zqreferer"):
            assert secret.encode() not in sent
