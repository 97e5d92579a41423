"""Which tests run in both columns: on one machine's store, and on that of many.

Their bodies are the same. A test of these modules is left out only where it looks into SQLite.
"""

from __future__ import annotations

BOTH = frozenset(
    {
        "tests.scenario.test_ingest",
        "tests.scenario.test_retrieve",
        "tests.scenario.test_reading",
        "tests.scenario.test_reanchoring",
        "tests.scenario.test_generations",
        "tests.scenario.test_query_cache",
        "tests.scenario.test_verify_and_repair",
        "tests.scenario.test_selection",
        "tests.scenario.test_retrieval_status",
        "tests.unit.test_word_counts",
        "tests.unit.test_jobs",
    }
)

ONE = frozenset(
    {
        "test_only_the_last_lines_and_jobs_are_kept",
    }
)
"""Tests of these modules that reach into the one adapter."""


def columns_of(module: str, test: str) -> tuple[str, ...]:
    """Return the stores that a test runs on."""
    return ("sqlite", "postgres") if module in BOTH and test not in ONE else ()
