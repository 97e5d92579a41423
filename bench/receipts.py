"""What signed receipts cost: signing a search, verifying a receipt, and roots while ingesting.

Signing is the difference between a search with a receipt and the same search without one, in turn,
in CPU time. The share of roots is the CPU time of their trees beside that of the whole ingestion
with the bundled model. Run it with `python -m bench.receipts`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

import truespan
from bench.material import books
from bench.measure import Work, cpu_seconds, medians
from bench.report import Figure, Options, at_most, run
from truespan.proof.merkle import sentence_tree
from truespan.proof.verify import verify
from truespan.types.document import RevisionRef

ROUNDS = 200
PASSAGES = 20


def measure(_: Options) -> list[Figure]:
    """Return the figures of a library with one book."""
    with TemporaryDirectory(prefix="truespan-bench-") as name:
        return [*measure_library(Path(name))]


def measure_library(folder: Path) -> Iterator[Figure]:
    """Give the figures of a library in a folder."""
    with truespan.open(folder / "library", create=True) as library:
        keys = msgspec.to_builtins(library.keys.create())
        world = library.world("bench", create=True)
        began = time.process_time()
        world.add_text(books()[0][0], id="book.txt", kind="book")
        ingested = time.process_time() - began
        scope = world.access.scope()
        if scope is None:
            raise SystemExit("nothing was ingested")
        store, count = world.access.components.store, world.documents.list()[0].sentences
        found = store.sentences(scope, RevisionRef(1, 1), 0, count - 1)
        rows = [(item.sid, item.start, item.end, item.digest) for item in found]
        trees = medians({"tree": lambda: sentence_tree(rows).root()}, 20)
        yield Figure(
            f"root of {count} sentences",
            trees["tree"] * 1e3,
            "ms",
            "the ingestion",
            ingested * 1e3,
            trees["tree"] / ingested,
            at_most(0.05),
        )

        def search(*, signed: bool) -> bytes:
            result = world.search("Who held the key?", top_k=PASSAGES, floor=0.0, signed=signed)
            return msgspec.json.encode(result.signed_receipt) if signed else b""

        sides: dict[str, Work] = {
            "plain": lambda: search(signed=False),
            "signed": lambda: search(signed=True),
        }
        taken = medians(sides, ROUNDS, cpu_seconds)
        extra = (taken["signed"] - taken["plain"]) * 1e3
        name = f"signing a search of {PASSAGES} passages, p50"
        yield Figure(name, extra, "ms", target=at_most(1.0))
        receipt = search(signed=True)
        checked = medians({"verify": lambda: verify(receipt, keys)}, ROUNDS)
        name = f"verifying a receipt of {PASSAGES} passages, p50"
        yield Figure(name, checked["verify"] * 1e3, "ms", target=at_most(200.0))


if __name__ == "__main__":
    run("bench.receipts", __doc__, measure)
