"""Proofs that others can check: signed receipts and their verification.

Owns: canonical JSON, envelopes and signatures, statements of receipts. `verify.py` also runs
alone: it imports nothing else of Truespan.
Does not own: the files of keys, and the question which passages a caller may see.
Must hold: nothing is accepted that was not signed as it is; a receipt contains no text, hash or
count that its caller may not see.
"""

from __future__ import annotations

from truespan.tables import Commands, Tables

_HERE = "truespan.extensions.proof"


def register(tables: Tables) -> None:
    """Add the commands."""
    tables.commands += (Commands("Prove", f"{_HERE}.commands", ("keys", "verify")),)
