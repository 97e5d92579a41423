"""Users of an identity provider: their permissions by the rules of the settings, over HTTP."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.interfaces.http_client import Client, serve_library
from tests.promises import proves
from tests.support.http_server import served
from tests.support.providers.issuer import AUDIENCE, KEYS, Issuer, SigningKey
from tests.support.worlds import LibraryFixture, ManualClock, make_library
from truespan.engine.library import Library
from truespan.extensions.server.http.app import ServerOptions
from truespan.extensions.server.http.auth import AuthPolicy
from truespan.extensions.server.identities import Identities
from truespan.extensions.server.openid import ALGORITHMS, KeyCache, OpenIdVerifier, key_client
from truespan.extensions.server.users import user_id
from truespan.types.scope import OWNER, UNLIMITED, Verb
from truespan.types.token import AccessRule
from truespan.wiring import open_library

RULES = (
    AccessRule("roles", "admin", UNLIMITED, frozenset(Verb), UNLIMITED),
    AccessRule("roles", "editor", ("one",), frozenset({Verb.READ, Verb.WRITE}), UNLIMITED),
    AccessRule("roles", "reader", ("one",), frozenset({Verb.FOLLOW}), reader="{email}"),
    AccessRule("roles", "guest", ("{worlds}",), labels=("group:{groups}", "user:{email}")),
)


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as running:
        yield running


@pytest.fixture
def lib(tmp_path: Path) -> Iterator[LibraryFixture]:
    made = make_library(tmp_path / "library")
    made.world("one", a__txt="The lamp went out at midnight.")
    made.world("two", b__txt="The clock struck one.")
    yield made
    made.library.close()


@pytest.fixture
def library(lib: LibraryFixture, issuer: Issuer) -> Library:
    clock = ManualClock()
    keys = KeyCache(key_client(issuer.keys_url, clock), tuple(ALGORITHMS), clock, 3600)
    verifier = OpenIdVerifier(
        keys, issuer=issuer.url, audience=AUDIENCE, algorithms=tuple(ALGORITHMS), leeway_seconds=0
    )
    return Library(replace(lib.library._components, identities=Identities(verifier, RULES)), OWNER)


@pytest.fixture
def client(library: Library) -> Iterator[Client]:
    with serve_library(library, ServerOptions(auth=AuthPolicy(needs_token=True))) as asking:
        yield asking


@proves("identity.rules")
def test_first_matching_rule_gives_the_rights(library: Library, issuer: Issuer) -> None:
    one, two = (library.world(name).id for name in ("one", "two"))

    def rights(**claims: object):
        return library.authenticate(issuer.token(**claims))

    editor = rights(roles=["editor", "guest"], worlds=["two"])
    assert (editor.worlds, editor.verbs) == ({one}, {Verb.READ, Verb.WRITE})
    assert (editor.audience, editor.token) == (UNLIMITED, user_id(issuer.url, "ana"))
    reader = rights(roles="reader", email="ana@example.org")
    assert (reader.worlds, reader.readers) == ({one}, {"ana@example.org"})
    guest = rights(roles=["guest"], worlds=["two", "absent"], groups=["legal", "hr"], email="a@b.c")
    assert (guest.worlds, guest.verbs) == ({two}, {Verb.READ})
    assert guest.audience == {"group:legal", "group:hr", "user:a@b.c"}
    assert rights(roles=["guest"], worlds="one").audience == frozenset()
    assert rights(roles=["admin"]) == OWNER


@proves("identity.rules")
def test_claims_cannot_say_more_than_the_rules(client: Client, issuer: Issuer) -> None:
    nobody = [
        {},
        {"roles": "visitor"},
        {"roles": {"admin": True}},
        {"roles": ["Admin", "admin "]},
        {"roles": "guest", "worlds": []},
        {"roles": "guest", "worlds": ["absent"]},
        {"roles": "guest", "worlds": "*"},
        {"roles": "guest", "worlds": ["one\x00", "o" * 5000]},
        {"roles": "guest", "worlds": [f"w{number}" for number in range(60)] + ["one"]},
        {"roles": "reader"},
        {"roles": "reader", "email": ["ana", "bob"]},
        {"roles": "reader", "email": "a\nb"},
    ]
    for claims in nobody:
        reply = client.json("GET", "/v1/worlds", token=issuer.token(**claims))
        assert (reply.status, reply.code) == (403, "not_allowed"), claims
    star = client.json("GET", "/v1/worlds", token=issuer.token(roles="guest", worlds=["*", "one"]))
    assert [world["name"] for world in star.content["worlds"]] == ["one"]


@proves("identity.valid-token")
def test_own_tokens_remain_valid(client: Client, lib: LibraryFixture, issuer: Issuer) -> None:
    own = lib.library.tokens.create("app", worlds="two")[1].reveal()
    signed = issuer.token(roles="editor")

    def names(token: str) -> list[str]:
        return [
            world["name"]
            for world in client.json("GET", "/v1/worlds", token=token).content["worlds"]
        ]

    assert (names(own), names(signed)) == (["two"], ["one"])
    assert client.json("GET", "/v1/worlds").status == 401


@proves("identity.silent-refusal")
def test_every_refused_token_gets_the_same_reply(client: Client, issuer: Issuer) -> None:
    missing = client.json("GET", "/v1/worlds").shown
    tokens = [
        issuer.token(roles="admin", exp=1),
        issuer.token(roles="admin", aud="payroll"),
        issuer.token(roles="admin", iss="https://login.example.org"),
        issuer.token(roles="admin")[:-4],
        SigningKey("first").sign(issuer.claims(roles="admin")),
        "ts_0123456789abcdef_" + "x" * 43,
        "nothing",
    ]

    replies = [client.json("GET", "/v1/worlds", token=token).shown for token in tokens]

    assert replies == [missing] * len(tokens)


def test_users_own_their_conversations(client: Client, issuer: Issuer) -> None:
    ana, bob = (issuer.token(sub=name, roles="editor") for name in ("ana", "bob"))
    asked = {"query": "When did the lamp go out?"}

    assert client.json("POST", "/v1/worlds/one/conversations", asked, token=ana).status == 200
    assert client.json("GET", "/v1/worlds/one/conversations", token=ana).content["conversations"]
    others = client.json("GET", "/v1/worlds/one/conversations", token=bob)
    assert others.content["conversations"] == []


@proves("identity.valid-token")
def test_served_library_reads_issuer_and_rules(tmp_path: Path, issuer: Issuer) -> None:
    folder = tmp_path / "library"
    with open_library(folder, create=True) as library:
        library.create_world("one")
        library.create_world("two")
    (folder / "truespan.toml").write_text(
        f"""
        [auth]
        issuer = "{issuer.url}"
        audience = "{AUDIENCE}"
        jwks_url = "{issuer.keys_url}?policy=sign-in"

        [[auth.rules]]
        claim = "realm_access.roles"
        value = "staff"
        worlds = ["{{department}}"]
        labels = ["group:{{department}}"]
        """
    )
    with served(folder) as server:
        staff = issuer.token(realm_access={"roles": ["staff"]}, department="two")
        found = server.under(staff).get("v1/worlds").json()["worlds"]
        assert [world["name"] for world in found] == ["two"]
        assert server.under(issuer.token()).get("v1/worlds").status_code == 403
        assert issuer.to(f"{KEYS}?policy=sign-in")
        # On loopback, too: who is not signed in is not the owner.
        assert server.get("v1/worlds").status_code == 401
