"""The router leads each path to the application of its pattern, with the path's values."""

import asyncio
from typing import Any

from truespan.extensions.server.http.app import make_router

PATTERNS = (
    "/", "/chat", "/v1/worlds", "/v1/worlds/{world}", "/v1/worlds/{world}/generations/latest",
    "/v1/worlds/{world}/generations/{generation}/promote",
    "/v1/worlds/{world}/images/{image_ref:path}", "/page/{name:path}",
)  # fmt: skip


def test_router_leads_each_path_to_its_pattern() -> None:
    reached: list[Any] = []

    class App:
        def __init__(self, pattern: str) -> None:
            self.pattern = pattern

        async def __call__(self, scope: Any, _receive: Any, _send: Any) -> None:
            reached.append((self.pattern, scope.get("path_params")))

    router: Any = make_router({pattern: App(pattern) for pattern in PATTERNS}, App("not found"))
    rows = [
        ("/", "/", {}),
        ("/chat", "/chat", {}),
        ("/v1/worlds", "/v1/worlds", {}),
        ("/v1/worlds/a", "/v1/worlds/{world}", {"world": "a"}),
        ("/v1/worlds/a%2Fb", "/v1/worlds/{world}", {"world": "a%2Fb"}),
        ("/v1/worlds/generations/generations/latest", PATTERNS[4], {"world": "generations"}),
        (
            "/v1/worlds/a/generations/latest/promote",
            PATTERNS[5],
            {"world": "a", "generation": "latest"},
        ),
        ("/v1/worlds/a/images/b/c", PATTERNS[6], {"world": "a", "image_ref": "b/c"}),
        ("/v1/worlds/a/images/", PATTERNS[6], {"world": "a", "image_ref": ""}),
        ("/page/", PATTERNS[7], {"name": ""}),
    ]
    missing = ("", "//", "/v1", "/v1/", "/v1/worlds/", "/v1/worlds//images/a", "/page", "/chat/")
    rows += [(path, "not found", None) for path in missing if path]

    for path, *_ in rows:
        asyncio.run(router({"type": "http", "path": path, "method": "GET"}, None, None))

    assert reached == [(pattern, values) for _, pattern, values in rows]
