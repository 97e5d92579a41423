"""Tests that run on both stores, SQLite and PostgreSQL.

Their bodies are the same. A test of these modules is left out only where it looks into SQLite.
"""

import sys
from collections.abc import Mapping
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

from tests.support import worlds

BOTH = frozenset(
    {
        "tests.scenario.test_backup_columns", "tests.scenario.test_ingest",
        "tests.scenario.test_retrieve", "tests.scenario.test_reading",
        "tests.scenario.test_reanchoring", "tests.scenario.test_generations",
        "tests.scenario.test_query_cache", "tests.scenario.test_verify_and_repair",
        "tests.scenario.test_selection", "tests.scenario.test_retrieval_status",
        "tests.laws.test_audience_non_interference", "tests.scenario.test_audience_carried",
        "tests.interfaces.test_audience_twins", "tests.unit.test_word_counts",
        "tests.unit.test_jobs",
    }
)  # fmt: skip

ONE = frozenset(
    {
        "test_only_the_last_lines_and_jobs_are_kept", "test_bytes_that_are_not_text_are_damage",
        "test_looking_up_a_job_reads_one_job", "test_wrong_tally_is_found_alone_and_recounted",
        "test_point_claimed_after_the_plan_is_not_deleted",
        "test_revocation_applies_at_once_in_another_process",
        "test_secret_is_in_no_file_record_log_or_error", "test_a_restored_library_has_no_tokens",
        "test_full_disk_does_not_prevent_another_request",
        "test_full_disk_does_not_prevent_deletion", "test_redacted_values_reach_nothing",
        "test_database_with_broken_references_is_a_problem",
        "test_database_with_broken_pages_is_a_problem",
        "test_copy_in_postgresql_and_back_has_the_same_audiences",
        "test_missing_key_sends_and_changes_nothing",
        "test_denied_key_changes_nothing_in_the_store",
        "test_switching_the_sanitizer_on_covers_existing_documents",
        "test_backup_during_writes_is_one_state_of_the_library",
        "test_damaged_place_of_a_sentence_is_not_shown",
        "test_deleted_conversation_leaves_only_a_receipt",
        "test_damaged_turn_is_named_and_never_used",
        "test_damaged_conversation_can_only_be_deleted", "test_damaged_job_is_listed_as_failed",
        "test_no_statement_reads_the_states_of_a_whole_world",
        "test_owners_of_a_few_paths_are_found_by_path",
        "test_counted_words_are_looked_up_for_single_documents",
    }
)  # fmt: skip
"""Tests that speak to SQLite, or look into its file."""

ONE_ROW = frozenset(
    {
        "test_hidden_documents_change_no_reply",
        "test_position_follows_the_last_read_sentence_that_remains",
        "test_status_is_the_first_that_applies",
        "test_retrieval_floor_is_three_tenths_inclusive",
        "test_partly_read_chunk_shows_and_scores_read_sentences",
        "test_chunk_with_one_read_sentence_shows_that_sentence",
        "test_entry_is_used_while_strictly_younger_than_a_day",
        "test_selection_is_found_despite_spaces_quotes_and_dashes",
        "test_selection_that_occurs_nowhere_has_no_place",
        "test_truncated_backup_is_refused_and_creates_nothing",
        "test_restored_library_has_the_same_audiences",
    }
)
"""Tests whose rows differ in texts and numbers only: PostgreSQL runs the first row of each."""


def is_repeated(test: str, values: Mapping[str, Any], seen: set[str]) -> bool:
    """Return whether a row on PostgreSQL repeats what another row proves.

    The statements are the same on both stores and under both defaults. So all rows run on SQLite,
    and PostgreSQL runs with the defaults that users get. `make test-postgres` runs all of them.
    """
    if values.get("_stores") != "postgres":
        return False
    if values.get("_defaults", "recommended") != "recommended":
        return True
    if test not in ONE_ROW:
        return False
    repeated = test in seen
    seen.add(test)
    return repeated


def columns_of(module: str, test: str) -> tuple[str, ...]:
    """Return the stores that a test runs on, if it is for more than one."""
    return ("sqlite", "postgres") if module in BOTH and test not in ONE else ()


@cache
def opens_libraries(module: ModuleType) -> bool:
    """Return whether a module of tests uses, directly or not, a store that `--store` chooses.

    The other tests are the same on every store.
    """
    own = {worlds.make_library, worlds.store_in, worlds.PreparedLibrary}
    for value in vars(module).values():
        if value is worlds or (isinstance(value, type | FunctionType) and value in own):
            return True
        origin = _module_of(value)
        if origin is not None and origin not in (module, worlds) and opens_libraries(origin):
            return True
    return False


def _module_of(value: object) -> ModuleType | None:
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return sys.modules.get(name) if isinstance(name, str) and name.startswith("tests.") else None
