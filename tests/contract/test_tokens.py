"""Access tokens: creation, storage and verification."""

import logging
import subprocess
import sys
import traceback
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.failures import raises_code
from tests.support.leftover_search import contents
from tests.support.sample_texts import story
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.library import Library
from truespan.errors import InvalidArgument, NotAllowed, StoreDamaged
from truespan.store.snapshot import FileSnapshots, prepare_snapshot
from truespan.types.ids import WorldId
from truespan.types.scope import OWNER, UNLIMITED, Authority, Verb
from truespan.types.token import TokenSecret, TokenState


@pytest.fixture
def lib(tmp_path: Path) -> LibraryFixture:
    made = make_library(tmp_path / "library")
    made.world("one", a__txt=story(10))
    made.world("two", b__txt=story(10))
    return made


def opened_by(lib: LibraryFixture, text: str) -> Library:
    return Library(lib.library._components, lib.library.authenticate(text))


def test_token_is_read_back_unchanged(lib: LibraryFixture) -> None:
    one = lib.library.world("one").id
    tokens = lib.library.tokens

    made = [
        tokens.create("reading", worlds=["one"])[0],
        tokens.create("all", worlds=UNLIMITED, verbs=list(Verb), expires_in=60)[0],
        tokens.create("ada's", worlds="one", readers=["ada", " bob "])[0],
    ]

    assert tokens.list() == made
    assert (made[0].worlds, made[0].verbs) == (frozenset({one}), {Verb.READ})
    assert (made[0].readers, made[0].expires_at) == (UNLIMITED, None)
    assert (made[1].worlds, made[1].expires_at) == (UNLIMITED, lib.clock.time + 60)
    assert (made[2].readers, made[2].verbs) == (frozenset({"ada", "bob"}), {Verb.FOLLOW})


def test_token_allows_exactly_its_rights(lib: LibraryFixture) -> None:
    _, secret = lib.library.tokens.create("reading", worlds=["one"])
    held = opened_by(lib, secret.reveal())

    assert held.world("one").search("the", floor=0.0).passages
    assert [world.name for world in held.worlds()] == ["one"]
    for attempt in (
        lambda: held.world("two"),
        lambda: held.world(lib.library.world("two").id),
        lambda: held.world("one").documents.delete("1"),
        lambda: held.delete_world("one"),
        lambda: held.create_world("three"),
    ):
        with raises_code("world_not_found"):
            attempt()


def test_token_of_readers_allows_only_their_positions(lib: LibraryFixture) -> None:
    world = lib.library.world("one")
    for name in ("ada", "bob"):
        world.reader(name).set_position("a.txt", sentence=3)
    _, secret = lib.library.tokens.create("ada's", worlds=["one"], readers=["ada"])
    held = opened_by(lib, secret.reveal()).world("one")

    assert held.reader("ada").retrieve("the").status == "success"
    for attempt in (lambda: held.search("the"), lambda: held.reader("bob").retrieve("the")):
        with pytest.raises(NotAllowed):
            attempt()
    with raises_code("not_allowed", "world_not_found"):
        held.reader("ada").set_position("a.txt", sentence=9)


@pytest.mark.parametrize(
    "authority",
    [
        Authority(UNLIMITED, frozenset({Verb.ADMINISTER})),
        Authority(UNLIMITED, frozenset()),
        OWNER.narrow(worlds=[WorldId("one")], verbs=Verb),
    ],
)
def test_tokens_are_managed_by_the_owner_alone(lib: LibraryFixture, authority: Authority) -> None:
    record, _ = lib.library.tokens.create("first", worlds=["one"])
    held = Library(lib.library._components, authority).tokens

    for attempt in (
        lambda: held.create("second", worlds=UNLIMITED),
        held.list,
        lambda: held.revoke(record.id),
        lambda: lib.store.tokens.create(authority, replace(record, id="x"), bytes(32)),
    ):
        with pytest.raises(NotAllowed):
            attempt()
    assert lib.library.tokens.list() == [record]


def test_narrower_library_limits_a_token(lib: LibraryFixture) -> None:
    _, secret = lib.library.tokens.create("all", worlds=UNLIMITED, verbs=list(Verb))
    one = WorldId(lib.library.world("one").id)
    narrow = OWNER.narrow(worlds=[one], verbs=[Verb.READ])

    assert lib.library.authenticate(secret.reveal()) == OWNER
    assert Library(lib.library._components, narrow).authenticate(secret.reveal()) == narrow


