"""Types of HTTP and MCP that share a name are the same type."""

from __future__ import annotations

import inspect
from types import ModuleType

from truespan.http import schemas
from truespan.mcp import caller, resources, tools, writing


def own_classes(module: ModuleType) -> set[str]:
    return {
        name
        for name, found in inspect.getmembers(module, inspect.isclass)
        if found.__module__ == module.__name__
    }


def test_http_and_mcp_types_have_different_names() -> None:
    assert own_classes(schemas)
    assert own_classes(tools)
    for module in (caller, resources, tools, writing):
        assert not own_classes(schemas) & own_classes(module)
