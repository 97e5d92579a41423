"""What a run would cost."""

from __future__ import annotations

import re

import pytest

from tests.support.docs_reader import DOCS, sections_of, table_rows
from tests.support.worlds import other_profile
from truespan.ingest.embed import OnTokenLimit
from truespan.ingest.plan import PRICES, PRICES_AS_OF, estimate, price_of
from truespan.protocols import EmbeddingLimits

SMALL = other_profile(provider="openai", model="text-embedding-3-small")
LIMITS = EmbeddingLimits(items=100, tokens=10_000)


def test_the_price_is_that_of_provider_and_model() -> None:
    assert estimate(SMALL, 5_000_000, 10, LIMITS).cost == pytest.approx(0.10)


@pytest.mark.parametrize("provider", ["local", "ollama", "fastembed"])
def test_what_runs_on_one_s_own_machine_costs_nothing(provider: str) -> None:
    assert estimate(other_profile(provider=provider, model="any"), 10**9, 10, LIMITS).cost == 0.0


def test_what_nobody_knows_is_not_called_free() -> None:
    unknown = other_profile(provider="openai", model="my-own")

    assert price_of(unknown) is None
    assert estimate(unknown, 1000, 1, LIMITS).cost is None


@pytest.mark.parametrize("price", [0.0, 3.0])
def test_the_operator_knows_best(price: float) -> None:
    assert estimate(SMALL, 2_000_000, 10, LIMITS, price=price).cost == pytest.approx(2 * price)


@pytest.mark.parametrize(
    ("tokens", "items", "requests"),
    [(0, 0, 0), (10, 1, 1), (100, 98, 1), (100, 99, 2), (10_001, 5, 2), (50_000, 99, 5)],
)
def test_requests_follow_from_items_and_tokens(tokens: int, items: int, requests: int) -> None:
    assert estimate(SMALL, tokens, items, LIMITS).requests == requests


def test_the_page_on_providers_lists_every_price() -> None:
    rows = table_rows(sections_of(DOCS / "providers.md")["Prices"])

    listed = {(provider, model): float(price) for provider, model, price in rows}

    assert listed == {
        (provider, model): price
        for provider, models in PRICES.items()
        for model, price in models.items()
    }


def test_provider_page_lists_choices_for_long_texts() -> None:
    rows = table_rows(sections_of(DOCS / "providers.md")["Long texts"])

    assert [row[0] for row in rows] == [choice.value for choice in OnTokenLimit]


def test_prices_are_dated_and_positive() -> None:
    assert re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", PRICES_AS_OF)
    assert all(price > 0 for models in PRICES.values() for price in models.values())
