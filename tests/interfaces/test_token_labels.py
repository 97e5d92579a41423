"""Labels of tokens and of requests, checked before any document is read."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.interfaces.http_client import Client
from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.rows import each_row
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.library import Library
from truespan.errors import InvalidArgument, NotAllowed, StoreDamaged
from truespan.extensions.server.http.auth import Authenticator, AuthPolicy, Credentials
from truespan.types.scope import OWNER, UNLIMITED, Unlimited, Verb
from truespan.types.token import Principal

HEADER = "x-truespan-audience"


@pytest.fixture
def lib(tmp_path: Path) -> Iterator[LibraryFixture]:
    made = make_library(tmp_path / "library")
    made.world("w", a__txt="The lamp went out at midnight.")
    yield made
    made.library.close()


def secret_of(
    lib: LibraryFixture,
    audience: list[str] | Unlimited = UNLIMITED,
    *,
    impersonate: bool = False,
    verbs: tuple[str, ...] = ("read", "follow"),
) -> str:
    tokens = lib.library.tokens
    made = tokens.create("app", worlds="w", verbs=verbs, audience=audience, impersonate=impersonate)
    return made[1].reveal()


@proves("identity.token-labels")
def test_token_keeps_its_labels(lib: LibraryFixture) -> None:
    tokens = lib.library.tokens
    made = [
        tokens.create("all", worlds="w")[0],
        tokens.create("legal", worlds="w", audience="group:legal")[0],
        tokens.create("both", worlds="w", audience=["group:legal", "user:ana@example.org"])[0],
        tokens.create("none", worlds="w", audience=[])[0],
        tokens.create("web", worlds="w", impersonate=True)[0],
        tokens.create("ada", worlds="w", readers="ada", audience="group:legal")[0],
    ]

    assert tokens.list() == made
    assert [record.audience for record in made] == [
        UNLIMITED,
        {"group:legal"},
        {"group:legal", "user:ana@example.org"},
        frozenset(),
        frozenset(),
        {"group:legal"},
    ]
    assert [record.impersonate for record in made] == [False, False, False, False, True, False]
    assert all(record.authority().audience == record.audience for record in made)


@proves("identity.token-labels")
def test_token_with_labels_can_only_read_and_follow(lib: LibraryFixture) -> None:
    tokens = lib.library.tokens
    for verbs in (["write"], ["read", "write"], list(Verb), ["administer"]):
        for more in ({"audience": ["group:legal"]}, {"audience": []}, {"impersonate": True}):
            with pytest.raises(InvalidArgument, match="can only read and follow"):
                tokens.create("t", worlds=UNLIMITED, verbs=verbs, **more)  # type: ignore[arg-type]
    for wrong in ("", " a", "x" * 201, "a\nb", ["a", 7]):
        with pytest.raises(InvalidArgument):
            tokens.create("t", worlds="w", audience=wrong)  # type: ignore[arg-type]
    assert tokens.list() == []


@proves("identity.token-labels")
def test_damaged_labels_grant_nothing(lib: LibraryFixture) -> None:
    secret = secret_of(lib, ["group:legal"])
    database = lib.library._components.store._db  # type: ignore[attr-defined]
    for damage in ("group:legal", '{"a": 1}', "[1]", ""):
        database.shared.execute("UPDATE tokens SET audience = :damage", damage=damage)
        with pytest.raises(StoreDamaged):
            lib.library.authenticate(secret)
    database.shared.execute("UPDATE tokens SET audience = '[]', verbs = '[\"read\", \"write\"]'")
    assert lib.library.authenticate(secret).verbs == {Verb.READ}


LEGAL = frozenset({"group:legal"})
BOTH = frozenset({"group:legal", "group:hr"})


@proves("identity.narrowed-request")
@each_row(
    "own, impersonate, named, expected",
    [
        (UNLIMITED, False, None, UNLIMITED),
        (UNLIMITED, False, LEGAL, LEGAL),
        (UNLIMITED, False, frozenset(), frozenset()),
        (BOTH, False, None, BOTH),
        (BOTH, False, LEGAL, LEGAL),
        (BOTH, False, frozenset({"group:hr", "group:board"}), frozenset({"group:hr"})),
        (BOTH, False, frozenset(), frozenset()),
        (LEGAL, False, frozenset({"group:hr"}), frozenset()),
        (LEGAL, True, None, LEGAL),
        (LEGAL, True, frozenset({"group:hr"}), frozenset({"group:hr"})),
        (frozenset(), True, BOTH, BOTH),
        (frozenset(), True, frozenset(), frozenset()),
    ],
)
def test_request_narrows_the_labels_of_a_caller(
    own: frozenset[str] | Unlimited,
    impersonate: bool,
    named: frozenset[str] | None,
    expected: frozenset[str] | Unlimited,
) -> None:
    authority = OWNER if isinstance(own, Unlimited) else OWNER.for_audience(own)
    caller = Principal("t", authority, impersonates=impersonate)

    found = caller if named is None else caller.for_audience(named)

    assert found.authority.audience == expected
    if named is not None:
        assert found.authority.verbs <= {Verb.READ, Verb.FOLLOW}
        # A narrowed caller cannot impersonate any more.
        assert found.for_audience(frozenset({"x"})).authority.audience == frozenset()


def identify(library: Library, *audiences: str, token: str | None = None) -> Principal:
    """Return the caller of a request with these headers."""
    authenticator = Authenticator(library, AuthPolicy(), lambda: 0.0)
    authorizations = [] if token is None else [f"Bearer {token}".encode()]
    return authenticator.identify(Credentials(authorizations, [a.encode() for a in audiences]))


@proves("identity.narrowed-request")
def test_header_names_percent_encoded_labels(lib: LibraryFixture) -> None:
    labels = ["group:legal", "user:zoë, the one", "100%"]
    spelled = " , ".join(quote(label, safe=":") for label in labels)

    assert identify(lib.library, spelled).authority.audience == frozenset(labels)
    assert identify(lib.library, "").authority.audience == frozenset()
    assert identify(lib.library).authority == OWNER
    for wrong in ("%ff", "a\x00", "ä", "%20", "x" * 201, "%0A", ",".join(["a"] * 1001)):
        with pytest.raises(InvalidArgument):
            identify(lib.library, wrong)
    # The client of an application must not add labels to those that the application names.
    with pytest.raises(InvalidArgument, match="more than once"):
        identify(lib.library, "group:hr", "group:legal")
    with raises_code("unauthorized"):
        identify(lib.library, "group:hr", "group:legal", token="wrong")


@proves("identity.narrowed-request")
def test_impersonating_token_stays_within_the_library(lib: LibraryFixture) -> None:
    secret = secret_of(lib, impersonate=True)
    narrowed = lib.library.under(OWNER.for_audience(["group:hr"]))

    assert identify(lib.library, "group:legal", token=secret).authority.audience == LEGAL
    assert (
        identify(narrowed, "group:legal,group:hr", token=secret).authority.audience == frozenset()
    )
    assert lib.library.authenticate(secret, audience=["group:legal"]).audience == LEGAL
    assert lib.library.authenticate(secret).audience == frozenset()


@proves("identity.narrowed-request")
def test_narrowed_owner_is_not_an_owner(lib: LibraryFixture, client: Client) -> None:
    headers = [(HEADER, "group:legal")]
    created = client.json("POST", "/v1/worlds", {"name": "x"}, headers=headers)
    deleted = client.json("DELETE", "/v1/worlds/w", headers=headers)
    uploaded = client.json("POST", "/v1/worlds/w/sources", {"texts": ["a"]}, headers=headers)

    assert {created.status, deleted.status, uploaded.status} <= {403, 404}
    assert client.json("GET", "/v1/worlds", headers=headers).status == 200
    assert [world.name for world in lib.library.worlds()] == ["w"]
    with pytest.raises(NotAllowed):
        lib.library.under(identify(lib.library, "a").authority).tokens.list()


@proves("identity.narrowed-request")
def test_labels_do_not_share_conversations(lib: LibraryFixture, client: Client) -> None:
    path, secret = "/v1/worlds/w/conversations", secret_of(lib, impersonate=True)

    def listed(labels: str | None, token: str | None) -> int:
        headers = [] if labels is None else [(HEADER, labels)]
        return len(client.json("GET", path, token=token, headers=headers).content["conversations"])

    for token in (secret, None):
        for labels in ("user:ana", "user:ana,group:legal"):
            query = {"query": "When did the lamp go out?"}
            begun = client.json("POST", path, query, token=token, headers=[(HEADER, labels)])
            assert begun.status == 200
    assert [listed(labels, secret) for labels in ("user:ana", "group:legal,user:ana")] == [1, 1]
    assert [listed(labels, secret) for labels in ("user:bob", "", None)] == [0, 0, 0]
    assert [listed(labels, None) for labels in ("user:ana", "user:bob", "")] == [1, 0, 0]


@proves("identity.narrowed-request")
def test_labels_do_not_share_stored_replies(lib: LibraryFixture) -> None:
    secret = secret_of(lib, impersonate=True)
    callers = [
        identify(lib.library, labels, token=secret) for labels in ("user:ana", "user:bob", "")
    ]

    assert len({caller.identity for caller in [*callers, identify(lib.library)]}) == 4
    assert callers[0].identity == identify(lib.library, " user:ana ", token=secret).identity
    assert {caller.token for caller in callers} == {callers[0].token}
