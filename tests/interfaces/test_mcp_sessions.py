"""Access to MCP over HTTP: targets, roles and owners of sessions."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from anyio import to_thread

from tests.interfaces.mcp_clients import BOOK, HELLO
from tests.interfaces.mcp_http import Address, connected, message_of, serving
from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.worlds import LibraryFixture as Here
from tests.support.worlds import make_library
from truespan.errors import CallerError, InvalidArgument, NotAllowed
from truespan.extensions.server.http.streamable import (
    MAX_SESSIONS_PER_CALLER,
    TARGET,
    StreamableApp,
    Target,
    select_target,
)
from truespan.extensions.server.mcp.caller import AnonymousAccess
from truespan.types.scope import OWNER, UNLIMITED, Authority, Verb
from truespan.types.token import Principal

TOOLS = {"reading": "retrieve_context", "owning": "retrieve"}
GREETING = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}


@pytest.fixture
def lib(tmp_path: Path) -> Iterator[Here]:
    """Three worlds; in two of them ann reads the same book."""
    made = make_library(tmp_path)
    for name in ("one", "two/2"):
        world = made.library.create_world(name)
        world.ingest(made.write("lamp.md", BOOK), kind="book")
        world.reader("ann").set_position("lamp.md", through_chapter="One")
    made.library.create_world("empty")
    with made.library:
        yield made


@pytest.fixture
def at(lib: Here) -> Iterator[Address]:
    with serving(lib.library, AnonymousAccess()) as address:
        yield address


def token(lib: Here, **allowed: Any) -> str:
    return lib.library.tokens.create("a token", **allowed)[1].reveal()


def authority(lib: Here, *worlds: str, verbs: str = "read", readers: Any = UNLIMITED) -> Authority:
    ids = frozenset(record.id for record in lib.library.worlds() if record.name in worlds)
    bound = readers if readers is UNLIMITED else frozenset(readers)
    return Authority(ids, frozenset(map(Verb, verbs.split())), bound)


def chosen(
    lib: Here,
    allowed: Authority,
    world: str | None = None,
    reader: str | None = None,
    token: str | None = "t",
    response: AnonymousAccess | None = None,
) -> Target:
    return select_target(
        lib.library, response or AnonymousAccess(), Principal(token, allowed), world, reader
    )


def outcome(found: Target) -> tuple[str, str | None]:
    """Return the selected target, after checking the limits of its caller."""
    authority = found.caller.world.access.authority
    assert authority.verbs == {Verb.READ if found.caller.reader is None else Verb.FOLLOW}
    assert isinstance(authority.worlds, frozenset)
    assert len(authority.worlds) == 1
    return found.role.name, found.caller.reader


# Targets


@proves("authority.only-narrows")
def test_token_for_one_world_or_reader_needs_no_selection(lib: Here) -> None:
    follows = {"verbs": "follow", "readers": ["ann"]}

    assert outcome(chosen(lib, authority(lib, "one"))) == ("owning", None)
    assert outcome(chosen(lib, authority(lib, "one", **follows))) == ("reading", "ann")
    assert outcome(chosen(lib, authority(lib, "one", verbs="read follow write"))) == (
        "owning",
        None,
    )


def test_too_many_sessions_end_the_callers_oldest(lib: Here, at: Address) -> None:
    careless, careful = token(lib, worlds="one"), token(lib, worlds="one")
    kept = at.begin(careful)
    ended = at.begin(careless)
    assert at.request("DELETE", careless, mcp_session_id=ended).status_code == 200

    opened = [at.begin(careless) for _ in range(MAX_SESSIONS_PER_CALLER + 1)]

    assert at.call(opened[0], "ping", careless).status_code == 404
    assert [at.call(one, "ping", careless).status_code for one in opened[1:3]] == [200, 200]
    assert at.call(opened[-1], "ping", careless).status_code == 200
    assert at.call(kept, "ping", careful).status_code == 200


@proves("authority.only-narrows")
def test_address_selects_only_among_permitted_targets(lib: Here) -> None:
    both = authority(lib, "one", "two/2")
    readers = authority(lib, "one", "two/2", verbs="follow", readers=["ann", "bob"])

    assert chosen(lib, both, "two/2").caller.world.id == lib.library.world("two/2").id
    assert outcome(chosen(lib, readers, "one", "bob")) == ("reading", "bob")
    assert outcome(chosen(lib, OWNER, "one", "zoe")) == ("reading", "zoe")
    for refused in (("empty",), ("nowhere",), (lib.library.world("empty").id,)):
        with raises_code("world_not_found"):
            chosen(lib, both, *refused)
    for allowed, named in ((readers, "zoe"), (readers, "Ann"), (both, "ann")):
        with pytest.raises(NotAllowed):
            chosen(lib, allowed, "one", named)
    with pytest.raises(InvalidArgument):
        chosen(lib, OWNER, "one", " ")


@proves("authority.empty-means-nothing")
def test_ambiguous_target_is_refused_with_advice(lib: Here) -> None:
    both = authority(lib, "one", "two/2")
    with pytest.raises(CallerError, match="/mcp/WORLD"):
        chosen(lib, both)
    with pytest.raises(CallerError, match="/mcp/WORLD/READER"):
        chosen(lib, authority(lib, "one", verbs="follow", readers=["ann", "bob"]))
    with pytest.raises(CallerError, match="/mcp/WORLD/READER"):
        chosen(lib, authority(lib, "one", verbs="follow"))
    for nothing in (
        authority(lib, "one", verbs="write"),
        authority(lib, "nowhere"),
        authority(lib, "one", verbs=""),
        authority(lib, "one", verbs="follow", readers=[]),
    ):
        with pytest.raises(CallerError):
            chosen(lib, nothing)
        with pytest.raises(CallerError):
            chosen(lib, nothing, "one")


@proves("authority.only-narrows")
def test_anonymous_access_follows_the_setting(lib: Here) -> None:
    def response(*named: str, **said: Any) -> Target:
        return chosen(lib, OWNER, *named, token=None, response=AnonymousAccess(**said))

    assert outcome(response(world="one", owner=True)) == ("owning", None)
    assert outcome(response(world="one", reader="ann")) == ("reading", "ann")
    assert outcome(response("one", "ann", world="one", reader="ann")) == ("reading", "ann")
    for named, said in (
        ((), {}),
        (("one",), {}),
        (("one",), {"world": "one"}),
        (("one", "bob"), {"world": "one", "reader": "ann"}),
        (("one", "ann"), {"world": "one", "owner": True}),
    ):
        with pytest.raises(NotAllowed):
            response(*named, **said)
    for said in ({"world": "one", "owner": True}, {"world": "one", "reader": "ann"}):
        with raises_code("world_not_found"):
            response("two/2", **said)


def test_refusals_give_advice_and_hide_foreign_worlds(lib: Here, at: Address) -> None:
    refused = at.post(GREETING)
    several = at.post(GREETING, token(lib, worlds=["one", "two/2"]))

    assert (refused.status_code, several.status_code) == (403, 400)
    for answer, advice in ((refused, "--mcp-reader"), (several, "/mcp/WORLD")):
        assert answer.headers["content-type"] == "application/problem+json"
        assert advice in answer.json()["advice"]
    assert refused.json()["code"] == "not_allowed"
    assert at.post(GREETING, path="/one/ann/more").status_code == 404

    one = token(lib, worlds="one")
    answers = [at.post(GREETING, one, f"/{name}") for name in ("empty", "absent", "two%2F2")]

    bodies = [
        answer.text.replace(name, "NAME")
        for answer, name in zip(answers, ("empty", "absent", "two/2"), strict=True)
    ]
    assert {answer.status_code for answer in answers} == {404}
    assert len(set(bodies)) == 1


def test_world_with_a_slash_is_selected_by_encoded_name(lib: Here, at: Address) -> None:
    both = token(lib, worlds=["one", "two/2"])

    with connected(f"{at.url}/two%2F2", both) as session:
        found = session.call("search", query="key").structured_content or {}

    assert found["world"] == lib.library.world("two/2").id


# Owners of sessions


def test_session_belongs_to_the_token_that_opened_it(lib: Here, at: Address) -> None:
    mine, yours = token(lib, worlds="one"), token(lib, worlds="one")
    session = at.begin(mine)
    unknown = at.call("0" * 32, "tools/list", yours)

    for attempt in (
        at.call(session, "tools/list", yours),
        at.call(session, "tools/call", yours, name="search", arguments={"query": "key"}),
        at.request("DELETE", yours, mcp_session_id=session),
    ):
        assert (attempt.status_code, attempt.text) == (404, unknown.text)
    assert unknown.status_code == 404
    assert message_of(at.call(session, "tools/list", mine))["result"]["tools"]


def test_session_cannot_change_its_world_or_reader(lib: Here, at: Address) -> None:
    both = token(lib, worlds=["one", "two/2"])
    follows = token(lib, worlds="one", readers=["ann", "bob"])
    session, reading = at.begin(both, "/one"), at.begin(follows, "/one/ann")

    assert at.call(session, "tools/list", both, "/two%2F2").status_code == 404
    assert at.call(reading, "tools/list", follows, "/one/bob").status_code == 404
    assert at.call(session, "tools/list", both, "/one").status_code == 200
    assert at.call(reading, "tools/list", follows, "/one/ann").status_code == 200


def test_sessions_with_and_without_a_token_are_separate(lib: Here) -> None:
    one = token(lib, worlds="one")
    with serving(lib.library, AnonymousAccess(world="one", owner=True)) as at:
        bare, mine = at.begin(), at.begin(one)

        assert at.call(bare, "tools/list", one).status_code == 404
        assert at.call(mine, "tools/list").status_code == 404
        assert at.call(bare, "tools/list").status_code == 200


def test_revoked_token_ends_its_session_at_the_next_request(lib: Here, at: Address) -> None:
    record, secret = lib.library.tokens.create("a token", worlds="one")
    session = at.begin(secret.reveal())
    lib.library.tokens.revoke(record.id)

    assert at.call(session, "tools/list", secret.reveal()).status_code == 401


def test_deleted_world_is_unavailable_in_an_open_session(lib: Here, at: Address) -> None:
    one = token(lib, worlds="one")
    session = at.begin(one)
    lib.library.delete_world("one")

    gone = at.call(session, "tools/call", one, name="search", arguments={"query": "key"})

    assert gone.status_code in (403, 404)


def test_without_sessions_requests_are_independent(lib: Here) -> None:
    one, ann = token(lib, worlds="one"), token(lib, worlds="one", readers="ann")
    with serving(lib.library, AnonymousAccess(), sessions=False) as at:
        greeted = at.post(GREETING, one)
        for secret, tool in ((one, "retrieve"), (ann, "retrieve_context")):
            for mode in ("legacy", "auto"):
                with connected(at.url, secret, mode) as session:
                    assert tool in session.tools()
                    assert not session.call(tool, query="key").is_error

    assert greeted.status_code == 200
    assert "mcp-session-id" not in greeted.headers


# The server


def test_slow_call_blocks_no_other(lib: Here, at: Address) -> None:
    waiting, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        waiting.set()
        assert go_on.wait(60)

    one, answers = token(lib, worlds="one"), []
    session = at.begin(one)
    query = {"name": "search", "arguments": {"query": "key"}}
    lib.embedder.before = wait
    slow = threading.Thread(
        target=lambda: answers.append(at.call(session, "tools/call", one, **query))
    )
    slow.start()
    try:
        assert waiting.wait(60)
        listed = message_of(at.call(session, "resources/list", one))["result"]["resources"]
        assert (len(listed), answers) == (1, [])
    finally:
        go_on.set()
        slow.join(60)

    assert message_of(answers[0])["result"]["isError"] is False


def test_server_knows_whether_a_call_is_running(lib: Here) -> None:
    waiting, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        waiting.set()
        assert go_on.wait(60)

    async def ask() -> list[bool]:
        app = StreamableApp(lib.library, AnonymousAccess(world="one", owner=True), sessions=False)
        seen = [app.idle]
        async with app.lifetime(), anyio.create_task_group() as calls:
            chosen = select_target(lib.library, app._anonymous, Principal(None, OWNER))
            request = SimpleNamespace(scope={TARGET: chosen})
            calls.start_soon(app._run, request, lambda caller: caller.subject().search("key"))
            await to_thread.run_sync(waiting.wait)
            calls.cancel_scope.cancel()
            seen.append(app.idle)
            go_on.set()
        return [*seen, app.idle]

    lib.embedder.before = wait
    assert anyio.run(ask) == [True, False, True]


def test_no_endless_stream_is_offered(lib: Here, at: Address) -> None:
    one, other = token(lib, worlds="one"), token(lib, worlds="one")
    session = at.begin(one)

    for secret in (one, other):
        refused = at.request("GET", secret, mcp_session_id=session)
        assert (refused.status_code, refused.headers["allow"]) == (405, "DELETE, POST")


def test_oversized_body_is_refused_unread(lib: Here, at: Address) -> None:
    assert at.post("x" * (1 << 20), token(lib, worlds="one")).status_code == 413


def test_request_admitted_by_the_gateway_passes_host_check(lib: Here, at: Address) -> None:
    one = token(lib, worlds="one")

    for names in ({"host": "books.example"}, {"host": "[::1]:9", "origin": "https://a.example"}):
        assert at.post(GREETING, one, **names).status_code == 200


def test_mcp_sdk_is_not_loaded_before_its_first_request() -> None:
    script = (
        "import sys, truespan.cli, truespan.extensions.server.http.mcp; "
        "sys.exit(str({'mcp', 'mcp_types', 'pydantic', 'starlette'} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert done.stderr == "set()\n"


@proves("tenants.no-stall")
def test_calls_of_a_user_share_turns_under_all_labels(lib: Here) -> None:
    principal = Principal("t", authority(lib, "one"))
    narrowed = [principal.for_audience(frozenset(labels)) for labels in ({"a"}, {"b"})]

    targets = [select_target(lib.library, AnonymousAccess(), each, "one") for each in narrowed]

    assert [target.token for target in targets] == ["t", "t"]
    assert targets[0].session_owner != targets[1].session_owner
