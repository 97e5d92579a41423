"""Signed receipts, and the public keys that verify them."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field


class Signature(Struct, frozen=True):
    """A signature with the id of its key."""

    keyid: str
    sig: str


class Envelope(Struct, frozen=True):
    """A DSSE envelope: a signed payload in base64, and its signature."""

    payload_type: str = field(name="payloadType")
    payload: str
    signatures: tuple[Signature, ...]


class SignedReceipt(Struct, frozen=True):
    """A signed statement about a result, and the texts whose hashes it contains.

    `texts` has the text of each passage in order, then the text of the answer.
    """

    envelope: Envelope
    texts: tuple[str, ...]


class SourcePlace(Struct, frozen=True):
    """Place of a signed passage in the file that it was read from."""

    passage: int
    """Number of the passage, from 1."""
    first_sentence: int
    last_sentence: int
    location: str | None
    """Pages, slides, lines, cells or rows of the text; None if the file has none."""


class VerifiedReceipt(Struct, frozen=True):
    """A valid receipt: the claims that were signed, and the texts that they are about.

    It says that the library held these texts at these places and returned them, not that they are
    true.
    """

    key_id: str
    claims: dict[str, Any]
    texts: tuple[str, ...]
    places: tuple[SourcePlace, ...] = ()
    """Places of the passages in the file that was compared, if there was one."""


Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


class PublicKey(Struct, frozen=True):
    """A public key of a library; `key_id` is the SHA-256 of its bytes."""

    key_id: str
    public_key: str
    """Raw Ed25519 public key in base64."""
    created_at: Time | None = None
    """Time from which receipts are signed with the key; None if it is unknown."""
    retired_at: Time | None = None
    """Time from which no receipt is signed with the key; None while it is in use."""


class PublicKeys(Struct, frozen=True):
    """The public keys of a library, from the first to the present one."""

    library: str
    keys: tuple[PublicKey, ...]
