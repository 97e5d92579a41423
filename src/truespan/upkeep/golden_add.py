"""Keeping a good answer as a golden query: one more entry in a file that people edit too."""

from __future__ import annotations

from collections.abc import Sequence

from truespan.errors import InvalidSettings
from truespan.upkeep.golden import GoldenQuery, golden_entry, golden_line, named, parse_golden
from truespan.upkeep.metrics import same_text


def is_yaml(name: str) -> bool:
    """Say whether a file of golden queries is YAML and not JSON Lines."""
    return name.lower().endswith((".yaml", ".yml"))


def checked_golden(name: str, query: GoldenQuery) -> GoldenQuery:
    """Return a query with an id, held to all that an entry of a file is held to.

    Raises:
        GoldenInvalid: it cannot be a golden query.
        InvalidSettings: the name is not that of a file of golden queries.
    """
    return parse_golden(name, _spelled(name, named(query)))[0]


def with_golden(name: str, content: bytes, query: GoldenQuery) -> bytes:
    """Return a file's bytes with one more query at the end; what was there stays as it is.

    Raises:
        GoldenInvalid: the file is not valid as it stands.
        InvalidSettings: it has the query already.
    """
    there = parse_golden(name, content) if content.strip() else ()
    _refuse_again(there, query)
    glue = b"" if not content or content.endswith(b"\n") else b"\n"
    return content + glue + _spelled(name, query)


def _spelled(name: str, query: GoldenQuery) -> bytes:
    return (golden_entry(query) if is_yaml(name) else golden_line(query)).encode()


def _refuse_again(there: Sequence[GoldenQuery], query: GoldenQuery) -> None:
    def asked(one: GoldenQuery) -> tuple[object, ...]:
        return same_text(one.query), one.top_k, one.filters

    for one in there:
        if one.id == query.id or asked(one) == asked(query):
            raise InvalidSettings(
                f"The file asks this already, as {one.id}.",
                advice="Change that entry, or give this one another id and question.",
            )
