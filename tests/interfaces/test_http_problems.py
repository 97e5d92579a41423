"""Every error over HTTP: its code, its status, whether to retry, and nothing else."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.interfaces.http_client import Client, serve_library
from tests.promises import proves
from tests.support.worlds import Hooked, make_library
from tests.unit.test_watch_metrics import number, samples
from truespan.engine.library import Library
from truespan.errors import InternalError, error_codes, error_of
from truespan.extensions.server.http.replies import HTTP_ADVICE
from truespan.extensions.server.metrics import MetricsObserver
from truespan.types.token import ID_BYTES, SECRET_BYTES, TokenSecret
from truespan.wire.serialize import status_of

CANARY = "zqinsidecanary"


class Failing(Hooked):
    """A store whose lists of worlds and tokens fail on request."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner, self._fail)
        self.fault: BaseException | None = None

    def _fail(self, name: str) -> None:
        if name in ("worlds.all", "tokens.find") and self.fault is not None:
            raise self.fault


@dataclass(frozen=True)
class FailingServer:
    client: Client
    store: Failing
    metrics: MetricsObserver

    def bugs(self) -> float:
        return number(samples(self.metrics.exposition()), "bugs_total", request="door")


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FailingServer]:
    lib = make_library(tmp_path_factory.mktemp("problems"))
    lib.world("w", a__txt="The lamp went out at midnight.")
    parts, metrics = lib.library._components, MetricsObserver()
    store = Failing(parts.store)
    library = Library(
        replace(parts, store=store, observer=metrics, metrics=metrics.exposition)  # type: ignore[arg-type]
    )
    with serve_library(library) as client:
        yield FailingServer(client, store, metrics)
    store.fault = None
    lib.library.close()


@pytest.fixture(autouse=True)
def _mended(failing: FailingServer) -> Iterator[None]:
    yield
    failing.store.fault = None


@proves("errors.stable-codes")
@pytest.mark.parametrize("code", error_codes())
def test_every_error_has_its_code_status_and_flag_over_http(failing: FailingServer, code: str):
    fault = error_of(code, "In so many words.", advice="Do this.")
    failing.store.fault = fault

    response = failing.client.json("GET", "/v1/worlds")

    status = status_of(fault).http
    assert response.status == status
    assert response.header("content-type") == "application/problem+json"
    assert response.content == {
        "type": f"urn:truespan:problem:{code}",
        "title": response.content["title"],
        "status": status,
        "detail": "In so many words.",
        "advice": "Do this.",
        "code": code,
        "retryable": fault.retryable,
    }
    assert response.content["title"]
    assert 400 <= status < 600


@proves("errors.stable-codes")
def test_retry_after_is_in_whole_seconds(failing: FailingServer) -> None:
    from truespan.errors import TooManyRequests

    for seconds, said in ((0.2, "1"), (7.0, "7"), (7.1, "8"), (float("inf"), None)):
        failing.store.fault = TooManyRequests(seconds)
        response = failing.client.json("GET", "/v1/worlds")
        assert (response.status, response.header("retry-after")) == (429, said)


TOKEN = TokenSecret.of(bytes(ID_BYTES), bytes(SECRET_BYTES)).reveal()
"""An unknown token; it is looked up all the same."""
UNFORESEEN = (
    KeyError(CANARY),
    ValueError(CANARY),
    RuntimeError(CANARY, {"text": CANARY}),
    AssertionError(CANARY),
    OSError(5, CANARY, f"/home/{CANARY}"),
    UnicodeDecodeError("utf-8", CANARY.encode(), 0, 1, CANARY),
    RecursionError(CANARY),
    TimeoutError(CANARY),
    MemoryError(CANARY),
    StopIteration(CANARY),
    type(CANARY.title(), (Exception,), {})(CANARY),
)


