"""Statements of receipts, in the form that is signed, and the Ed25519 keys that sign them."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from truespan.core.decoding import prepare
from truespan.errors import InvalidConfiguration
from truespan.extensions.proof.types import Envelope, PublicKey, Signature
from truespan.extensions.proof.verify import (
    PAYLOAD_TYPE,
    PREDICATE_TYPE,
    STATEMENT_TYPE,
    canonical,
    pre_authentication,
)
from truespan.types.bundle import ContextBundle, ContextPassage, Passage, SearchResult
from truespan.types.chunk import ChunkKind
from truespan.types.ids import hash_text
from truespan.types.token import Secret
from truespan.types.trust import Visible

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


PlacedText: TypeAlias = Passage | ContextPassage | Visible
"""Passage of a search, of a bundle or of an answer."""


def describe_passage(passage: PlacedText) -> dict[str, Any]:
    """Return the claims about a passage."""
    kind = getattr(passage, "chunk_type", None) or getattr(passage, "kind", ChunkKind.TEXT)
    return {
        "text": hash_text(passage.text),
        "chunk_id": passage.chunk_id,
        "kind": str(kind),
        "document": passage.document,
        "title": passage.title,
        "source": passage.source,
        "chapter": passage.chapter,
        "section": passage.section,
        "page": passage.page,
        "location": passage.location,
        "start": passage.start,
        "end": passage.end,
        "first_sentence": passage.first_sid,
        "last_sentence": passage.last_sid,
        "score": repr(float(passage.score)),
    }


def make_statement(claims: dict[str, Any], names: Sequence[str], texts: Sequence[str]) -> Any:
    """Return the statement with these claims about texts, each with a name."""
    subjects = [
        {"name": name, "digest": {"sha256": hash_text(text)}}
        for name, text in zip(names, texts, strict=True)
    ]
    return {
        "_type": STATEMENT_TYPE,
        "subject": subjects,
        "predicateType": PREDICATE_TYPE,
        "predicate": claims,
    }


def describe_request(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a request without fractions: a number becomes its text."""
    described: dict[str, Any] = {}
    for name, value in arguments.items():
        plain = msgspec.to_builtins(value)
        if name == "metadata" and plain:
            plain = json.dumps(plain, ensure_ascii=False, sort_keys=True)
        described[name] = repr(plain) if isinstance(plain, float) else plain
    return described


def digest_result(result: SearchResult | ContextBundle) -> str:
    """Return the SHA-256 of a result in JSON, without its duration."""
    if isinstance(result, SearchResult):
        plain: Any = replace(result, processing_time_ms=0)
    else:
        metadata = replace(result.metadata, processing_time_ms=0)
        plain = replace(result, metadata=metadata)
    return sha256(msgspec.json.encode(plain)).hexdigest()


def describe_scope(name: str, library: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the scope of a request in words, and the digest of the scope."""
    parts = [f"{key} {json.dumps(value, ensure_ascii=False)}" for key, value in fields.items()]
    digest = sha256(canonical({"library": library, "world": name, **fields})).hexdigest()
    return {
        "text": ", ".join([f"world {json.dumps(name, ensure_ascii=False)}", *parts]),
        "sha256": digest,
    }


SEED_BYTES = 32


class SigningKey:
    """A private key with its public key. The private key is never shown."""

    def __init__(self, private: Ed25519PrivateKey, created_at: str | None = None) -> None:
        raw = private.public_key().public_bytes_raw()
        self._private = private
        self.public = PublicKey(sha256(raw).hexdigest(), b64encode(raw).decode(), created_at)

    @classmethod
    def from_seed(cls, seed: Secret, created_at: str | None = None) -> SigningKey:
        """Return the key of a seed of 32 bytes in base64; raises InvalidConfiguration."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.from_private_bytes(_decode_seed(seed)), created_at)

    def sign(self, statement: dict[str, object]) -> Envelope:
        """Return a statement in a signed envelope."""
        # The bytes of `verify.canonical`, in a seventh of the time.
        payload = msgspec.json.encode(statement, order="sorted")
        signature = b64encode(self._private.sign(pre_authentication(payload))).decode()
        signatures = (Signature(self.public.key_id, signature),)
        return Envelope(PAYLOAD_TYPE, b64encode(payload).decode(), signatures)


class KeyRing(Struct, frozen=True):
    """The keys of a library. Only the last one may be in use, and only it has a seed."""

    public: tuple[PublicKey, ...] = ()
    seed: str = ""

    def __repr__(self) -> str:
        return f"KeyRing({len(self.public)} keys)"

    def signing_key(self) -> SigningKey | None:
        """Return the key that signs; None if there is none."""
        if not self.seed:
            return None
        return SigningKey.from_seed(Secret(self.seed), self.public[-1].created_at)

    def rotate(self, seed: Secret, now: str) -> KeyRing:
        """Return the keys with a new one. The old private key is dropped, its public key kept."""
        retired = [key if key.retired_at else replace(key, retired_at=now) for key in self.public]
        new = SigningKey.from_seed(seed, now).public
        return KeyRing((*retired, new), seed.reveal())

    def to_json(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"

    @classmethod
    def from_json(cls, data: bytes, name: str) -> KeyRing:
        """Return the keys of a file; raises InvalidConfiguration."""
        try:
            ring = msgspec.json.decode(data, type=prepare(cls))
            if ring.seed:
                own = SigningKey.from_seed(Secret(ring.seed)).public
                if not ring.public or ring.public[-1].public_key != own.public_key:
                    raise ValueError("the keys do not belong together")
        except (ValueError, InvalidConfiguration):
            raise InvalidConfiguration(
                f"The file {name} contains no signing keys.",
                advice="Restore the file from a backup.",
            ) from None
        return ring


def _decode_seed(seed: Secret) -> bytes:
    try:
        data = b64decode(seed.reveal(), validate=True)
    except ValueError:
        data = b""
    if len(data) != SEED_BYTES:
        raise InvalidConfiguration(
            "The signing key is not 32 bytes in base64.",
            advice="Create one with 'truespan keys create', or with 'openssl rand -base64 32'.",
        )
    return data
