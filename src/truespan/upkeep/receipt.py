"""The receipt of a deletion: what went, from where, and whether anything of it can still be found.

A receipt names the document or world and counts what was removed. It holds nothing of the text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Any

from truespan.model.erasure import NO_FILES, Remnant, RemovedFiles


@dataclass(frozen=True, slots=True)
class PointsRemoved:
    """How many points of one generation were removed from the index."""

    generation: int
    profile: str
    points: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a deletion did.

    `rows` counts the rows that each table lost, `redacted` the records of jobs that named it.
    `erased` says that its bytes are gone from every file that the library keeps; until then
    `waiting` has what is left to do and why, and 'truespan repair' does it. `outside` has what lies
    in files of servers and what those were told; with any of that, `erased` is never claimed.
    `check` is the look through the library's own files that was taken afterwards; None when nothing
    distinctive could be looked for.
    """

    world: str
    world_id: str
    number: int | None
    """The document's number; None when the whole world was deleted."""
    doc_id: str | None
    name: str
    deleted_at: float
    rows: Mapping[str, int] = field(default_factory=dict)
    redacted: Mapping[str, int] = field(default_factory=dict)
    points: tuple[PointsRemoved, ...] = ()
    assets: RemovedFiles = NO_FILES
    uploads: RemovedFiles = NO_FILES
    erased: bool = False
    waiting: Mapping[str, str] = field(default_factory=dict)
    outside: Mapping[str, str] = field(default_factory=dict)
    check: Remnant | None = None
    digest: str = ""

    def sealed(self) -> Receipt:
        """Return the receipt with the digest over all the rest of it."""
        return replace(self, digest=digest_of(self.told()))

    def told(self) -> dict[str, Any]:
        """Return the receipt as data, fit for JSON."""
        fields = asdict(self)
        fields["assets"] = self.assets._asdict()
        fields["uploads"] = self.uploads._asdict()
        fields["check"] = self.check._asdict() if self.check else None
        fields["points"] = list(fields["points"])
        return fields


def digest_of(told: Mapping[str, Any]) -> str:
    """Return the digest of a receipt that was told as data; whoever keeps one may check it."""
    fields = {name: value for name, value in told.items() if name != "digest"}
    spelled = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256(spelled.encode()).hexdigest()
