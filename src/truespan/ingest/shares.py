"""Shares of a run: which sources one worker carries in while others carry in the rest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from truespan.model.job import JobShare
from truespan.model.source import Declared, DocumentKind, Source

MOST_DOCUMENTS = 16
MOST_BYTES = 4 << 20
"""A share holds no more than this, or one document: each flushes the index at least once, which is
dear, but whoever dies leaves the whole share to another."""
LEAST_SHARES = 8
"""A run of fewer documents is cut finer, so that there is something to do for several workers."""


def split(sources: Sequence[Source]) -> list[tuple[Source, ...]]:
    """Cut sources into runs, in their order; a large one is alone."""
    most = min(max(len(sources) // LEAST_SHARES, 1), MOST_DOCUMENTS)
    shares: list[list[Source]] = []
    size = 0
    for source in sources:
        if not shares or len(shares[-1]) >= most or size + source.size > MOST_BYTES:
            shares.append([])
            size = 0
        shares[-1].append(source)
        size += source.size
    return [tuple(share) for share in shares]


def share_of(sources: Sequence[Source]) -> JobShare:
    """Return a share as it is written down."""
    request = json.dumps({"sources": [asdict(source) for source in sources]}, sort_keys=True)
    # What is empty has to be read as well: no share is for nothing.
    size = sum(max(source.size, 1) for source in sources)
    return JobShare(request, len(sources), size)


def read_share(stored: str) -> tuple[Source, ...]:
    """Return the sources of a share that `share_of` spelled."""
    found: dict[str, Any] = json.loads(stored)
    return tuple(
        Source(**{**fields, "declared": read_declared(fields["declared"])})
        for fields in found["sources"]
    )


def read_declared(said: dict[str, Any]) -> Declared:
    """Return what was declared of documents, as JSON has it."""
    kind = DocumentKind(said["kind"]) if said["kind"] else None
    tags = None if said["tags"] is None else tuple(said["tags"])
    return Declared(**{**said, "kind": kind, "tags": tags})
