"""Find the application of a path: each segment is looked up, instead of matching every route."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from starlette.types import ASGIApp, Receive, Scope, Send


class _Node(Struct):
    """What may follow a part of a path."""

    literals: dict[str, _Node] = field(default_factory=dict)
    parameter: _Node | None = None
    """After a segment that is a value, such as the name of a world."""
    rest: _Leaf | None = None
    """If everything that follows is one value, which may contain slashes."""
    leaf: _Leaf | None = None


class _Leaf(Struct, frozen=True):
    app: ASGIApp
    names: tuple[str, ...]
    """The names of the path's values, in order."""


class PathRouter:
    """Calls the application of a request's path, with the path's values in its scope.

    A path is written like `/v1/worlds/{world}/images/{image_ref:path}`; only its last segment can
    take the rest of a path. A segment that is spelled out wins over a value.
    """

    def __init__(self, apps: Mapping[str, ASGIApp], not_found: ASGIApp, lifespan: ASGIApp) -> None:
        self._root = _Node()
        self._not_found = not_found
        self._lifespan = lifespan
        for path, app in apps.items():
            self._add(path, app)

    def _add(self, path: str, app: ASGIApp) -> None:
        node, names = self._root, list[str]()
        for segment in path.removeprefix("/").split("/"):
            if not segment.startswith("{"):
                node = node.literals.setdefault(segment, _Node())
                continue
            name, _, kind = segment.strip("{}").partition(":")
            names.append(name)
            if kind:
                node.rest = _Leaf(app, tuple(names))
                return
            node.parameter = node.parameter or _Node()
            node = node.parameter
        node.leaf = _Leaf(app, tuple(names))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._lifespan(scope, receive, send)
            return
        values: list[str] = []
        found = _find(self._root, scope["path"].removeprefix("/").split("/"), values)
        if found is None:
            await self._not_found(scope, receive, send)
            return
        scope["path_params"] = dict(zip(found.names, values, strict=True))
        await found.app(scope, receive, send)


def _find(node: _Node, segments: list[str], values: list[str]) -> _Leaf | None:
    """Return what the remaining segments lead to, and add their values."""
    if not segments:
        return node.leaf
    first, rest = segments[0], segments[1:]
    literal = node.literals.get(first)
    if literal is not None and (found := _find(literal, rest, values)) is not None:
        return found
    if node.parameter is not None and first:
        values.append(first)
        if (found := _find(node.parameter, rest, values)) is not None:
            return found
        values.pop()
    if node.rest is not None:
        values.append("/".join(segments))
    return node.rest