def wrong(lib: LibraryFixture) -> dict[str, Any]:
    """Return invalid tokens by fault."""
    tokens = lib.library.tokens
    _, good = tokens.create("good", worlds=["one"])
    _, other = tokens.create("other", worlds=["one"])
    revoked, revoked_secret = tokens.create("revoked", worlds=["one"])
    tokens.revoke(revoked.id)
    _, expired = tokens.create("expired", worlds=["one"], expires_in=5)
    lib.clock.time += 5
    text = good.reveal()
    return {
        "unknown": TokenSecret.of(bytes(8), bytes(32)).reveal(),
        "revoked": revoked_secret.reveal(),
        "expired": expired.reveal(),
        "of another": text[:20] + other.reveal()[20:],
        "changed": text[:-1] + ("A" if text[-1] != "A" else "B"),
        "cut": text[:-1],
        "longer": text + "A",
        "upper": text.upper(),
        "look-alike": text.replace("t", "\u0442", 1),
        "quoted": f"ts_' OR 1=1 --_{text[20:]}",
        "NUL": text + "\x00",
        "surrogate": text[:-1] + "\ud800",
        "very long": text * 50_000,
        "empty": "",
        "none": None,
        "bytes": text.encode(),
    }


def test_every_invalid_token_gets_the_same_answer(lib: LibraryFixture) -> None:
    answers = {}
    for kind, text in wrong(lib).items():
        with raises_code("unauthorized") as refused:
            lib.library.authenticate(text)
        error = refused.value
        answers[kind] = (type(error), str(error), error.args, error.__cause__, error.__context__)

    assert len(answers) == 16
    assert set(answers.values()) == {answers["unknown"]}


def test_token_is_valid_until_the_moment_it_expires(lib: LibraryFixture) -> None:
    _, secret = lib.library.tokens.create("short", worlds=["one"], expires_in=10)
    lib.clock.time += 9.99
    lib.library.authenticate(secret.reveal())
    lib.clock.time += 0.01

    with raises_code("unauthorized"):
        lib.library.authenticate(secret.reveal())
    assert lib.library.tokens.state(lib.library.tokens.list()[0]) is TokenState.EXPIRED


def test_digest_moved_to_another_row_grants_nothing(lib: LibraryFixture) -> None:
    tokens = lib.library.tokens
    small, secret = tokens.create("small", worlds=["one"])
    great, _ = tokens.create("great", worlds=UNLIMITED, verbs=list(Verb))
    lib.sql("UPDATE tokens SET digest = ? WHERE id = ?", secret.digest(), great.id)

    with raises_code("unauthorized"):
        lib.library.authenticate(secret.reveal().replace(small.id, great.id))


REVOKE = """
import sys
from pathlib import Path
from tests.support.worlds import make_library
lib = make_library(Path(sys.argv[1]))
lib.library.tokens.revoke(sys.argv[2])
lib.library.close()
"""


def test_revocation_applies_at_once_in_another_process(lib: LibraryFixture) -> None:
    record, secret = lib.library.tokens.create("app", worlds=["one"])
    lib.library.authenticate(secret.reveal())

    subprocess.run(
        [sys.executable, "-c", REVOKE, str(lib.folder), record.id], check=True, timeout=60
    )

    with raises_code("unauthorized"):
        lib.library.authenticate(secret.reveal())
    assert lib.library.tokens.state(lib.library.tokens.list()[0]) is TokenState.REVOKED


def test_revoking_again_keeps_time_and_hides_unknown_id(lib: LibraryFixture) -> None:
    record, secret = lib.library.tokens.create("app", worlds=["one"])
    first = lib.library.tokens.revoke(record.id)
    lib.clock.time += 60

    assert lib.library.tokens.revoke(record.id) == first
    for reference in ("0" * 16, secret.reveal(), "", "\ud800", "a\x00", "' --", None):
        with raises_code("token_not_found") as unknown:
            lib.library.tokens.revoke(reference)  # type: ignore[arg-type]
        assert not reference or reference not in str(unknown.value)


def test_deleting_a_world_removes_all_rights_to_it(lib: LibraryFixture) -> None:
    tokens = lib.library.tokens
    _, only = tokens.create("only", worlds=["one"])
    _, both = tokens.create("both", worlds=["one", "two"])
    two = lib.library.world("two").id

    lib.library.delete_world("one")
    lib.world("one", a__txt=story(10))

    assert [record.worlds for record in tokens.list()] == [frozenset(), frozenset({two})]
    assert opened_by(lib, only.reveal()).worlds() == []
    assert [world.name for world in opened_by(lib, both.reveal()).worlds()] == ["two"]
    with raises_code("world_not_found"):
        opened_by(lib, only.reveal()).world("one")


