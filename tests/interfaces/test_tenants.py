"""Every token in every operation: hidden objects are reported as absent, byte for byte."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.interfaces.http_client import Client, Response, serve_library
from tests.interfaces.tenants import (
    FOREIGN,
    OWN,
    Estate,
    Names,
    Request,
    by_name,
    estate,
    form,
    request,
    requests,
    timeless,
)
from tests.promises import proves
from truespan.extensions.server.http.app import ServerOptions
from truespan.extensions.server.http.auth import AuthPolicy
from truespan.extensions.server.http.operation import Operation
from truespan.extensions.server.http.routes import OPERATIONS

ALL_VERBS = "administer+follow+read+write"
OPEN = {"health", "ready"}
"""Public operations, which reveal nothing about callers."""
FREE = {
    "me", "listKeys", "verifyReceipt", "listWorlds", "listDomains", "showWorld", "chat", "metrics",
    "createWorld",
    "reingestDocument", "listModels", "completeChat", "embedTexts", "showChatModel",
    "findChatServers", "connectChatModel", "disconnectChatModel",
}  # fmt: skip
"""Operations whose permission is not one verb in one world; each has separate tests."""
NEEDS = {
    "read": {
        "listDocuments", "showDocument", "countFacets", "checkFreshness",
        "listReaders", "readSentences",
        "listChunks", "showChunk", "showImage", "drawDocument", "listJobs", "showJob",
        "search",
        "retrieve", "whyNot", "answer", "listUsage", "evaluate",
        "listConversations", "startConversation",
        "deleteConversations", "showConversation", "continueConversation",
        "deleteConversation",
    },
    "follow": {
        "listBooks", "readPosition", "retrieveAsReader", "answerAsReader", "whyNotAsReader",
        "readSentencesAsReader", "showImageAsReader", "drawDocumentAsReader", "listNotes",
        "addNote", "deleteNote", "deleteNotes",
        "listConversationsAsReader",
        "startConversationAsReader", "deleteConversationsAsReader", "showConversationAsReader",
        "continueConversationAsReader",
        "deleteConversationAsReader",
    },
    "write": {
        "uploadDocuments", "ingestSources", "updateDocument",
        "deleteDocument", "cancelJob", "resumeJob", "setPosition", "examineWorld",
    },
    "administer": {
        "listGenerations", "reindex", "promote", "removeGeneration", "deleteWorld",
        "setDefaults",
    },
}  # fmt: skip
"""A second list of permissions, so that an operation that asks for too little is noticed."""
LOOKING = {"updateDocument", "deleteDocument", "setPosition", "examineWorld"}
"""Operations that look up documents before they change them."""
JOBS = {"listJobs", "showJob"}
"""Operations that callers who may write can use as well."""
CHANGING = {
    "uploadDocuments", "ingestSources", "reindex", "deleteWorld", "createWorld",
    "setPosition", "examineWorld", "setDefaults", "deleteConversations",
    "deleteConversationsAsReader", "addNote", "deleteNote", "deleteNotes",
}  # fmt: skip
"""Operations that would change the world if their names were right."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Estate]:
    found = estate(tmp_path_factory.mktemp("estate") / "library")
    yield found
    found.lib.library.close()


@pytest.fixture(scope="module")
def client(made: Estate) -> Iterator[Client]:
    policy = AuthPolicy(needs_token=True)
    with serve_library(made.lib.library, ServerOptions(auth=policy)) as running:
        yield running


def silent(response: Response, asked: Request | None, secrets: list[bytes]) -> None:
    """Assert that a reply has nothing of the foreign world except names in the request."""
    everything = response.everything()
    for secret in secrets:
        if asked is None or not asked.names(secret):
            assert secret not in everything, (str(asked), secret, everything[:2000])


def reaching(call: Operation) -> bool:
    """Return whether an operation names a part of a world."""
    return call.path.count("{") > 1 or (call.body_type is not None and not call.writes)


@proves("authority.only-narrows")
def test_every_operation_is_open_free_or_needs_a_permission() -> None:
    known = OPEN | FREE | set().union(*NEEDS.values())

    assert {call.name for call in OPERATIONS} == known
    assert sum(map(len, NEEDS.values())) + len(OPEN | FREE) == len(known)
    assert {call.name for call in OPERATIONS if call.public} == OPEN


