"""`help` lists every argument of the public methods with its meaning."""

import inspect
import re
from typing import Any

import pytest
from msgspec.structs import fields

import truespan
from truespan.engine.conversations import Conversation
from truespan.engine.documents import Documents
from truespan.engine.library import Library
from truespan.engine.reader import Reader
from truespan.engine.tokens import AccessTokens
from truespan.engine.world import World
from truespan.engine.world_jobs import WorldJobs
from truespan.extensions.quality.generations import Generations
from truespan.extensions.quality.world import WorldEvaluation
from truespan.types.request import (
    FILTER_NAMES,
    PassageArguments,
    ReadingRequest,
    RetrievalRequest,
    SearchRequest,
)

CLASSES = (
    *(Library, World, Reader, Documents, Generations, Conversation),
    *(WorldEvaluation, WorldJobs, AccessTokens),
)


def undescribed(owner: Any, name: str) -> list[str]:
    """Return the arguments of a function that its docstring does not describe."""
    member: Any = inspect.getattr_static(owner, name)
    if not callable(member):
        return []
    names = [each for each in inspect.signature(member).parameters if each != "self"]
    described = re.findall(r"^    (\w+): \S", inspect.getdoc(member) or "", re.MULTILINE)
    return [each for each in names if each not in described]


@pytest.mark.parametrize("kind", CLASSES)
def test_help_describes_every_argument(kind: type) -> None:
    public = [name for name in dir(kind) if not name.startswith("_")]
    found = {name: missing for name in public if (missing := undescribed(kind, name))}
    assert found == {}
    methods = [name for name in public if callable(getattr(kind, name))]
    assert [name for name in methods if not inspect.getdoc(getattr(kind, name))] == []


def test_help_describes_functions_filters_and_passage_options() -> None:
    for name in ("open", "restore", "verify_backup"):
        assert undescribed(truespan, name) == [], name
    names = list(inspect.signature(World.search).parameters)
    assert {*FILTER_NAMES, *PassageArguments.__annotations__} < set(names)
    assert "Returns:" in (World.search.__doc__ or "")
    assert "Raises:" in (World.search.__doc__ or "")


@pytest.mark.parametrize(("method", "request_type"), [
    (World.search, SearchRequest), (World.retrieve, RetrievalRequest),
    (Reader.retrieve, ReadingRequest),
])  # fmt: skip
def test_help_shows_the_defaults_of_requests(method: Any, request_type: Any) -> None:
    shown = {name: each.default for name, each in inspect.signature(method).parameters.items()}
    defaults = {entry.name: entry.default for entry in fields(request_type)}
    filters, passages = defaults.pop("filters", None), defaults.pop("passages")
    defaults |= {name: getattr(passages, name) for name in PassageArguments.__annotations__}
    defaults |= {name: getattr(filters, name) for name in FILTER_NAMES} if filters else {}
    del defaults["query"]
    defaults.pop("by_default", None)
    if filters:
        defaults["metadata"] = None
    assert {name: shown[name] for name in defaults} == defaults
