"""Rerankers: requests and accepted replies of each protocol, and models on this machine.

Servers are loopback servers that speak the protocols. The cross-encoder in ONNX format is a tiny
network that onnxruntime really runs.
"""

import json
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.contract.keyed_parts import KEY, PASSAGES, SECRET, failure_of, ring_of
from tests.promises import proves
from tests.support.onnx_maker import reranker_folder
from tests.support.providers.clock import PassingClock
from tests.support.providers.cooldowns import keyless_ring
from tests.support.providers.loopback import Answer, Asked, Raw, Reaction, drops
from tests.support.providers.rerank import MODEL, PATHS, RerankServer, shared_words
from truespan.core.cancel import CancelToken, use_cancel_token
from truespan.errors import (
    Interrupted,
    InvalidConfiguration,
    ModelUnavailable,
    ProviderBadReply,
    ProviderRefused,
    ProviderUnavailable,
    TextTooLong,
    TruespanError,
)
from truespan.extensions.models.rerank_server import HttpReranker, find_server
from truespan.protocols import Reranker
from truespan.providers.limits import slots_for
from truespan.providers.rerank import OnnxReranker

QUERY = "Which mould killed bacteria in a dish in 1928?"
SHAPES = ("jina", "cohere", "tei", "llama.cpp")
SECONDS = 30.0


class TickingClock(PassingClock):
    """A clock that advances by a second at every call, once `ticking` is set."""

    ticking = False

    def monotonic(self) -> float:
        self.time += 1.0 if self.ticking else 0.0
        return self.time


def reranker_of(server: RerankServer, **changes: Any) -> HttpReranker:
    clock = changes.pop("clock", None) or PassingClock()
    given: dict[str, Any] = {"keys": keyless_ring(clock), "clock": clock, "seconds": SECONDS}
    model = "" if server.shape in ("tei", "llama.cpp") else MODEL
    return HttpReranker(find_server(server.endpoint, model), **given | changes)


# Servers


@proves("rerank.order")
def test_each_protocol_gets_its_request_and_scores_match_texts() -> None:
    expected = [shared_words(QUERY, text) for text in PASSAGES]
    sent = {"query": QUERY, "documents": PASSAGES, "top_n": 3}
    bodies = {
        "jina": sent | {"model": MODEL, "return_documents": False},
        "cohere": sent | {"model": MODEL},
        "tei": {"query": QUERY, "texts": PASSAGES, "truncate": True},
        "llama.cpp": sent,
    }
    names = {"jina": f"jina/{MODEL}", "cohere": f"cohere/{MODEL}"}
    for shape in SHAPES:
        with RerankServer(shape, keys=(KEY,)) as server:
            reranker: Reranker = reranker_of(server, keys=ring_of("rerank", KEY))

            assert reranker.scores(QUERY, PASSAGES) == expected, shape

            [asked] = server.asked
            assert (asked.method, asked.path) == ("POST", PATHS[shape])
            assert asked.content == bodies[shape]
            assert asked.headers["authorization"] == f"Bearer {KEY}"
            assert KEY not in asked.body.decode() + asked.path
            assert reranker.name == names.get(shape, shape)


def test_keyless_server_gets_no_key_and_connections_are_reused() -> None:
    with RerankServer() as server:
        reranker = reranker_of(server)
        for _ in range(3):
            reranker.scores(QUERY, PASSAGES)

        assert {asked.headers.get("authorization") for asked in server.asked} == {None}
        assert server.connections == 1


def test_texts_are_sent_in_batches_of_the_server_limit() -> None:
    texts = [f"{'mould ' * (number % 3)}number {number}" for number in range(70)]
    for shape in SHAPES:
        with RerankServer(shape) as server:
            scores = reranker_of(server).scores(QUERY, texts)

            assert scores == [shared_words(QUERY, text) for text in texts], shape
            sizes = [len(server.texts(asked)) for asked in server.asked]
            assert sizes == ([32, 32, 6] if shape == "tei" else [70])


def test_lone_surrogate_can_be_scored() -> None:
    with RerankServer() as server:
        assert len(reranker_of(server).scores("\ud800 half", ["a pair \udfff"])) == 1


