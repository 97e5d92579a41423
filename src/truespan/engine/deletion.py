"""Signed receipts of deletions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from truespan.engine.components import Components
from truespan.types.scope import OWNER

if TYPE_CHECKING:
    from truespan.maintenance.delete import Receipt


def require_signing_key(components: Components) -> None:
    """Raise SigningKeyMissing unless the library can sign, before anything is deleted."""
    from truespan.engine.signing import Signer

    Signer(components, OWNER).require_key()


def sign_deletion(components: Components, receipt: Receipt) -> Receipt:
    """Return the receipt of a deletion with its signature."""
    from truespan.engine.signing import Operation, Signer

    signer = Signer(components, OWNER)
    signed = signer.sign_content(receipt.world_id, Operation.DELETION, receipt.to_json())
    return replace(receipt, signed_receipt=signed)
