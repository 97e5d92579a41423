"""Tokens as values: permissions only narrow, and secrets are not shown."""

import copy
import pickle
import string
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from truespan.types.ids import WorldId
from truespan.types.scope import OWNER, UNLIMITED, WORLD_VERBS, Authority, Unlimited, Verb
from truespan.types.token import TokenRecord, TokenSecret, TokenState

WORLDS = [WorldId(name) for name in "abc"]
READERS = ["ada", "bob", "cleo"]

some_worlds = st.frozensets(st.sampled_from(WORLDS)) | st.just(UNLIMITED)
some_verbs = st.frozensets(st.sampled_from(Verb))
some_readers = st.frozensets(st.sampled_from(READERS)) | st.just(UNLIMITED)
records = st.builds(
    TokenRecord, st.just("id"), st.just("name"), some_worlds, some_verbs, some_readers
)


def rights(authority: Authority) -> set[tuple[str, ...]]:
    """Return every single thing that an authority allows, over worlds and readers that stand for
    all: one of each is in no token."""
    worlds, readers = [*WORLDS, WorldId("other")], [*READERS, "other"]
    allowed = {(verb, world) for verb in Verb for world in worlds if authority.may(verb, world)}
    seen = {("sees", world) for world in worlds if authority.sees(world)}
    followed = {
        ("as", reader, world)
        for reader in readers
        for world in worlds
        if authority.may_follow(reader, world)
    }
    return allowed | seen | followed


def step(authority: Authority, move: Any) -> Authority:
    if isinstance(move, TokenRecord):
        return move.authority(authority)
    worlds, verbs = move
    return authority.narrow(worlds=worlds, verbs=verbs)


narrowings = st.lists(
    records | st.tuples(st.frozensets(st.sampled_from(WORLDS)), some_verbs), max_size=5
)


@given(records, narrowings)
def test_sequence_of_narrowings_never_widens(first: TokenRecord, moves: list[Any]) -> None:
    authority = first.authority()
    for move in moves:
        narrower = step(authority, move)
        assert rights(narrower) <= rights(authority)
        if isinstance(move, TokenRecord):
            assert rights(narrower) <= rights(move.authority())
        authority = narrower


@given(records)
def test_token_bound_to_readers_can_only_follow_them(record: TokenRecord) -> None:
    authority = record.authority()
    # A token for everything may observe, even if it was made before there was that verb.
    added = {Verb.OBSERVE} if authority == OWNER else set[Verb]()
    assert authority.verbs <= record.verbs | added
    if not isinstance(record.readers, Unlimited):
        assert authority.verbs <= {Verb.FOLLOW}
        assert {right[1] for right in rights(authority) if right[0] == "as"} <= record.readers


@given(records, records)
def test_intersection_of_tokens_does_not_depend_on_their_order(
    one: TokenRecord, other: TokenRecord
) -> None:
    assert one.authority(other.authority()) == other.authority(one.authority())
    assert one.authority(one.authority()) == one.authority()


@given(some_verbs)
def test_empty_list_grants_nothing(verbs: frozenset[Verb]) -> None:
    nowhere = TokenRecord("id", "name", frozenset(), verbs)
    nobody = TokenRecord("id", "name", UNLIMITED, verbs, frozenset())
    assert rights(nowhere.authority()) == set()
    assert not any(right[0] == "as" for right in rights(nobody.authority()))
    assert rights(TokenRecord("id", "name", UNLIMITED, frozenset()).authority()) == set()


def test_only_a_token_for_everything_is_the_owner() -> None:
    assert TokenRecord("id", "name", UNLIMITED, frozenset(Verb)).authority() == OWNER
    assert TokenRecord("id", "name", UNLIMITED, frozenset({Verb.ADMINISTER})).authority() != OWNER
    # Tokens for everything that were made before there was `observe`.
    assert TokenRecord("id", "name", UNLIMITED, WORLD_VERBS).authority() == OWNER


def test_metrics_are_for_owners_and_observers_only() -> None:
    observer = TokenRecord("id", "name", frozenset(), frozenset({Verb.OBSERVE})).authority()
    assert OWNER.may_observe()
    assert observer.may_observe()
    assert not observer.sees(WorldId("w"))
    assert not Authority(UNLIMITED, frozenset({Verb.OBSERVE})).sees(WorldId("w"))
    assert not OWNER.narrow(worlds=[WorldId("w")], verbs=Verb).may_observe()
    assert not OWNER.narrow(worlds=[], verbs=Verb).may_observe()
    assert not Authority(UNLIMITED, WORLD_VERBS).may_observe()


def test_token_states_follow_expiry_and_revocation() -> None:
    record = TokenRecord("id", "name", UNLIMITED, frozenset(Verb), expires_at=100.0)
    assert record.state(99.999) is TokenState.ACTIVE
    assert record.state(100.0) is TokenState.EXPIRED
    assert record.state(101.0) is TokenState.EXPIRED
    record = TokenRecord("id", "name", UNLIMITED, frozenset(Verb), revoked_at=100.0)
    assert {record.state(now) for now in (0.0, 100.0, 200.0)} == {TokenState.REVOKED}


@given(st.binary(min_size=8, max_size=8), st.binary(min_size=32, max_size=32))
def test_secret_is_formatted_parsed_and_validated_alone(one: bytes, two: bytes) -> None:
    secret = TokenSecret.of(one, two)
    parsed = TokenSecret.parse(secret.reveal())
    assert parsed is not None
    assert parsed.id == secret.id == one.hex()
    assert parsed.proves(secret.digest())
    assert not parsed.proves(None)


SECRET = TokenSecret.of(bytes(range(8)), bytes(range(32)))


@given(
    st.integers(0, len(SECRET.reveal()) - 1),
    st.sampled_from(string.ascii_letters + string.digits + "-_ \n\x00é\u0430"),
)
def test_any_changed_character_is_refused(place: int, character: str) -> None:
    text = SECRET.reveal()
    mutated = text[:place] + character + text[place + 1 :]
    parsed = TokenSecret.parse(mutated)
    assert mutated == text or parsed is None or not parsed.proves(SECRET.digest())


@pytest.mark.parametrize("text", [
    "", "ts_", SECRET.reveal()[:-1], SECRET.reveal() + "A", SECRET.reveal() + "=",
    SECRET.reveal() + "\n", " " + SECRET.reveal(), SECRET.reveal() + "\x00",
    SECRET.reveal().upper(), SECRET.reveal().replace("ts_", "TS_"), "Bearer " + SECRET.reveal(),
    SECRET.reveal().replace("0", "\uff10"), SECRET.reveal().replace("0", "\u0660"),
    "ts_\ud800" + SECRET.reveal()[4:], SECRET.reveal() * 100_000, SECRET.reveal().encode(), None, 7,
], ids=lambda text: repr(text)[:60])  # fmt: skip
def test_malformed_token_is_refused(text: object) -> None:
    assert TokenSecret.parse(text) is None


def test_secret_is_shown_only_on_request() -> None:
    hidden = SECRET.reveal().rpartition("_")[2]
    for shown in (repr(SECRET), str(SECRET), f"{SECRET}", repr([SECRET]), f"{SECRET!r:>80}"):
        assert hidden not in shown
    with pytest.raises(TypeError):
        pickle.dumps(SECRET)
    with pytest.raises(TypeError):
        copy.copy(SECRET)
    with pytest.raises(TypeError):
        msgspec.json.encode(SECRET)
