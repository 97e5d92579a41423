"""Tokens for MCP over HTTP: the same isolation as in every other operation."""

from collections.abc import Iterator

import pytest

from tests.interfaces.http_client import Client, Response, serve_library
from tests.interfaces.mcp_asking import Message, addresses, messages, result_of
from tests.interfaces.tenants import FOREIGN, OWN, Estate, estate, without_time
from tests.promises import proves
from truespan.extensions.server.http.app import ServerOptions
from truespan.extensions.server.http.auth import AuthPolicy

CLOSED = ServerOptions(auth=AuthPolicy(needs_token=True), sessions=False)
KINDS = ("administer+follow+read+write", "none left", "a reader of no book")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Estate]:
    found = estate(tmp_path_factory.mktemp("estate") / "library")
    yield found
    found.lib.library.close()


def everything(made: Estate, *, inside: bool) -> list[Message]:
    """Return all requests that name the foreign world, or its objects inside the own one."""
    strange, own = made.strange, made.names
    if inside:
        paths = [
            "/mcp",
            *addresses(own.world, strange.reader)[2:],
            *addresses(own.world, own.reader)[1:],
        ]
    else:
        paths = [*addresses(strange.world, strange.reader)[1:], f"/mcp/{made.foreign.id}"]
    return list(messages(sorted(set(paths)), "the great clock", strange.book, strange.document))


def shown(response: Response) -> tuple[object, ...]:
    headers = [pair for pair in response.headers if pair[0] not in ("date", "content-length")]
    return response.status, headers, without_time(result_of(response))


def silent(response: Response, asked: Message, secrets: list[bytes]) -> None:
    for secret in secrets:
        if not asked.names(secret):
            assert secret not in response.everything(), (str(asked), secret)


@proves("authority.only-narrows", "authority.empty-means-nothing")
def test_mcp_foreign_and_absent_replies_are_equal(tmp_path_factory: pytest.TempPathFactory) -> None:
    made = estate(tmp_path_factory.mktemp("estate") / "library")
    asked = [*everything(made, inside=False), *everything(made, inside=True)]
    # Equal requests are sent once.
    asked = list({str(one) + repr(one.params): one for one in asked}.values())

    def replies(client: Client) -> list[tuple[str, Message, Response]]:
        return [(kind, one, one.sent(client, made.keys[kind])) for kind in KINDS for one in asked]

    with serve_library(made.lib.library, CLOSED) as client:
        foreign = replies(client)
        made.lib.library.delete_world(made.foreign.id)
        absent = replies(client)
    made.lib.library.close()

    heard = 0
    for (kind, one, before), (_, _, after) in zip(foreign, absent, strict=True):
        silent(before, one, made.secrets())
        assert shown(before) == shown(after), (kind, str(one))
        assert before.status < 500
        heard += OWN.encode() in before.body
    assert heard > 30


@proves("http.local-and-checked", "authority.only-narrows")
def test_mcp_accepts_tokens_only_and_needs_one(made: Estate) -> None:
    one = Message("/mcp", "tools/list", {})
    with serve_library(made.lib.library, CLOSED) as client:
        response = [one.sent(client, key) for key in (*made.dead.values(), None)]
    with serve_library(made.lib.library, ServerOptions(sessions=False)) as client:
        untold = one.sent(client, None)
        wrong = one.sent(client, made.dead["of another library"])

    assert {reply.shown for reply in response} == {response[0].shown}
    assert (response[0].status, response[0].code) == (401, "unauthorized")
    assert (untold.status, untold.code) == (403, "not_allowed")
    assert wrong.code == "unauthorized"


HOSTILE = (
    "%2e%2e", "..%2f..", "%00", "%ff", "'%20OR%20'1'='1", "%E2%80%AE", "%ED%A0%80", "a" * 3000,
    f"{FOREIGN}-world%00", f"{FOREIGN}-world%2f", f"{FOREIGN}-WORLD", "%F0%9F%95%B0",
    f"{OWN}-world/{FOREIGN}-reader/x", f"{OWN}-world%2f..%2f{FOREIGN}-world",
)  # fmt: skip


@proves("authority.only-narrows")
@pytest.mark.parametrize("spelled", HOSTILE, ids=lambda one: one[:24])
def test_mcp_hostile_names_in_paths_are_refused(made: Estate, spelled: str) -> None:
    with serve_library(made.lib.library, CLOSED) as client:
        for path in (f"/mcp/{spelled}", f"/mcp/{OWN}-world/{spelled}", f"/mcp/{spelled}/x"):
            for kind in ("read", "a reader", "administer+follow+read+write"):
                one = Message(path, "tools/call", {"name": "search", "arguments": {"query": "x"}})
                response = one.sent(client, made.keys[kind])
                assert response.status < 500, (path, response.body)
                assert f"{FOREIGN} keeper".encode() not in response.everything()
