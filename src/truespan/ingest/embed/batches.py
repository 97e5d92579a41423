"""Texts grouped into requests that a provider takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from truespan.ingest.embed.canary import most_canaries
from truespan.model.ids import TextHash
from truespan.ports import EmbeddingLimits

CHARACTERS_PER_TOKEN = 4
"""The estimate that batches are filled by; exact counts are the chunker's business."""

Item = tuple[TextHash, str]


def batches(texts: Sequence[Item], limits: EmbeddingLimits) -> Iterator[list[Item]]:
    """Group texts so that no batch exceeds the limits; a text above them goes alone.

    Where texts of a batch come back together, room is left for what proves their order.
    """
    batch: list[Item] = []
    used = 0
    room = room_for_texts(limits)
    for item in texts:
        tokens = estimated_tokens(item[1])
        if batch and (len(batch) >= room or used + tokens > limits.tokens):
            yield batch
            batch, used = [], 0
        batch.append(item)
        used += tokens
    if batch:
        yield batch


def room_for_texts(limits: EmbeddingLimits) -> int:
    """Return how many texts of the world's own one request holds."""
    return limits.items - (most_canaries(limits.items) if limits.joint else 0)


def estimated_tokens(text: str) -> int:
    """Return about how many tokens a text has."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)
