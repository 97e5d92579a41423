"""A word that two doors use means one thing at both."""

from __future__ import annotations

import inspect
from types import ModuleType

from truespan.http import schemas as shapes
from truespan.mcp import resources
from truespan.mcp import tools as plain


def own_classes(module: ModuleType) -> set[str]:
    return {
        name
        for name, found in inspect.getmembers(module, inspect.isclass)
        if found.__module__ == module.__name__
    }


def test_http_and_mcp_give_no_two_shapes_one_name() -> None:
    assert own_classes(shapes)
    assert own_classes(plain)
    assert not own_classes(shapes) & (own_classes(plain) | own_classes(resources))
