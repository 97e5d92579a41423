"""Proofs that others can check: signed receipts and their verification.

Owns: canonical JSON, envelopes and signatures, statements of receipts, the file of keys.
`verify.py` also runs alone: it imports nothing else of Truespan. Does not own: the question which
passages a caller may see. Must hold: only statements in their exact signed form are accepted; a
receipt contains no text, hash or count that its caller may not see.
"""

from __future__ import annotations

from truespan.tables import Commands, Tables

_HERE = "truespan.extensions.proof"


def register(tables: Tables) -> None:
    """Add the commands, the keys, and the functions that sign and verify."""
    tables.commands += (Commands("Prove", f"{_HERE}.commands", ("keys", "verify")),)
    tables.components["signing_keys"] = f"{_HERE}.keys:open_keys"
    tables.members |= {
        "Library.keys": f"{_HERE}.signing:keys_of",
        "Reader.sign": f"{_HERE}.signing:sign",
        "World.sign": f"{_HERE}.signing:sign",
        "truespan.require_key": f"{_HERE}.signing:require_key",
        "truespan.verify_receipt": f"{_HERE}.receipts:verify_receipt",
    }