@proves("authority.only-narrows")
@pytest.mark.parametrize("verb", sorted(NEEDS))
def test_call_is_allowed_only_with_its_permission(made: Estate, client: Client, verb: str) -> None:
    harmless = made.names.changed(document="absent.md", generation="99")
    for call in OPERATIONS:
        if call.name not in NEEDS[verb]:
            continue
        for kind, key in made.keys.items():
            verbs = set(kind.split("+"))
            if not verbs <= {"read", "follow", "write", "administer"}:
                continue
            allowed = verb in verbs and ("read" in verbs or call.name not in LOOKING)
            allowed = allowed or ("write" in verbs and call.name in JOBS)
            if allowed and call.name in CHANGING:
                continue
            names = harmless if allowed and call.writes else made.names
            for one in requests(call, names):
                response = one.sent(client, key)
                refused = response.code in ("not_allowed", "world_not_found")
                assert refused is not allowed, (kind, call.name, response.shown)
                silent(response, None, made.secrets())
                assert (OWN.encode() in response.body.replace(b"zvown-world", b"")) <= allowed


@proves("authority.only-narrows", "authority.empty-means-nothing")
def test_foreign_and_absent_replies_are_equal(tmp_path_factory: pytest.TempPathFactory) -> None:
    made = estate(tmp_path_factory.mktemp("estate") / "library")
    inside = made.strange.changed(world=made.names.world)
    by_id = made.strange.changed(world=made.foreign.id)
    asked: list[Request] = []
    for call in OPERATIONS:
        if call.name == "createWorld":
            continue
        asked += [*requests(call, made.strange), *requests(call, by_id)]
        if call.domains:
            own = made.names.changed(domain=made.strange.domain)
            asked += [request(call, own, domain=True), request(call, made.strange, domain=True)]
        asked += requests(call, inside) if reaching(call) else []
    asked = [one for one in asked if one.call.name not in CHANGING or FOREIGN in one.target]
    asked = [one for one in asked if harmless(one, made.names)]

    def replies(client: Client) -> Iterator[tuple[str, Request, Response]]:
        for kind, key in made.keys.items():
            # Two verbs allow what each allows, and no more.
            if kind.count("+") in (0, 3):
                for one in asked:
                    yield kind, one, one.sent(client, key)

    serving = ServerOptions(auth=AuthPolicy(needs_token=True))
    with serve_library(made.lib.library, serving) as client:
        foreign = list(replies(client))
        made.lib.library.delete_world(made.foreign.id)
        absent = list(replies(client))

    assert len(foreign) > 900
    for (kind, one, before), (_, _, after) in zip(foreign, absent, strict=True):
        silent(before, one, made.secrets())
        assert shown(before) == shown(after), (kind, str(one), one.target, one.body)
        assert before.status < 500, (kind, str(one), before.body)
    made.lib.library.close()


def harmless(one: Request, own: Names) -> bool:
    """Return whether a successful request leaves the own world unchanged."""
    return not (one.call.writes and one.call.path.count("{") == 1 and own.world in one.target)


def shown(response: Response) -> tuple[object, ...]:
    """Return a reply without its duration."""
    headers = [pair for pair in response.headers if pair[0] not in ("date", "content-length")]
    return response.status, headers, timeless(response.body)


@proves("authority.only-narrows")
def test_token_sees_no_foreign_word_anywhere(made: Estate, client: Client) -> None:
    heard = 0
    for key in made.keys.values():
        for call in OPERATIONS:
            if call.writes:
                continue
            for one in requests(call, made.names):
                response = one.sent(client, key)
                assert response.status < 500, response.body
                silent(response, None, made.secrets())
                heard += OWN.encode() in response.body

    assert heard > 100


