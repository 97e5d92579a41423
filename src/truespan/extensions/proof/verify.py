"""Verify signed receipts of Truespan, offline and without Truespan.

    python truespan_verify.py receipt.json --keys keys.json [--source FILE]

Needs Python 3.11 and the package `cryptography`. 'truespan keys list --json' prints the public keys
of a library; get them from its owner, not with the receipt. The exit code is 0 if the receipt is
valid, else 10 or more: one for each of `FAILURES`.

A valid receipt says: the library held these bytes at these places, and returned them. It does not
say that they are true.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:truespan:receipt:v1"
MAX_INTEGER = 2**53 - 1
MAX_FILE_BYTES = 1 << 30
SHAPE = [["envelope", "texts"], ["payload", "payloadType", "signatures"], ["keyid", "sig"]]
FAILURES = (
    *("not_a_receipt", "unknown_key", "wrong_signature", "not_canonical", "unknown_statement"),
    *("key_not_in_force", "other_library", "text_missing", "text_differs"),
    *("other_source", "source_text_differs"),
)
EXIT_CODES = {failure: code for code, failure in enumerate(FAILURES, 10)}


class ReceiptError(Exception):
    """A receipt that is not valid; `failure` is one of `FAILURES`."""

    def __init__(self, failure: str, message: str) -> None:
        super().__init__(message)
        self.failure = failure


class Verified(NamedTuple):
    """A valid receipt: the signed claims, and the texts that they are about."""

    key_id: str
    claims: dict[str, Any]
    texts: tuple[str, ...]


def parse(data: str | bytes) -> Any:
    """Return the value of strict JSON: no equal keys, no NaN, no half characters."""
    hooks = {"parse_constant": _refuse, "parse_float": _refuse, "parse_int": _integer}
    try:
        # Python would accept bytes in UTF-16 and UTF-32 too.
        text = data if isinstance(data, str) else data.decode()
        value = json.loads(text, object_pairs_hook=_unique, **hooks)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ReceiptError("not_a_receipt", f"The receipt is not strict JSON: {error}.") from None
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key occurs twice")
    return dict(pairs)


def _refuse(number: str) -> NoReturn:
    raise ValueError(f"{number[:20]} is not a small integer")


def _integer(digits: str) -> int:
    if len(digits) > 17 or abs(int(digits)) > MAX_INTEGER:
        _refuse(digits)
    return int(digits)


def canonical(value: Any) -> bytes:
    """Return canonical JSON by RFC 8785, of a value with ASCII keys and without fractions."""
    # For such values, this is what the RFC asks for. `parse` refuses fractions and large integers.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def pre_authentication(payload: bytes) -> bytes:
    """Return the bytes that are signed, by DSSE v1."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def verify(receipt: str | bytes, keys: Any) -> Verified:
    """Verify a receipt with the public keys of its library; raises ReceiptError."""
    envelope, texts = _members(parse(receipt))
    key = _find_key(keys, envelope["signatures"][0]["keyid"])
    payload = _open(envelope, key)
    statement = parse(payload)
    if canonical(statement) != payload:
        raise ReceiptError("not_canonical", "The statement is not canonical JSON.")
    kinds = statement.get("_type"), statement.get("predicateType")
    if kinds != (STATEMENT_TYPE, PREDICATE_TYPE):
        raise ReceiptError("unknown_statement", "The statement is not a receipt of this version.")
    claims = statement["predicate"]
    _check_key(key, claims, keys.get("library"))
    _check_texts(statement["subject"], texts)
    return Verified(key["key_id"], claims, texts)


