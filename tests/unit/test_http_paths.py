"""The router leads each path to the application of its pattern, with the path's values."""

from __future__ import annotations

import asyncio
from typing import Any

from truespan.http.paths import PathRouter

PATTERNS = (
    "/",
    "/chat",
    "/v1/worlds",
    "/v1/worlds/{world}",
    "/v1/worlds/{world}/generations/rollback",
    "/v1/worlds/{world}/generations/{generation}/promote",
    "/v1/worlds/{world}/images/{image_ref:path}",
    "/page/{name:path}",
)


def test_each_path_leads_to_its_pattern_and_values() -> None:
    reached: list[Any] = []

    def app(pattern: str) -> Any:
        async def called(scope: Any, _receive: Any, _send: Any) -> None:
            reached.append((pattern, scope.get("path_params")))

        return called

    router: Any = PathRouter(
        {pattern: app(pattern) for pattern in PATTERNS}, app("not found"), app("lifespan")
    )
    rows = [
        ("/", "/", {}),
        ("/chat", "/chat", {}),
        ("/v1/worlds", "/v1/worlds", {}),
        ("/v1/worlds/a", "/v1/worlds/{world}", {"world": "a"}),
        ("/v1/worlds/a%2Fb", "/v1/worlds/{world}", {"world": "a%2Fb"}),
        ("/v1/worlds/generations/generations/rollback", PATTERNS[4], {"world": "generations"}),
        (
            "/v1/worlds/a/generations/rollback/promote",
            PATTERNS[5],
            {"world": "a", "generation": "rollback"},
        ),
        ("/v1/worlds/a/images/b/c", PATTERNS[6], {"world": "a", "image_ref": "b/c"}),
        ("/v1/worlds/a/images/", PATTERNS[6], {"world": "a", "image_ref": ""}),
        ("/page/", PATTERNS[7], {"name": ""}),
    ]
    missing = ("", "//", "/v1", "/v1/", "/v1/worlds/", "/v1/worlds//images/a", "/page", "/chat/")
    rows += [(path, "not found", None) for path in missing if path]

    for path, *_ in rows:
        asyncio.run(router({"type": "http", "path": path}, None, None))
    asyncio.run(router({"type": "lifespan"}, None, None))

    assert reached == [(pattern, values) for _, pattern, values in rows] + [("lifespan", None)]
