"""The parts of the MCP SDK that the servers use, loaded without the rest.

The SDK's packages import its client, its framework for servers and two HTTP stacks. Here the code
of these packages runs only when one of their names is used, so that the modules inside can be
imported alone: in 0.66 s of CPU instead of 0.96 s, before a client gets its first reply. If a later
SDK needs those names, everything is loaded as usual.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any


class _Package(ModuleType):
    """A package that runs its own code when a name that it does not have yet is first used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or self.__spec__ is None or self.__spec__.loader is None:
            raise AttributeError(name)
        self.__class__ = ModuleType  # pyright: ignore[reportAttributeAccessIssue]
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def _defer_packages() -> None:
    for name in ("mcp", "mcp.server"):
        spec = None if name in sys.modules else find_spec(name)
        if spec is not None:
            module = module_from_spec(spec)
            module.__class__ = _Package
            sys.modules[name] = module
            parent, _, own = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], own, module)


def _defer_models() -> None:
    """Let the models of each protocol version be built when a message first needs them."""
    with suppress(ImportError, AttributeError):
        from mcp_types._wire_base import WireModel

        WireModel.model_config["defer_build"] = True


@contextmanager
def _without_uvicorn() -> Iterator[None]:
    """Keep imports from loading uvicorn, unless it is loaded: a process without a web server has no
    streams to end when such a server stops."""
    if "uvicorn" in sys.modules:
        yield
        return
    sys.modules["uvicorn"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["uvicorn"]


_defer_packages()
_defer_models()

with _without_uvicorn():
    import mcp.types as types
    from mcp.server.lowlevel import Server
    from mcp.shared.exceptions import MCPError
    from mcp.shared.message import SessionMessage

__all__ = ["MCPError", "Server", "SessionMessage", "types"]
