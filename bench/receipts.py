"""What signed receipts cost: signing a search, and verifying a receipt.

Signing is the difference between a search with a receipt and the same search without one, in turn,
in CPU time. Run it with `python -m bench.receipts`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

import truespan
from bench.material import books
from bench.measure import Work, cpu_seconds, medians
from bench.report import Figure, Options, at_most, run
from truespan.extensions.proof.verify import verify

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
        world.add_text(books()[0][0], id="book.txt", kind="book")

        def search(*, signed: bool) -> bytes:
            result = world.search("Who held the key?", top_k=PASSAGES, floor=0.0)
            return msgspec.json.encode(world.sign(result)) if signed else b""

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