def test_url_path_selects_the_protocol() -> None:
    rows = [
        ("http://127.0.0.1:8080/v1/rerank", MODEL, "jina", "/v1/rerank"),
        ("http://127.0.0.1:8080/v1/rerank", "", "llama.cpp", "/v1/rerank"),
        ("https://api.example.com/v2/rerank", MODEL, "cohere", "/v2/rerank"),
        ("http://127.0.0.1:8080/rerank", "", "tei", "/rerank"),
        ("http://127.0.0.1:8080/api/v1/rerank/", MODEL, "jina", "/api/v1/rerank"),
        ("http://127.0.0.1:8080/reranking", "", "tei", "/reranking"),
    ]
    for url, model, shape, path in rows:
        found = find_server(url, model)
        assert found.shape == shape, url
        assert found.url.endswith(path), url


@proves("http.outbound-urls", "errors.no-secrets")
def test_invalid_server_is_refused_before_a_request() -> None:
    rows = [
        ("http://127.0.0.1:8080/mine", MODEL, "ends with /rerank"),
        ("http://127.0.0.1:8080", MODEL, "ends with /rerank"),
        ("http://127.0.0.1:8080/v2/rerank", "", "rerank_model"),
        (f"http://user:{KEY}@127.0.0.1/rerank", "", "base URL"),
        (f"http://127.0.0.1/rerank?key={KEY}", "", "base URL"),
        ("ftp://127.0.0.1/rerank", "", "base URL"),
    ]
    for url, model, said in rows:
        with pytest.raises(InvalidConfiguration) as caught:
            find_server(url, model)
        assert said in str(caught.value), url
        assert KEY not in str(caught.value)


@proves("http.outbound-urls")
def test_forbidden_address_is_not_contacted() -> None:
    for host in ("169.254.169.254", "0.0.0.0", "[fe80::1]"):
        clock = PassingClock()
        server = find_server(f"http://{host}:8080/rerank", "")
        reranker = HttpReranker(server, keys=keyless_ring(clock), clock=clock, seconds=SECONDS)
        failure_of(lambda reranker=reranker: reranker.scores(QUERY, PASSAGES), ProviderRefused)


def body(text: str) -> Callable[[RerankServer], Reaction]:
    return lambda server: Answer(body=text.encode())


def rows(*found: Any) -> Callable[[RerankServer], Reaction]:
    def react(server: RerankServer) -> Reaction:
        name = "score" if server.shape == "tei" else "relevance_score"
        content: Any = [{"index": index, name: score} for index, score in found]
        return Answer(content=content if server.shape == "tei" else {"results": content})

    return react