@proves("http.local-and-checked", "authority.only-narrows")
def test_every_invalid_token_gets_the_same_answer(made: Estate, client: Client) -> None:
    # Clients of OpenAI get the same problem in their own format too.
    answers: dict[bool, set[Any]] = {False: set(), True: set()}
    for call in OPERATIONS:
        if call.public:
            continue
        one = request(call, made.names)
        response = [one.sent(client, key) for key in made.dead.values()]
        response.append(one.sent(client, None))
        response.append(
            replace(one, headers=[*one.headers, ("authorization", "Basic b3duZXI6")]).sent(
                client, None
            )
        )
        good = ("authorization", f"Bearer {made.keys[ALL_VERBS]}")
        twice = replace(one, headers=[*one.headers, good, good])
        response.append(twice.sent(client, None))
        answers[call.names_error] |= {one.shown for one in response}

    for ((status, headers, body),) in answers.values():
        assert status == 401
        assert ("www-authenticate", 'Bearer realm="truespan"') in headers
        assert OWN.encode() not in body


@proves("authority.empty-means-nothing")
def test_key_of_deleted_worlds_sees_nothing(made: Estate, client: Client) -> None:
    key = made.keys["none left"]

    assert client.json("GET", "/v1/worlds", token=key).content == {"worlds": []}
    assert client.json("GET", "/v1/domains", token=key).content == {"domains": []}
    assert client.json("GET", "/v1/me", token=key).content["worlds"] == []
    assert client.json("GET", "/metrics", token=key).code == "not_allowed"
    for call in OPERATIONS:
        if "{world}" in call.path:
            assert request(call, made.names).sent(client, key).code == "world_not_found", call.name
    assert client.json("POST", "/chat", {"query": "who?"}, token=key).code == "world_not_named"


@proves("authority.only-narrows")
def test_only_the_owner_creates_worlds_and_reads_metrics(made: Estate, client: Client) -> None:
    for kind, key in made.keys.items():
        response = client.json("POST", "/v1/worlds", {"name": f"{FOREIGN}-world"}, token=key)
        assert response.code == "world_not_found", (kind, response.body)
        if kind != "metrics":
            assert client.json("GET", "/metrics", token=key).code == "not_allowed"


@proves("authority.observe-is-metrics-alone")
def test_observer_key_reads_only_metrics(made: Estate, client: Client) -> None:
    key = made.keys["metrics"]

    assert client.json("GET", "/metrics", token=key).status == 200
    assert client.json("GET", "/v1/me", token=key).content["verbs"] == ["observe"]
    assert client.json("GET", "/v1/worlds", token=key).content == {"worlds": []}
    assert client.json("GET", "/v1/domains", token=key).content == {"domains": []}
    for call in OPERATIONS:
        if "{world}" in call.path:
            assert request(call, made.names).sent(client, key).code == "world_not_found", call.name
    assert client.json("POST", "/chat", {"query": "who?"}, token=key).status == 400
    hello = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert client.json("POST", "/mcp", hello, token=key).status == 403


@proves("authority.only-narrows")
def test_token_of_a_reader_is_limited_to_that_reader_and_world(made: Estate, client: Client):
    key, own = made.keys["a reader"], made.names
    other = own.changed(reader="somebody else")
    for call in OPERATIONS:
        if call.name in NEEDS["follow"]:
            # The picture is unread, the owner began the conversation, and the note is deleted.
            pictures = "showImageAsReader", "drawDocumentAsReader"
            absent = call.name in (*pictures, "deleteNote") or "{conversation}" in call.path
            expected = 404 if absent else 201 if call.name == "addNote" else 200
            assert request(call, own).sent(client, key).status == expected, call.name
            assert request(call, other).sent(client, key).code == "not_allowed"
        elif "{world}" in call.path and call.name != "showWorld":
            response = request(call, own).sent(client, key)
            assert response.code in ("not_allowed", "world_not_found"), (call.name, response.body)


@proves("authority.only-narrows")
def test_forbidden_request_is_refused_before_its_body(made: Estate, client: Client) -> None:
    upload = by_name("uploadDocuments")
    names = made.names.changed(world=made.strange.world)
    headers = request(upload, names).headers
    one = Request(upload, request(upload, names).target, headers, form({"kind": "nonsense"}))

    response = one.sent(client, made.keys[ALL_VERBS])

    assert response.code in ("world_not_found", "invalid_argument")
    silent(response, one, made.secrets())
