"""What embedding costs, as far as that can be said before it is done.

Prices were looked up in the month named here; they change, and an operator who knows better says
so.
"""

from __future__ import annotations

from dataclasses import dataclass

from truespan.ingest.embed.batches import room_for_texts
from truespan.model.profile import EmbeddingProfile
from truespan.ports import EmbeddingLimits

LOOKED_UP = "2026-11"
PRICES: dict[str, dict[str, float]] = {
    "openai": {
        "text-embedding-3-small": 0.02,
        "text-embedding-3-large": 0.13,
        "text-embedding-ada-002": 0.10,
    },
    "google": {"gemini-embedding-001": 0.15, "gemini-embedding-2": 0.20},
}
"""US dollars for a million tokens, by provider and model."""
FREE = frozenset({"local", "fastembed", "ollama"})
"""Providers that run on the operator's own machines, whatever the model."""
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run would ask of a provider. `cost` is in US dollars; None when nobody knows."""

    requests: int
    tokens: int
    cost: float | None


def price_of(profile: EmbeddingProfile) -> float | None:
    """Return the price of a million tokens in US dollars; None when it is not known."""
    if profile.provider in FREE:
        return 0.0
    return PRICES.get(profile.provider, {}).get(profile.model)


def estimate(
    profile: EmbeddingProfile,
    tokens: int,
    items: int,
    limits: EmbeddingLimits,
    *,
    price: float | None = None,
) -> Estimate:
    """Return what embedding so many texts of so many tokens together would ask of a provider.

    `limits` are the embedder's own, tightened by the operator's. `price` is the operator's word for
    a million tokens. The requests that prove order and learn the model are too few to count.
    """
    by_items = -(-items // max(room_for_texts(limits), 1))
    by_tokens = -(-tokens // limits.tokens)
    known = price_of(profile) if price is None else price
    cost = None if known is None else tokens / _MILLION * known
    return Estimate(max(by_items, by_tokens) if items else 0, tokens, cost)


def elsewhere(tokens: int, items: int) -> dict[str, Estimate]:
    """Return what the same work would ask of every model in the table, at the usual limits."""
    limits = EmbeddingLimits()
    by_requests = -(-items // max(room_for_texts(limits), 1)) if items else 0
    requests = max(by_requests, -(-tokens // limits.tokens))
    return {
        f"{provider}/{model}": Estimate(requests, tokens, tokens / _MILLION * price)
        for provider, models in PRICES.items()
        for model, price in models.items()
    }