FAULTS: list[tuple[str, Callable[[RerankServer], Reaction], str | type[TruespanError]]] = [
    ("fewer scores", rows((0, 1.0), (1, 0.5)), ProviderBadReply),
    ("no scores", rows(), ProviderBadReply),
    ("more scores", rows((0, 1.0), (1, 0.5), (2, 0.1), (3, 0.1)), ProviderBadReply),
    ("a repeated index", rows((0, 1.0), (1, 0.5), (1, 0.1)), ProviderBadReply),
    ("an unknown index", rows((0, 1.0), (1, 0.5), (7, 0.1)), ProviderBadReply),
    ("a negative index", rows((0, 1.0), (1, 0.5), (-1, 0.1)), ProviderBadReply),
    ("text for an index", rows((0, 1.0), (1, 0.5), ("2", 0.1)), ProviderBadReply),
    ("text for a score", rows((0, 1.0), (1, 0.5), (2, SECRET)), ProviderBadReply),
    ("null for a score", rows((0, 1.0), (1, 0.5), (2, None)), ProviderBadReply),
    ("true for a score", rows((0, 1.0), (1, 0.5), (2, True)), ProviderBadReply),
    ("a list for a score", rows((0, 1.0), (1, 0.5), (2, [1])), ProviderBadReply),
    ("other members", body('{"data": []}'), ProviderBadReply),
    ("a number", body("7"), ProviderBadReply),
    ("nothing", body(""), ProviderBadReply),
    ("truncated JSON", body('{"results": [{"index": 0'), ProviderBadReply),
    ("deep JSON", body("[" * 100_000), ProviderBadReply),
    (
        "HTML",
        lambda _: Answer(body=f"<html>{SECRET} {KEY}".encode(), content_type="text/html"),
        ProviderBadReply,
    ),
    ("9 MB, undeclared", lambda _: Answer(pieces=[b" " * (1 << 20)] * 9), ProviderBadReply),
    (
        "9 MB, declared",
        lambda _: Raw([b"HTTP/1.1 200 OK\r\nContent-Length: 9437184\r\n\r\n{"]),
        ProviderBadReply,
    ),
    ("not HTTP", lambda _: Raw([b"220 smtp ready\r\n"]), ProviderBadReply),
    ("hangs up", lambda _: Raw(), ProviderUnavailable),
    (
        "shorter than declared",
        lambda _: Answer(content={"results": []}, cut=4),
        ProviderUnavailable,
    ),
    ("400", lambda _: Answer(400, {"error": f"{SECRET} {KEY}"}), ProviderRefused),
    ("401", lambda _: Answer(401, {"error": KEY}), ProviderRefused),
    ("413", lambda _: Answer(413, {"error": "too large"}), "provider_batch_too_large"),
    (
        "a text is too long",
        lambda _: Answer(500, {"error": "input is too large to process"}),
        TextTooLong,
    ),
    ("500", lambda _: Answer(500, {"error": SECRET}), ProviderUnavailable),
    ("503", lambda _: Answer(503, {}), ProviderUnavailable),
    ("redirect", lambda _: Answer(307, {}, {"Location": "/elsewhere"}), ProviderRefused),
]


@proves("errors.no-secrets", "http.outbound-urls")
def test_every_fault_of_a_server_has_its_error_on_every_protocol() -> None:
    for shape in SHAPES:
        with RerankServer(shape) as server:
            reranker = reranker_of(server)
            for name, react, kind in FAULTS:
                server.fault = lambda _, react=react: react(server)
                try:
                    failure_of(partial(reranker.scores, f"{QUERY} {SECRET}", PASSAGES), kind)
                except BaseException as error:
                    raise AssertionError(f"{shape}: {name}") from error
            server.fault = None
            assert len(reranker.scores(QUERY, PASSAGES)) == 3
            assert {asked.path for asked in server.asked} == {server.path}


def test_non_finite_scores_are_passed_to_the_stage() -> None:
    with RerankServer("tei") as server:
        for number in ("NaN", "Infinity", "-Infinity", "1e999"):
            text = f'[{{"index": 0, "score": {number}}}]'
            server.fault = lambda _, text=text: Answer(body=text.encode())
            [score] = reranker_of(server).scores(QUERY, PASSAGES[:1])
            assert not float("-inf") < score < float("inf"), number


@proves("rerank.failure")
def test_slow_server_ends_at_the_deadline() -> None:
    clock = TickingClock()

    def drip(_: Asked) -> Reaction:
        clock.ticking = True
        return Answer(pieces=drops(b"["))

    with RerankServer() as server:
        server.fault = drip
        reranker = reranker_of(server, clock=clock, seconds=5.0)
        error = failure_of(lambda: reranker.scores(QUERY, PASSAGES), ProviderUnavailable)

    assert "did not answer in time" in error.message


def test_waiting_for_other_requests_to_the_address_counts_as_time() -> None:
    clock = TickingClock()
    clock.ticking = True
    with RerankServer() as server:
        reranker = reranker_of(server, clock=clock, seconds=0.5, in_flight=1)
        slots = slots_for(f"127.0.0.1:{server.port}", 1)
        with slots.hold():
            failure_of(lambda: reranker.scores(QUERY, PASSAGES), ProviderUnavailable)
        assert server.asked == []
        clock.ticking = False
        assert len(reranker.scores(QUERY, PASSAGES)) == 3


def test_limited_key_cools_down_and_the_next_is_used() -> None:
    with RerankServer(keys=("first", "second")) as server:

        def limit(asked: Asked) -> Reaction | None:
            return Answer(429, {}) if asked.headers["authorization"].endswith("first") else None

        server.fault = limit
        reranker = reranker_of(server, keys=ring_of("rerank", "first", "second"))
        assert len(reranker.scores(QUERY, PASSAGES)) == 3
        server.fault = lambda _: Answer(429, {})
        failure_of(lambda: reranker.scores(QUERY, PASSAGES), "provider_cooldown")


