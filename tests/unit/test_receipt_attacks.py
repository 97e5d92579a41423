"""Attacks on receipts: both verifiers refuse every changed receipt."""

import base64
import importlib.util
import json
import string
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest

from tests.promises import proves
from tests.support.receipts import as_json, keys_of, signing_world
from truespan.extensions.proof import verify as own_verifier
from truespan.extensions.proof.statement import SigningKey
from truespan.types.token import Secret

EXAMPLE = Path(__file__).parents[2] / "examples" / "truespan_verify.py"
LOOKALIKES = str.maketrans({"a": "\u0430", "e": "\u0435", "o": "\u043e", "k": "\u212a"})
NUMBERS = ("NaN", "Infinity", "1e400", "1.0", "9" * 40, "-0", "1E2", "0x1")
ATTACKS = 2000


class Signed:
    """A receipt with everything that an attacker can use."""

    def __init__(self, folder: Path) -> None:
        lib, world = signing_world(folder / "one")
        other, elsewhere = signing_world(folder / "two")
        self.keys, self.other_keys = keys_of(lib), keys_of(other)
        query = "Where did the brass key hang?"
        self.receipt = json.loads(as_json(world.sign(world.search(query))))
        found = elsewhere.sign(elsewhere.search(query))
        self.foreign = json.loads(as_json(found))
        self.statement = json.loads(base64.b64decode(self.receipt["envelope"]["payload"]))

    def with_payload(self, payload: str) -> dict[str, Any]:
        changed = deepcopy(self.receipt)
        changed["envelope"]["payload"] = base64.b64encode(
            payload.encode(errors="surrogatepass")
        ).decode()
        return changed


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    return Signed(tmp_path_factory.mktemp("receipts"))


