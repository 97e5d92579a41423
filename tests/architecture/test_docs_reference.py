"""Reference tables match the code: calls with their arguments, tables of settings, receipts."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
from msgspec.structs import fields

import truespan
from tests.support.docs_reader import DOCS, sections_of, table_rows
from truespan.engine.documents import Documents
from truespan.engine.evaluation import WorldEvaluation
from truespan.engine.generations import Generations
from truespan.engine.library import Library
from truespan.engine.reader import Reader
from truespan.engine.tokens import AccessTokens
from truespan.engine.world import World
from truespan.maintenance.delete import Receipt
from truespan.settings.tables import EMBEDDING_FIELDS
from truespan.types.request import FILTER_NAMES, PassageArguments, QueryArguments
from truespan.types.source import DocumentArguments, IngestArguments, LabelArguments

GATHERED = {
    DocumentArguments: [DocumentArguments.__annotations__],
    IngestArguments: [IngestArguments.__annotations__],
    LabelArguments: [LabelArguments.__annotations__],
    PassageArguments: [PassageArguments.__annotations__],
    QueryArguments: [PassageArguments.__annotations__, FILTER_NAMES],
}
"""The names behind keyword arguments that are gathered into one, as the page lists them."""


@pytest.mark.parametrize(
    "kind", [Library, World, Documents, WorldEvaluation, Reader, Generations, AccessTokens]
)
def test_the_library_page_lists_everything_that_can_be_called(kind: Any) -> None:
    rows = table_rows(sections_of(DOCS / "library.md")[kind.__name__])

    assert [row[0] for row in rows] == sorted(name for name in dir(kind) if name[0] != "_")
    for name, arguments, _ in rows:
        assert re.findall(r"\w+", arguments) == arguments_of(getattr(kind, name))


def test_the_library_page_lists_every_argument_of_the_package_functions() -> None:
    rows = table_rows(sections_of(DOCS / "library.md")["Functions of the package"])

    assert {row[0]: re.findall(r"\w+", row[1]) for row in rows} == {
        name: arguments_of(getattr(truespan, name))
        for name in ("migrate", "open", "prepare_store", "restore", "verify_backup")
    }


def test_the_package_has_every_name_that_it_lists() -> None:
    assert [name for name in truespan.__all__ if not hasattr(truespan, name)] == []


def arguments_of(member: Any) -> list[str]:
    """Return the names of the arguments; a property has none."""
    if not callable(member):
        return []
    names = [name for name in inspect.signature(member).parameters if name != "self"]
    if "filters" in names:
        names[names.index("filters") :] = FILTER_NAMES
    for gathered in {"options", "arguments", "changes"}.intersection(names):
        annotation = inspect.signature(member).parameters[gathered].annotation
        [kind] = [kind for kind in GATHERED if f"[{kind.__name__}]" in annotation]
        names[names.index(gathered) :] = [name for one in GATHERED[kind] for name in one]
    return names


def test_the_settings_page_lists_what_a_table_may_say_of_each_provider() -> None:
    rows = table_rows(sections_of(DOCS / "settings.md")["Additional embedding models"])

    assert {row[0]: set(re.findall(r"\w+", row[1])) for row in rows} == {
        provider: set(members) for provider, members in EMBEDDING_FIELDS.items()
    }


def test_the_deletion_page_lists_every_field_of_the_receipt() -> None:
    rows = table_rows(sections_of(DOCS / "maintenance.md")["The receipt"])

    listed = [name for row in rows for name in re.findall(r"\w+", row[0])]
    assert listed == [entry.name for entry in fields(Receipt)]
