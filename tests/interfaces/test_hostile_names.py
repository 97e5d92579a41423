"""Hostile names in every place of a request: traversal, encodings, lookalikes, injections."""

import json
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any
from urllib.parse import quote
from zlib import crc32

import pytest

from tests.interfaces.http_client import Client, Response, serve_library
from tests.interfaces.tenants import (
    BOUNDARY,
    FOREIGN,
    NAMES,
    OWN,
    Estate,
    by_name,
    content_of,
    estate,
    form,
    request,
)
from tests.laws.examples import in_test_or_prove
from tests.promises import proves
from truespan.extensions.server.http.app import ServerOptions
from truespan.extensions.server.http.auth import AuthPolicy
from truespan.extensions.server.http.operation import Operation
from truespan.extensions.server.http.routes import OPERATIONS
from truespan.types.scope import UNLIMITED, Verb

WORLD, OTHER = f"{OWN}-world", f"{FOREIGN}-world"
HOSTILE: dict[str, str] = {
    "quote": "' OR '1'='1",
    "statement": "'; DROP TABLE worlds; --",
    "union": "' UNION SELECT text FROM chunks --",
    "wildcard": "%",
    "pattern": "_%' ESCAPE '",
    "filter": '{"must":[{"key":"tenant","match":{"any":["*"]}}]}',
    "operator": '{"$ne":null}',
    "list": f'["{OTHER}"]',
    "name and comment": f"{OTHER}' --",
    "two names": f"{WORLD},{OTHER}",
    "cyrillic": OTHER.replace("e", "е"),
    "full width": "".join(chr(ord(one) + 0xFEE0) for one in OTHER),
    "upper case": OTHER.upper(),
    "zero width": OTHER.replace("-", "\u200b-"),
    "soft hyphen": f"{OTHER}\u00ad",
    "right to left": f"\u202e{OTHER}",
    "decomposed": unicodedata.normalize("NFD", "ö" + OTHER),
    "composed": unicodedata.normalize("NFC", "o\u0308" + OTHER),
    "NUL": f"{OTHER}\x00",
    "NUL before": f"\x00{OTHER}",
    "line": f"{OTHER}\r\nx-injected: 1",
    "escape": "\x1b[2J\x07",
    "dots": "../" + OTHER,
    "encoded dots": "%2e%2e%2f" + OTHER,
    "encoded slash": f"{WORLD}%2f..%2f{OTHER}",
    "encoded NUL": f"{OTHER}%00",
    "backslash": f"..\\{OTHER}",
    "absolute": "/etc/passwd",
    "number": "1",
    "zero": "0",
    "minus": "-1",
    "huge number": "9" * 40,
    "float": "1e999",
    "not a number": "NaN",
    "true": "true",
    "null": "null",
    "arabic digits": "١",
    "superscript": "¹",
    "emoji": "🕰️👩\u200d🔬",
    "last code point": "\U0010ffff",
    "surrogate": "\ud800",
    "blank": " ",
    "empty": "",
    "template": "{{7*7}}${7*7}{world}",
    "long": "a" * 3000,
}
RAW = {
    "bad percent": "%zz",
    "half percent": "%",
    "overlong slash": "%c0%af",
    "overlong dot": "%c0%ae%c0%ae",
    "surrogate": "%ed%a0%80",
    "no UTF-8": "%ff%fe",
    "twice encoded": "%252e%252e%252f",
    "NUL": "%00",
    "line": "%0d%0ax-injected:%201",
    "dots": "..",
    "dots and slash": "../" * 3,
    "encoded dots": "%2e%2e",
    "encoded slash": f"{WORLD}%2f..%2f{OTHER}",
    "parameters": f"{WORLD};{OTHER}",
    "plus": "a+b",
}
"""Spellings in a path that percent-encoding does not produce."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Estate]:
    found = estate(tmp_path_factory.mktemp("hostile") / "library")
    yield found
    found.lib.library.close()


@pytest.fixture(scope="module")
def client(made: Estate) -> Iterator[Client]:
    with serve_library(
        made.lib.library, ServerOptions(auth=AuthPolicy(needs_token=True))
    ) as running:
        yield running


@pytest.fixture(scope="module")
def key(made: Estate) -> str:
    """A token that may do everything in the own world except administer it."""
    return made.keys["follow+read"]


@pytest.fixture(scope="module")
def master(made: Estate) -> str:
    """A token for both worlds, so that only the name can keep a request from the other world."""
    tokens = made.lib.library.tokens
    return tokens.create("master", worlds=UNLIMITED, verbs=list(Verb))[1].reveal()


def held(response: Response, where: object, sent: str) -> None:
    """Assert that a hostile name was refused or not found, and revealed nothing."""
    everything = response.everything()
    assert response.status < 500, (where, response.body)
    assert response.header("x-injected") is None
    assert all("\n" not in value for _, value in response.headers)
    # The request had the canary in its name, and a refusal may repeat that; no text goes with it.
    for line in (f"{FOREIGN} keeper", f"{FOREIGN} report", f"{FOREIGN} book", f"{FOREIGN}-domain"):
        assert line.encode() not in everything, (where, line)
    # Conversations and notes repeat what this caller sent before, with such names in it.
    place = str(where).casefold()
    is_own = "conversation" in place or "note" in place
    if FOREIGN not in sent.casefold() and not is_own:
        assert FOREIGN.encode() not in everything, where


def some(names: Mapping[str, str], *place: str) -> Iterable[tuple[str, str]]:
    """Return the names to try at a place: in `make test` every sixth, which ones differs."""
    step = in_test_or_prove(6, 1)
    return islice(names.items(), crc32(" ".join(place).encode()) % step, None, step)


def places(call: Operation) -> list[str]:
    return [name for name in NAMES if f"{{{name}}}" in call.path or f"{{{name}:path}}" in call.path]


@proves("authority.only-narrows", "index.typed-filters")
@pytest.mark.parametrize(
    "call", [call for call in OPERATIONS if "{" in call.path], ids=lambda c: c.name
)
def test_hostile_names_in_paths_are_refused(
    made: Estate, client: Client, key: str, master: str, call: Operation
) -> None:
    one = request(call, made.names)
    for place in places(call):
        marked = request(call, made.names.changed(**{place: "PLACE"})).target
        spelled = {**{name: quote(as_utf8(text), safe="") for name, text in HOSTILE.items()}, **RAW}
        for name, spelling in some(spelled, call.name, place):
            target = marked.replace("PLACE", spelling)
            response = client.send(
                call.method, target, token=key, headers=one.headers, body=one.body
            )
            held(response, (call.name, place, name), target)
            if place == "world":
                wide = client.send(
                    call.method, target, token=master, headers=one.headers, body=one.body
                )
                held(wide, (call.name, place, name), target)
                assert response.status >= 400, (call.name, name, response.body)
                assert wide.status >= 400, (call.name, name, wide.body)


def as_utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@proves("authority.only-narrows", "index.typed-filters")
@pytest.mark.parametrize(
    "call", [call for call in OPERATIONS if call.body_type is not None], ids=lambda call: call.name
)
def test_hostile_names_in_bodies_are_refused(
    made: Estate, client: Client, key: str, call: Operation
) -> None:
    assert call.body_type is not None
    target, content = request(call, made.names).target, content_of(call, made.names)
    for member in call.body_type.__struct_fields__:
        for name, text in some(HOSTILE, call.name, member):
            for value in (text, [text]) if member in ("documents", "tags") else (text,):
                response = client.json(call.method, target, {**content, member: value}, token=key)
                held(response, (call.name, member, name), json.dumps(value, ensure_ascii=False))


@proves("authority.only-narrows")
@pytest.mark.parametrize(
    "call", [call for call in OPERATIONS if call.query_type is not None], ids=lambda call: call.name
)
def test_hostile_names_in_query_strings_are_refused(
    made: Estate, client: Client, key: str, call: Operation
) -> None:
    assert call.query_type is not None
    target = request(call, made.names).target.partition("?")[0]
    for member in (*call.query_type.__struct_fields__, "world", "reader", "position", "authority"):
        for name, text in some(HOSTILE, call.name, member):
            spelled = f"{target}?{member}={quote(as_utf8(text), safe='')}"
            response = client.send(call.method, spelled, token=key)
            held(response, (call.name, member, name), spelled)
            if member not in call.query_type.__struct_fields__:
                assert response.code == "invalid_argument"


@proves("authority.only-narrows")
@pytest.mark.parametrize("header", ["x-rag-domain", "idempotency-key", "content-type"])
def test_hostile_names_in_headers_are_refused(made: Estate, client: Client, key: str, header: str):
    for call in map(by_name, ("chat", "search", "setPosition")):
        one = request(call, made.names)
        for name, text in HOSTILE.items():
            kept = [pair for pair in one.headers if pair[0] != header]
            response = client.send(
                call.method,
                one.target,
                token=key,
                headers=[*kept, (header, as_utf8(text))],
                body=one.body,
            )
            held(response, (call.name, header, name), text)


HEADERS = ("x-forwarded-for", "x-forwarded-host", "x-original-url", "x-rewrite-url", "x-user",
           "x-world", "x-reader", "x-token", "x-http-method-override", "forwarded")  # fmt: skip


@proves("authority.only-narrows")
def test_forwarding_headers_change_nothing(made: Estate, client: Client) -> None:
    key = made.keys["read"]
    for name in ("listDocuments", "listGenerations", "deleteDocument"):
        one = request(next(call for call in OPERATIONS if call.name == name), made.strange)
        plain = one.sent(client, key)
        for header in HEADERS:
            for value in ("127.0.0.1", "/v1/worlds", made.foreign.id, "GET", "owner"):
                response = client.send(
                    one.call.method, one.target, token=key, headers=[(header, value)]
                )
                assert response.shown == plain.shown, header


@proves("authority.only-narrows")
@pytest.mark.parametrize("member", ["kind", "title", "language", "version", "chunking", "tags"])
def test_hostile_names_in_upload_fields_are_refused(made: Estate, client: Client, member: str):
    # This token may not upload; its fields are validated all the same.
    kind = [("content-type", f"multipart/form-data; boundary={BOUNDARY}")]
    for text in HOSTILE.values():
        value = text.encode("utf-8", "replace").decode()
        for body in (form({member: value}), form({}, name=value.replace('"', "%22"))):
            response = client.send(
                "POST",
                f"/v1/worlds/{WORLD}/documents",
                token=made.keys["read"],
                headers=kind,
                body=body,
            )
            held(response, member, value)
            assert response.status in (400, 403, 404, 415, 422), response.body


OTHER_TYPES: list[Any] = [True, None, 1.5, 10**40, [], {}, [[]], {"$gt": ""}, -0.0, "x"]


@proves("authority.only-narrows")
@pytest.mark.parametrize("number", range(len(OTHER_TYPES)))
def test_body_members_of_wrong_types_are_refused(
    made: Estate, client: Client, key: str, number: int
) -> None:
    for call in (call for call in OPERATIONS if call.body_type is not None):
        assert call.body_type is not None
        target, content = request(call, made.names).target, content_of(call, made.names)
        for member in (*call.body_type.__struct_fields__, "position", "authority", "reader"):
            # In `make test` a member gets every third value, others get others.
            if (crc32(f"{call.name} {member}".encode()) + number) % in_test_or_prove(3, 1):
                continue
            value = OTHER_TYPES[number]
            response = client.json(call.method, target, {**content, member: value}, token=key)
            held(response, (call.name, member), json.dumps(value))
            # Clients of OpenAI send members that only some servers know.
            if member not in call.body_type.__struct_fields__ and not call.names_error:
                assert response.code == "invalid_argument", (call.name, member)
