"""Reference tables match the code: calls with their arguments, tables of settings, receipts."""

import re

import pytest
from msgspec.structs import fields
from tools.reference import PARTS, fill

import truespan
from tests.support.docs_reader import DOCS, sections_of, table_rows
from truespan.ingest.embed import OnTokenLimit
from truespan.maintenance.delete import Receipt
from truespan.settings.catalogue import choices
from truespan.settings.tables import embedding_fields


@pytest.mark.parametrize("part", PARTS)
def test_generated_part_of_a_page_is_current(part: str) -> None:
    page, text = fill(part)
    assert page.read_text("utf-8") == text, "run 'make reference'"


def test_generated_parts_list_known_names() -> None:
    for part, names in {
        "commands": ["### search", "### jobs resume", "`--library`, `-L`"],
        "settings": [
            "- `source_max_mib=512` (from 1): ",
            "- `log_format=text` (`text`, `json`): ",
        ],
        "errors": [
            "- `world_busy`, `Conflict` (409): A world",
            "- `damage`, `DamageError` (500): ",
        ],
        "calls": ["/search` ([SearchArguments](#bodies), ", "- `SearchArguments`: **`query`**, "],
        "library": ["### World\n", "- `why_not(chunk_id, query, "],
    }.items():
        text = fill(part)[1]
        assert [name for name in names if name not in text] == []


def test_package_defines_every_name_that_it_lists() -> None:
    assert [name for name in truespan.__all__ if not hasattr(truespan, name)] == []


def test_settings_page_lists_the_members_of_each_provider_table() -> None:
    rows = table_rows(sections_of(DOCS / "settings.md")["Additional embedding models"])
    assert {row[0]: set(re.findall(r"\w+", row[1])) for row in rows} == {
        provider: set(embedding_fields(provider)) for provider in choices("embedding_provider")
    }


def test_the_deletion_page_lists_every_field_of_the_receipt() -> None:
    rows = table_rows(sections_of(DOCS / "maintenance.md")["The receipt"])
    listed = [name for row in rows for name in re.findall(r"\w+", row[0])]
    assert listed == [entry.name for entry in fields(Receipt)]


def test_provider_page_lists_choices_for_long_texts() -> None:
    rows = table_rows(sections_of(DOCS / "providers.md")["Long texts"])
    assert [row[0] for row in rows] == [choice.value for choice in OnTokenLimit]