@pytest.fixture(scope="module")
def verifiers() -> list[ModuleType]:
    spec = importlib.util.spec_from_file_location("truespan_verify", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return [own_verifier, program]


def failure(verifier: Any, receipt: str | bytes, keys: Any) -> str | None:
    """Return why a receipt is refused; None if it is accepted."""
    try:
        verifier.verify(receipt, keys)
    except verifier.ReceiptError as error:
        return error.failure
    return None


def leaves_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value in JSON."""
    yield path
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in pairs:
            yield from leaves_of(inner, (*path, key))


def changed_at(value: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    if not path:
        return change(value)
    copy = value.copy()
    copy[path[0]] = changed_at(value[path[0]], path[1:], change)
    return copy


def other_value(rng: Random, value: Any) -> Any:
    """Return another value in place of one of a receipt."""
    if isinstance(value, bool) or value is None:
        return rng.choice([0, "", not value, []])
    if isinstance(value, int):
        return rng.choice([value + 1, value - 1, -value - 1, str(value), 2**60, None])
    if isinstance(value, str):
        look = value.translate(LOOKALIKES)
        place = rng.randrange(len(value) + 1)
        choices = [value + " ", value[:-1], value[:place] + "x" + value[place:], value.swapcase()]
        choices = [*choices, look, value.replace("-", "\u2010"), "", None, 0, value + "\u200b"]
        return rng.choice([choice for choice in choices if choice != value])
    if isinstance(value, list) and value:
        turned = [*value[1:], *value[:1]]
        return rng.choice([value[:-1], [*value, value[-1]], [], turned if turned != value else {}])
    if isinstance(value, dict) and value:
        less = dict(list(value.items())[1:])
        return rng.choice([less, value | {"extra": 1}, {}, None])
    return rng.choice([None, 1, "x", {"a": []}])


def text_attack(rng: Random, text: str) -> str:
    """Return a changed spelling of JSON: truncated, with equal keys, other numbers or no text."""
    kind = rng.randrange(5)
    if kind == 0:
        return text[: rng.randrange(len(text))]
    if kind == 1:
        return text.replace("{", '{"predicate": {}, "predicate": {}, ', 1)
    if kind == 2:
        digits = [place for place, char in enumerate(text) if char.isdigit()]
        place = rng.choice(digits)
        return text[:place] + rng.choice(NUMBERS) + text[place + 1 :]
    if kind == 3:
        return text + rng.choice(["{}", "x", "\x00", ","])
    place = rng.randrange(len(text))
    return text[:place] + rng.choice(["\ud800", "\x00", "\\", '"']) + text[place:]


def attacks(signed: Signed, rng: Random) -> Iterator[tuple[str, bytes]]:
    statement, receipt = signed.statement, signed.receipt
    inner, outer = [*leaves_of(statement)], [*leaves_of(receipt)][1:]
    for number in range(ATTACKS):
        kind = number % 8
        if kind < 3:
            path = inner[number % len(inner)]
            changed = changed_at(statement, path, lambda value: other_value(rng, value))
            payload = json.dumps(changed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            made: Any = signed.with_payload(payload)
            name = f"statement {path}"
        elif kind < 5:
            path = outer[number % len(outer)]
            made = changed_at(receipt, path, lambda value: other_value(rng, value))
            name = f"receipt {path}"
        elif kind == 5:
            payload = json.dumps(statement, ensure_ascii=False)
            made, name = signed.with_payload(text_attack(rng, payload)), "spelling of the statement"
        elif kind == 6:
            text = text_attack(rng, json.dumps(receipt))
            yield "spelling of the receipt", text.encode(errors="surrogatepass")
            continue
        else:
            swapped = rng.choice(["envelope", "texts", "payload", "signatures", "sig", "keyid"])
            made, name = mix(signed, swapped), f"another library's {swapped}"
        yield name, json.dumps(made).encode()


def mix(signed: Signed, part: str) -> dict[str, Any]:
    """Return the receipt with a part of that of another library."""
    made, foreign = deepcopy(signed.receipt), signed.foreign
    if part == "texts":
        made["texts"] = [text + "!" for text in foreign["texts"]]
    elif part == "envelope":
        made["envelope"] = foreign["envelope"]
    elif part in ("payload", "signatures"):
        made["envelope"][part] = foreign["envelope"][part]
    else:
        made["envelope"]["signatures"][0][part] = foreign["envelope"]["signatures"][0][part]
    return made


@proves("proof.verified")
def test_no_changed_receipt_of_two_thousand_is_accepted(
    signed: Signed, verifiers: list[ModuleType]
) -> None:
    plain, accepted, count = json.dumps(signed.receipt).encode(), [], 0
    assert [failure(verifier, plain, signed.keys) for verifier in verifiers] == [None, None]
    for name, attack in attacks(signed, Random(35)):
        found = [failure(verifier, attack, signed.keys) for verifier in verifiers]
        assert found[0] == found[1], name
        count += 1
        if found[0] is None:
            accepted.append((name, attack))
    assert count == ATTACKS
    assert accepted == []


def resigned(signed: Signed, statement: Any, seed: bytes) -> tuple[bytes, dict[str, Any]]:
    """Return a statement under an attacker's own key, and a file with that key."""
    key = SigningKey.from_seed(Secret(base64.b64encode(seed).decode()))
    envelope = key.sign(statement)
    made = deepcopy(signed.receipt)
    made["envelope"]["payload"] = envelope.payload
    made["envelope"]["signatures"] = [
        {"keyid": envelope.signatures[0].keyid, "sig": envelope.signatures[0].sig}
    ]
    public = {"key_id": key.public.key_id, "public_key": key.public.public_key}
    return json.dumps(made).encode(), {"library": signed.keys["library"], "keys": [public]}


@proves("proof.verified")
def test_each_failure_has_its_own_name(signed: Signed, verifiers: list[ModuleType]) -> None:
    statement, library = signed.statement, signed.keys["library"]
    plain = json.dumps(signed.receipt).encode()
    wrong_type = statement | {"predicateType": "urn:another"}
    own = {"keys": signed.keys["keys"]}
    old = [key | {"retired_at": "1960-01-01T00:00:00.000Z"} for key in own["keys"]]
    fewer = signed.receipt | {"texts": signed.receipt["texts"][:-1]}
    other = signed.receipt | {"texts": [text + " " for text in signed.receipt["texts"]]}
    cases: dict[str, tuple[bytes, Any]] = {
        "not_a_receipt": (b"{}", signed.keys),
        "unknown_key": (plain, signed.other_keys),
        "wrong_signature": (json.dumps(mix(signed, "sig")).encode(), signed.keys),
        "unknown_statement": resigned(signed, wrong_type, bytes(32)),
        "key_not_in_force": (plain, {"library": library, "keys": old}),
        "other_library": (plain, own | {"library": signed.other_keys["library"]}),
        "text_missing": (json.dumps(fewer).encode(), signed.keys),
        "text_differs": (json.dumps(other).encode(), signed.keys),
    }

    for verifier in verifiers:
        found = {name: failure(verifier, *case) for name, case in cases.items()}
        assert found == {name: name for name in cases}
        codes = list(verifier.EXIT_CODES.values())
        assert len(set(codes)) == len(codes)


@proves("proof.verified")
def test_signed_number_that_is_too_large_is_refused(signed: Signed, verifiers: list[ModuleType]):
    path = ("predicate", "passages", 0, "page")
    made = changed_at(signed.statement, path, lambda _: 2**60)
    for verifier in verifiers:
        assert failure(verifier, *resigned(signed, made, bytes(32))) == "not_a_receipt"


@proves("proof.verified")
def test_other_key_under_a_known_id_is_refused(signed: Signed, verifiers: list[ModuleType]) -> None:
    receipt, keys = resigned(signed, signed.statement, bytes(32))
    made = json.loads(receipt)
    known = signed.keys["keys"][0]["key_id"]
    made["envelope"]["signatures"][0]["keyid"] = known
    keys["keys"][0]["key_id"] = known
    found = [failure(verifier, json.dumps(made), keys) for verifier in verifiers]
    assert found == ["unknown_key", "unknown_key"]


@proves("proof.verified")
def test_equal_keys_and_half_characters_are_refused(signed: Signed, verifiers: list[ModuleType]):
    text = json.dumps(signed.receipt)
    half = signed.receipt | {"texts": [signed.receipt["texts"][0] + "\ud800"]}
    for verifier in verifiers:
        assert (
            failure(verifier, '{"texts": ["Other."], ' + text[1:], signed.keys) == "not_a_receipt"
        )
        assert failure(verifier, json.dumps(half), signed.keys) == "not_a_receipt"


@proves("proof.verified")
def test_receipt_in_another_encoding_is_refused(signed: Signed, verifiers: list[ModuleType]):
    text = json.dumps(signed.receipt)
    for verifier in verifiers:
        assert verifier.verify(text.encode(), signed.keys)
        for encoding in ("utf-8-sig", "utf-16", "utf-16-le", "utf-32"):
            data = text.encode(encoding)
            assert failure(verifier, data, signed.keys) == "not_a_receipt", encoding


@proves("proof.verified")
def test_signature_in_another_spelling_is_refused(signed: Signed, verifiers: list[ModuleType]):
    alphabet = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
    made = deepcopy(signed.receipt)
    signature = made["envelope"]["signatures"][0]
    last = signature["sig"][-3]
    # The last four bits of this letter are not used: other letters stand for the same bytes.
    same = signature["sig"][:-3] + alphabet[alphabet.index(last) ^ 1] + "=="
    assert base64.b64decode(same) == base64.b64decode(signature["sig"])
    signature["sig"] = same
    found = [failure(verifier, json.dumps(made), signed.keys) for verifier in verifiers]
    assert found == ["not_a_receipt", "not_a_receipt"]


@proves("proof.verified")
def test_statement_in_another_spelling_is_not_canonical(signed: Signed) -> None:
    key = SigningKey.from_seed(Secret(base64.b64encode(bytes(32)).decode()))
    payload = json.dumps(signed.statement).encode()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.from_private_bytes(bytes(32))
    signature = private.sign(own_verifier.pre_authentication(payload))
    made = deepcopy(signed.receipt)
    made["envelope"]["payload"] = base64.b64encode(payload).decode()
    made["envelope"]["signatures"] = [
        {"keyid": key.public.key_id, "sig": base64.b64encode(signature).decode()}
    ]
    public = {"key_id": key.public.key_id, "public_key": key.public.public_key}
    keys = {"library": signed.keys["library"], "keys": [public]}

    assert failure(own_verifier, json.dumps(made), keys) == "not_canonical"


def test_example_is_the_verifier_of_truespan() -> None:
    source = Path(own_verifier.__file__ or "").read_text("utf-8")
    assert EXAMPLE.read_text("utf-8") == source
    assert len(source.splitlines()) < 300
    assert "truespan." not in source.replace("truespan.verify", "")