def _members(value: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the envelope and the texts of a receipt, which has no other members."""
    match value:
        case {"envelope": {"signatures": [dict() as signature]} as envelope, "texts": [*texts]}:
            shape = [sorted(value), sorted(envelope), sorted(signature)]
            if shape == SHAPE and all(isinstance(text, str) for text in texts):
                return envelope, tuple(texts)
    raise ReceiptError("not_a_receipt", "The file is not a signed receipt.")


def _open(envelope: dict[str, Any], key: dict[str, Any]) -> bytes:
    """Return the payload of an envelope, which is signed with a key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if envelope["payloadType"] != PAYLOAD_TYPE:
        raise ReceiptError("unknown_statement", "The payload is not a statement.")
    payload, signature = _decode(envelope["payload"]), _decode(envelope["signatures"][0]["sig"])
    public = Ed25519PublicKey.from_public_bytes(_decode(key["public_key"]))
    try:
        public.verify(signature, pre_authentication(payload))
    except InvalidSignature:
        raise ReceiptError("wrong_signature", "The signature does not match.") from None
    return payload


def _decode(text: Any) -> bytes:
    """Return the bytes of base64 in its only accepted spelling."""
    from base64 import b64decode, b64encode

    try:
        data = b64decode(text, validate=True)
        if b64encode(data).decode() == text:
            return data
    except (TypeError, ValueError):
        pass
    raise ReceiptError("not_a_receipt", "The receipt has malformed base64.")


def _find_key(keys: Any, key_id: object) -> dict[str, Any]:
    """Return a public key of a library. Its id is the hash of its bytes."""
    try:
        for key in keys["keys"]:
            if key["key_id"] == key_id == sha256(_decode(key["public_key"])).hexdigest():
                return key
    except (KeyError, TypeError):
        raise ReceiptError("unknown_key", "The file of keys has another form.") from None
    raise ReceiptError("unknown_key", "The receipt is signed with a key that is not known.")


def _check_key(key: dict[str, Any], claims: dict[str, Any], library: object) -> None:
    if claims["library"] != library:
        raise ReceiptError("other_library", "The receipt is from another library than the keys.")
    # Times in one format of ISO 8601 are in the order of their texts.
    begin, end = key.get("created_at") or "", key.get("retired_at") or "9999"
    if not begin <= claims["time"] <= end:
        raise ReceiptError("key_not_in_force", "The key was not valid when this was signed.")


def _check_texts(subjects: list[dict[str, Any]], texts: Sequence[str]) -> None:
    if len(texts) != len(subjects):
        message = f"The receipt has {len(texts)} texts, and signatures for {len(subjects)}."
        raise ReceiptError("text_missing", message)
    for subject, text in zip(subjects, texts, strict=True):
        if sha256(text.encode()).hexdigest() != subject["digest"]["sha256"]:
            raise ReceiptError("text_differs", f"The text of {subject['name']} was changed.")


def check_source(claims: dict[str, Any], data: bytes) -> list[dict[str, Any]]:
    """Return the signed documents that were read from a file; raises ReceiptError."""
    digest = sha256(data).hexdigest()
    found = [item for item in claims.get("documents", ()) if item.get("source_hash") == digest]
    if not found:
        raise ReceiptError("other_source", "No signed document was read from a file like this.")
    return found


def read_file(path: Path) -> bytes:
    """Return the bytes of an ordinary file of at most 1 GiB; raises OSError.

    A device or a pipe might never end.
    """
    opened = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(opened, "rb") as file:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise OSError(errno.EINVAL, "not an ordinary file")
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise OSError(errno.EFBIG, f"more than {MAX_FILE_BYTES} bytes")
    return data


def main() -> int:
    from argparse import ArgumentParser

    parser = ArgumentParser(description="Verify a signed receipt of Truespan.")
    parser.add_argument("receipt", type=Path)
    parser.add_argument("--keys", type=Path, required=True, help="public keys of the library")
    parser.add_argument("--source", type=Path, help="file that a signed document was read from")
    given = parser.parse_args()
    try:
        keys = parse(read_file(given.keys))
        verified = verify(read_file(given.receipt), keys)
        if given.source:
            check_source(verified.claims, read_file(given.source))
    except OSError as error:
        sys.stderr.write(f"Cannot read a file: {error.strerror}.\n")
        return 3
    except ReceiptError as error:
        sys.stderr.write(f"Not valid ({error.failure}): {error}\n")
        return EXIT_CODES[error.failure]
    sys.stdout.write(f"Valid. {describe(verified)}\n")
    return 0


def describe(verified: Verified) -> str:
    claims, key = verified.claims, verified.key_id[:16]
    about = f"{len(claims['passages'])} passages" if "passages" in claims else "1 text"
    return f"Signed: {claims['operation']} of {claims['time']}, {about}, key {key}."


if __name__ == "__main__":
    sys.exit(main())
