"""How sources are cut into shares: runs that are neither few nor large."""

from __future__ import annotations

import pytest

from truespan.ingest.requests import (
    MAX_BYTES,
    MAX_DOCUMENTS,
    MAX_SHARES_OF_FILE,
    MIN_SHARES,
    split_sources,
)
from truespan.types.source import Source


def source(size: int, number: int = 0) -> Source:
    return Source(f"/{number}", f"{number}", f"{number}", size)


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 40, 127, 128, 1000])
def test_shares_are_limited_in_count_and_size(count: int) -> None:
    sources = [source(100, number) for number in range(count)]
    shares = split_sources(sources)

    assert [one for share in shares for one in share] == sources
    assert all(0 < len(share) <= MAX_DOCUMENTS for share in shares)
    assert len(shares) >= min(count, MIN_SHARES)
    assert len(shares) <= max(2 * MIN_SHARES, -(-count // MAX_DOCUMENTS))


def test_a_large_document_is_a_share_of_its_own() -> None:
    sizes = [1, MAX_BYTES, 1, 2, MAX_BYTES // 2, MAX_BYTES // 2, 1, MAX_BYTES * 3, 5] * 10
    shares = split_sources([source(size, number) for number, size in enumerate(sizes)])

    assert all(len(share) == 1 or sum(one.size for one in share) <= MAX_BYTES for share in shares)
    assert split_sources([]) == []


def test_a_file_is_split_into_a_limited_number_of_shares() -> None:
    sources = [
        Source("/x.zip", f"{number}", f"{number}", 1000, member=f"{number}.txt")
        for number in range(10_000)
    ]
    shares = split_sources(sources)

    assert [source for share in shares for source in share] == sources
    assert MAX_SHARES_OF_FILE <= len(shares) <= MAX_SHARES_OF_FILE + 1