def test_token_for_a_deleted_world_is_not_stored(lib: LibraryFixture) -> None:
    record, _ = lib.library.tokens.create("app", worlds=["one"])
    gone = replace(record, id="f" * 16, worlds=frozenset({lib.library.world("two").id}))
    lib.library.delete_world("two")

    with raises_code("world_not_found"):
        lib.store.tokens.create(OWNER, gone, bytes(32))
    assert lib.library.tokens.list() == [record]


@pytest.mark.parametrize(
    "change",
    [
        {"name": " "},
        {"name": "a" * 201},
        {"name": "a\x1b[2J"},
        {"name": "a\nb"},
        {"name": "\ud800"},
        {"name": None},
        {"worlds": []},
        {"worlds": [None]},
        {"verbs": []},
        {"verbs": ["READ"]},
        {"verbs": "read,write"},
        {"readers": []},
        {"readers": ["ada", ""]},
        {"readers": ["ada"], "verbs": ["read"]},
        {"readers": ["ada"], "verbs": ["follow", "write"]},
        {"expires_in": 0},
        {"expires_in": -1},
        {"expires_in": True},
        {"expires_in": float("nan")},
        {"expires_in": float("inf")},
        {"expires_in": "30d"},
    ],
    ids=repr,
)
def test_invalid_token_is_refused_and_not_stored(
    lib: LibraryFixture, change: dict[str, Any]
) -> None:
    arguments = {"name": "app", "worlds": ["one"], **change}

    with pytest.raises(InvalidArgument):
        lib.library.tokens.create(arguments.pop("name"), **arguments)
    assert lib.library.tokens.list() == []


def test_missing_world_creates_no_token(lib: LibraryFixture) -> None:
    with raises_code("world_not_found"):
        lib.library.tokens.create("app", worlds=["one", "three"])
    assert lib.library.tokens.list() == []


def test_secret_is_in_no_file_record_log_or_error(
    lib: LibraryFixture, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    record, secret = lib.library.tokens.create("app", worlds=["one"])
    lib.library.authenticate(secret.reveal())
    hidden = secret.reveal()[20:]
    shown = [repr(record), repr(secret), repr(lib.library.tokens.list())]
    attempts: list[Callable[[], Any]] = [
        lambda: lib.library.tokens.revoke(secret.reveal()),
        lambda: lib.library.authenticate(secret.reveal() + " "),
        lambda: lib.library.authenticate(secret.reveal()[:-2]),
    ]
    for attempt in attempts:
        with raises_code("token_not_found", "unauthorized") as refused:
            attempt()
        shown.append("".join(traceback.format_exception(refused.value)))

    files = contents(lib.folder)
    assert sum(record.id.encode() in content for content in files.values()) > 0
    assert sum(secret.digest() in content for content in files.values()) > 0
    for path, content in files.items():
        assert hidden.encode() not in content, path
    for text in [*shown, caplog.text]:
        assert hidden not in text


def test_secret_is_stored_as_its_sha_256(lib: LibraryFixture) -> None:
    _, secret = lib.library.tokens.create("app", worlds=["one"])

    assert lib.sql("SELECT digest FROM tokens") == [(sha256(secret.reveal().encode()).digest(),)]


@pytest.mark.parametrize("column", ["verbs", "readers"])
@pytest.mark.parametrize("value", ["", "[1]", '"read"', "[", "{}"])
def test_damaged_token_grants_nothing(lib: LibraryFixture, column: str, value: str):
    _, secret = lib.library.tokens.create("app", worlds=["one"], readers=["ada"])
    lib.sql(f"UPDATE tokens SET {column} = ?", value)

    with pytest.raises(StoreDamaged):
        lib.library.authenticate(secret.reveal())


def test_widened_token_row_grants_only_its_readers(lib: LibraryFixture) -> None:
    _, secret = lib.library.tokens.create("app", worlds=["one"], readers=["ada"])
    lib.sql("""UPDATE tokens SET verbs = '["administer","follow","read","write"]'""")

    assert lib.library.authenticate(secret.reveal()).verbs == {Verb.FOLLOW}


def test_a_restored_library_has_no_tokens(lib: LibraryFixture, tmp_path: Path) -> None:
    lib.library.tokens.create("app", worlds=["one"])
    copy = tmp_path / "store.db"
    FileSnapshots(lib.folder / "store.db").take(copy, vectors=True)

    prepare_snapshot(copy)

    restored = make_library(tmp_path)
    assert restored.library.tokens.list() == []
    assert restored.sql("SELECT count(*) FROM token_worlds") == [(0,)]
    assert len(lib.library.tokens.list()) == 1
