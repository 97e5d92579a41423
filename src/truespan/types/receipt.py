"""Signed receipts, the public keys that verify them, and the documents that they are about."""

from __future__ import annotations

from enum import StrEnum
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


class StateChange(StrEnum):
    """Difference between the state of a receipt and the present one."""

    SAME = "same"
    CHANGED = "changed"
    OTHER_MODEL = "other_model"
    """The generation has another embedding model."""
    GONE = "gone"
    """The world or the generation was deleted."""
    UNKNOWN = "unknown"
    """The receipt has no state, like every receipt of a reader."""


class PassageChange(StrEnum):
    """Difference between a signed passage and what the library has now."""

    SAME = "same"
    NOT_RETURNED = "not_returned"
    """The text is unchanged, but the same request does not return it any more."""
    REPLACED = "replaced"
    """The document has a new revision."""
    DELETED = "deleted"
    DAMAGED = "damaged"


class ReplayedPassage(Struct, frozen=True):
    """A signed passage, by its number from 1, and what became of it."""

    number: int
    change: PassageChange


class ReplayReport(Struct, frozen=True):
    """Difference between a receipt and the same request now."""

    state: StateChange
    same_result: bool | None
    """Whether the result is the same, byte for byte, apart from the time it took; None if the
    request was not repeated; answers never are."""
    passages: tuple[ReplayedPassage, ...]

    @property
    def same(self) -> bool:
        """Whether nothing that the receipt is about has changed."""
        passages = all(passage.change is PassageChange.SAME for passage in self.passages)
        state = self.state in (StateChange.SAME, StateChange.UNKNOWN)
        return passages and state and self.same_result is not False


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


class DocumentProof(Struct, frozen=True):
    """The revision of a document, and the root of the Merkle tree over its sentences."""

    document: int
    doc_id: str
    revision: int
    source_hash: str
    sentences: int
    root: str
