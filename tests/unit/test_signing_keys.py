"""Signing keys: a file of their owner alone, rotation, and secrets that are never shown."""

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis.strategies import (
    booleans,
    characters,
    dictionaries,
    integers,
    lists,
    none,
    recursive,
    text,
)

from tests.promises import proves
from truespan.errors import InvalidConfiguration
from truespan.extensions.proof.keys import SigningKeyFile
from truespan.extensions.proof.statement import KeyRing, SigningKey
from truespan.extensions.proof.verify import canonical
from truespan.types.token import Secret

SEED = Secret(base64.b64encode(bytes(range(32))).decode())
EARLY, LATE = "2026-01-01T00:00:00.000Z", "2026-02-01T00:00:00.000Z"


@proves("proof.keys")
def test_key_file_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "signing.key"
    keys = SigningKeyFile(path)
    assert keys.signing_key() is None
    keys.rotate(EARLY)
    assert path.stat().st_mode & 0o777 == 0o600
    assert keys.signing_key() is not None
    path.chmod(0o640)
    with pytest.raises(InvalidConfiguration, match="Others may read"):
        SigningKeyFile(path).signing_key()


@proves("proof.keys")
def test_rotation_keeps_public_keys_and_drops_the_private_one(tmp_path: Path) -> None:
    path = tmp_path / "signing.key"
    keys = SigningKeyFile(path)
    keys.rotate(EARLY)
    seed = json.loads(path.read_bytes())["seed"]

    keys.rotate(LATE)

    old, new = SigningKeyFile(path).public_keys()
    assert (old.created_at, old.retired_at) == (EARLY, LATE)
    assert (new.created_at, new.retired_at) == (LATE, None)
    assert seed not in path.read_text()
    signing = keys.signing_key()
    assert signing is not None
    assert signing.public == new


@proves("proof.keys")
def test_configured_key_signs_and_is_never_shown(tmp_path: Path) -> None:
    keys = SigningKeyFile(tmp_path / "signing.key", SEED)
    key = keys.signing_key()
    assert key is not None
    assert keys.public_keys() == (key.public,)
    shown = repr(key) + repr(vars(key)) + repr(KeyRing((), SEED.reveal())) + str(keys)
    assert SEED.reveal() not in shown
    with pytest.raises(InvalidConfiguration, match="RECEIPT_SIGNING_KEY"):
        keys.rotate(LATE)


def test_key_of_the_wrong_length_is_refused() -> None:
    for seed in ("", "AAAA", "no base64!", base64.b64encode(bytes(33)).decode()):
        with pytest.raises(InvalidConfiguration, match="32 bytes"):
            SigningKey.from_seed(Secret(seed))


def test_damaged_key_file_is_an_error_without_its_content(tmp_path: Path) -> None:
    path = tmp_path / "signing.key"
    SigningKeyFile(path).rotate(EARLY)
    ring = json.loads(path.read_bytes())
    for damaged in (b"{", json.dumps(ring | {"public": []}).encode(), b"[]"):
        path.write_bytes(damaged)
        with pytest.raises(InvalidConfiguration) as error:
            SigningKeyFile(path).signing_key()
        assert ring["seed"] not in str(error.value)


def test_signatures_and_canonical_json_follow_their_standards() -> None:
    # The first test vector: an empty message. The public key follows from the seed.
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    key = SigningKey.from_seed(Secret(base64.b64encode(seed).decode()))
    raw = base64.b64decode(key.public.public_key)
    assert raw.hex() == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    value = {"b": [True, None, -5], "a": "\u20ac$\u000f\nA'B\"\\\u007f/", "A": {}}
    expected = '{"A":{},"a":"\u20ac$\\u000f\\nA\'B\\"\\\\\u007f/","b":[true,null,-5]}'
    assert canonical(value) == expected.encode()


@given(
    recursive(
        none() | booleans() | integers(-(2**53) + 1, 2**53 - 1) | text(),
        lambda parts: lists(parts) | dictionaries(text(characters(max_codepoint=127)), parts),
        max_leaves=20,
    )
)
def test_signed_bytes_are_canonical_json(value: object) -> None:
    statement = {"value": value, "all": "".join(map(chr, range(0x180))) + "\u2028\ufeff\U0001f600"}
    envelope = SigningKey.from_seed(SEED).sign(statement)
    assert base64.b64decode(envelope.payload) == canonical(statement)
