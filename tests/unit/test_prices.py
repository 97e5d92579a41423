"""Estimated requests and cost of a run."""

from __future__ import annotations

import pytest

from tests.support.docs_reader import DOCS, sections_of, table_rows
from tests.support.worlds import other_profile
from truespan.ingest.embed import OnTokenLimit
from truespan.ingest.plan import estimate
from truespan.protocols import EmbeddingLimits

SMALL = other_profile(provider="openai", model="text-embedding-3-small")
LIMITS = EmbeddingLimits(items=100, tokens=10_000)


@pytest.mark.parametrize("provider", ["local", "ollama", "fastembed"])
def test_models_on_the_own_machine_cost_nothing(provider: str) -> None:
    assert estimate(other_profile(provider=provider, model="any"), 10**9, 10, LIMITS).cost == 0.0


def test_cost_without_a_price_is_unknown() -> None:
    unknown = other_profile(provider="openai", model="my-own")

    assert estimate(unknown, 1000, 1, LIMITS).cost is None


@pytest.mark.parametrize("price", [0.0, 3.0])
def test_configured_price_counts(price: float) -> None:
    assert estimate(SMALL, 2_000_000, 10, LIMITS, price=price).cost == pytest.approx(2 * price)


@pytest.mark.parametrize(
    ("tokens", "items", "requests"),
    [(0, 0, 0), (10, 1, 1), (100, 98, 1), (100, 99, 2), (10_001, 5, 2), (50_000, 99, 5)],
)
def test_requests_follow_from_items_and_tokens(tokens: int, items: int, requests: int) -> None:
    assert estimate(SMALL, tokens, items, LIMITS).requests == requests


def test_provider_page_lists_choices_for_long_texts() -> None:
    rows = table_rows(sections_of(DOCS / "providers.md")["Long texts"])

    assert [row[0] for row in rows] == [choice.value for choice in OnTokenLimit]