@proves("rerank.failure")
def test_cancelled_request_ends_the_call_to_a_server() -> None:
    token, released = CancelToken(), threading.Event()

    def react(_: Asked) -> Reaction:
        token.cancel()

        def pieces() -> Iterator[bytes]:
            released.wait(30)
            yield b"{}"

        return Answer(pieces=pieces())

    with RerankServer() as server:
        server.fault = react
        with use_cancel_token(token), pytest.raises(Interrupted):
            reranker_of(server).scores(QUERY, PASSAGES)
        released.set()


# A cross-encoder from a folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reranker_folder(tmp_path_factory.mktemp("models") / "tiny")


def onnx_reranker(folder: Path, **changes: Any) -> OnnxReranker:
    given: dict[str, Any] = {"clock": PassingClock(), "seconds": SECONDS, "threads": 2}
    return OnnxReranker(folder, **given | changes)


@proves("rerank.order")
def test_a_cross_encoder_scores_each_text_independently_of_the_others(folder: Path) -> None:
    reranker: Reranker = onnx_reranker(folder)

    together = reranker.scores(QUERY, PASSAGES)

    assert reranker.name == "onnx/tiny"
    assert together == [reranker.scores(QUERY, [text])[0] for text in PASSAGES]
    assert max(together) == together[0]
    assert reranker.scores(QUERY, PASSAGES[::-1]) == together[::-1]


def test_long_texts_are_cut_and_special_tokens_are_plain_text(folder: Path) -> None:
    reranker = onnx_reranker(folder)

    long, longer = reranker.scores("dish", ["dish " * 600, "dish " * 700])
    spelled, plain = reranker.scores("[SEP] dish", ["[SEP]", "nothing"])

    assert long == longer
    # The only separator that a query and a text share is the one after each of them.
    assert plain == 1
    assert spelled > plain + 1


def test_input_limit_is_read_from_the_tokenizer_settings(tmp_path: Path) -> None:
    folder = reranker_folder(tmp_path / "short")
    text = "dish " * 100
    [usual] = onnx_reranker(folder).scores("dish", [text])
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 24}))
    [short] = onnx_reranker(folder).scores("dish", [text])
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 1e30}))
    [again] = onnx_reranker(folder).scores("dish", [text])

    assert short < usual == again


def test_folder_without_a_usable_model_is_refused_by_name(tmp_path: Path) -> None:
    missing, empty = tmp_path / "missing", tmp_path / "empty"
    empty.mkdir()
    broken = reranker_folder(tmp_path / "broken")
    (broken / "model.onnx").write_bytes(b"no network")
    wordless = reranker_folder(tmp_path / "wordless")
    (wordless / "tokenizer.json").write_text("{}")
    several = reranker_folder(tmp_path / "several", numbers=3)
    for folder, said in (
        (missing, "There is no model folder"),
        (empty, "does not hold model.onnx"),
        (broken, "is not an ONNX network"),
        (wordless, "is not a valid tokenizer"),
        (several, "does not give one score"),
    ):
        with pytest.raises(ModelUnavailable, match=said):
            onnx_reranker(folder).scores(QUERY, PASSAGES)


@proves("rerank.failure")
def test_slow_model_ends_at_the_deadline(folder: Path) -> None:
    clock = TickingClock()
    reranker = onnx_reranker(folder, clock=clock, seconds=2.5)
    assert len(reranker.scores(QUERY, PASSAGES)) == 3
    clock.ticking = True

    with pytest.raises(ProviderUnavailable, match="did not finish in time"):
        reranker.scores(QUERY, PASSAGES)


@proves("rerank.failure")
def test_a_cancelled_request_ends_the_runs_of_a_model(folder: Path) -> None:
    token = CancelToken()
    token.cancel()

    with use_cancel_token(token), pytest.raises(Interrupted):
        onnx_reranker(folder).scores(QUERY, PASSAGES)