@proves("errors.stable-codes", "errors.no-secrets")
@pytest.mark.parametrize("fault", UNFORESEEN, ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize("is_mcp", [False, True], ids=["worlds", "mcp"])
def test_unexpected_exception_is_counted_and_reveals_nothing(
    failing: FailingServer, fault: Exception, is_mcp: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    before = failing.bugs()
    failing.store.fault = fault
    if is_mcp:
        response = failing.client.json("POST", "/mcp", {}, token=TOKEN)
    else:
        response = failing.client.json("GET", "/v1/worlds")
    failing.store.fault = None

    assert (response.status, response.code) == (500, "internal_error")
    assert response.content["retryable"] is False
    assert response.header("content-type") == "application/problem+json"
    assert response.content["detail"] == InternalError("error").message
    assert CANARY.encode() not in response.everything()
    assert type(fault).__name__.encode() not in response.everything()
    assert failing.bugs() == before + 1
    said = capsys.readouterr()
    assert CANARY not in (said.out + said.err)
    assert said.err.count("\n") == 1


@proves("errors.stable-codes")
def test_known_errors_are_not_counted_as_bugs(failing: FailingServer) -> None:
    before = failing.bugs()
    for code in error_codes():
        failing.store.fault = error_of(code, "In so many words.", advice="")
        failing.client.json("GET", "/v1/worlds")

    assert failing.bugs() == before


@proves("errors.stable-codes")
@pytest.mark.parametrize(
    ("method", "target", "headers", "body", "status", "code"),
    [
        ("GET", "/nowhere", [], None, 404, "route_not_found"),
        ("GET", "/v1/worlds/", [], None, 404, "route_not_found"),
        ("GET", "/v1//worlds", [], None, 404, "route_not_found"),
        ("PATCH", "/v1/worlds", [], None, 405, "method_not_allowed"),
        ("OPTIONS", "/v1/worlds", [], None, 405, "method_not_allowed"),
        ("DELETE", "/v1/worlds", [], None, 405, "method_not_allowed"),
        ("POST", "/v1/worlds", [], b'{"name":"x"}', 415, "media_type_unsupported"),
        ("POST", "/v1/worlds", [("content-type", "text/plain")], b"{}", 415,
         "media_type_unsupported"),
        ("POST", "/v1/worlds", [("content-type", "application/json")], b"", 400,
         "invalid_argument"),
        ("POST", "/v1/worlds", [("content-type", "application/json")], b"{", 400,
         "invalid_argument"),
        ("POST", "/v1/worlds", [("content-type", "application/json")], b"[" * 60_000, 400,
         "invalid_argument"),
        ("POST", "/v1/worlds", [("content-type", "application/json")], b'{"name":"\xff"}', 400,
         "invalid_argument"),
        ("POST", "/v1/worlds", [("content-type", "application/json")], b'{"name":"a","name":1}',
         400, "invalid_argument"),
        ("POST", "/v1/worlds", [("content-type", "application/json")], b'{"name":"a","name":"b"}',
         400, "invalid_argument"),
        ("POST", "/v1/worlds", [("content-type", "application/json")],
         b'{"name":"a","n\\u0061me":"a"}', 400, "invalid_argument"),
        ("POST", "/v1/worlds/w/search", [("content-type", "application/json")],
         b'{"query":"a","top_k":1,"top_k":1}', 400, "invalid_argument"),
        ("GET", "/v1/worlds?x=1", [], None, 400, "invalid_argument"),
        ("GET", "/v1/worlds/w/usage?limit=1&limit=2", [], None, 400, "invalid_argument"),
        ("GET", "/v1/worlds/w/usage?limit=%ff", [], None, 400, "invalid_argument"),
        ("GET", "/v1/worlds/w/usage?limit=1.5", [], None, 400, "invalid_argument"),
        ("GET", "/v1/worlds/w/usage?limit=true", [], None, 400, "invalid_argument"),
        ("POST", "/v1/worlds/w/documents", [], b"", 415, "media_type_unsupported"),
        ("POST", "/v1/worlds/w/documents", [("content-type", "multipart/form-data")], b"", 400,
         "invalid_argument"),
        ("POST", "/v1/worlds/w/documents",
         [("content-type", "multipart/form-data; boundary=b")], b"--b\r\n\r\n", 400,
         "invalid_argument"),
    ],
)  # fmt: skip
def test_invalid_requests_get_problems(
    failing: FailingServer,
    method: str,
    target: str,
    headers: list[tuple[str, str]],
    body: bytes | None,
    status: int,
    code: str,
) -> None:
    response = failing.client.send(method, target, headers=headers, body=body)

    assert (response.status, response.code) == (status, code), response.body
    if status == 405:
        assert "GET" in str(response.header("allow"))


def test_advice_over_http_names_calls(failing: FailingServer) -> None:
    said = [
        failing.client.json("GET", path).content
        for path in (
            "/v1/worlds/nowhere", "/v1/worlds/w/documents/9", "/v1/worlds/w/jobs/x",
            "/v1/worlds/w/readers/ann/position",
        )
    ]  # fmt: skip
    assert [problem["advice"] for problem in said if "truespan" in problem["advice"]] == []
    assert "GET /v1/worlds lists the worlds" in said[0]["advice"]
    assert [code for code in HTTP_ADVICE if "'truespan" not in error_of(code).advice] == []

    found = failing.client.json("POST", "/v1/responses", {"model": "x", "input": "y"})

    assert (found.status, found.code) == (404, "route_not_found")
    assert "POST /v1/chat/completions" in found.content["error"]["message"]


def test_advice_about_chapters_over_http_names_calls(tmp_path: Path) -> None:
    lib = make_library(tmp_path)
    text = "# Book\n\n## Night Falls\n\nIt was dark.\n\n## Night Ends\n\nIt was light.\n"
    lib.library.create_world("w").ingest(lib.write("book.md", text), kind="book")
    target = "/v1/worlds/w/readers/ann/position"
    with serve_library(lib.library) as client:
        unknown, several = (
            client.json("PUT", target, {"book": "book.md", "through_chapter": name}).content
            for name in ("9", "Night")
        )
    assert "GET /v1/worlds/{world}/documents/{document} lists them" in unknown["advice"]
    assert "as 'sentence'" in several["advice"]
    assert "truespan " not in unknown["advice"] + several["advice"]


def test_empty_object_is_accepted_in_place_of_no_body(failing: FailingServer) -> None:
    path = "/v1/worlds/w/jobs/x/cancel"
    assert failing.client.json("POST", path, {}).status == 404
    assert failing.client.json("POST", path, {"apply": True}).status == 400


def test_numbers_in_addresses_are_decimal_digits(failing: FailingServer) -> None:
    odd = ("1e3", "1E2", "5.0", "1_000", "%205", "5%20", "+5", "%2B5", "05", "", "0x1")
    odd += ("%D9%A3", "%EF%BC%95", "-0.0", "1" * 30, "9" * 5000, "nan")
    for text in odd:
        for target in (
            f"/v1/worlds/w/usage?limit={text}",
            f"/v1/worlds/w/documents/1/sentences?offset={text}",
            f"/v1/worlds/w/documents/1/sentences?limit={text}",
        ):
            response = failing.client.send("GET", target)
            assert (response.status, response.code) == (400, "invalid_argument"), target
            assert target.partition("?")[2].partition("=")[0] in response.content["detail"], target
    for text in ("1e0", "%201", "%2B1", "%D9%A1", "1_0"):
        target = f"/v1/worlds/w/generations/{text}"
        assert failing.client.send("DELETE", target).code == "invalid_argument", target
    assert failing.client.send("GET", "/v1/worlds/w/usage?limit=5").status == 200


def test_head_requests_serve_what_get_does(failing: FailingServer) -> None:
    for address in ("/v1/worlds", "/v1/worlds/w/documents", "/health", "/", "/nowhere"):
        whole = failing.client.send("GET", address)
        head = failing.client.send("HEAD", address)
        assert (head.status, head.body) == (whole.status, b"")
        assert head.shown[1] == whole.shown[1]

    for name in ("app.py", "..%2fapp.py", "%2e%2e/wire.py", "../wire.py", "index.html%00", "",
                 "__init__.py", "index.html/", "%2fetc%2fpasswd"):  # fmt: skip
        assert failing.client.send("GET", f"/page/{name}").status == 404
