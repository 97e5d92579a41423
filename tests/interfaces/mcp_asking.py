"""Every MCP request over HTTP, without sessions."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from tests.interfaces.http_client import Client, Response
from tests.interfaces.mcp_clients import HELLO
from truespan.extensions.server.mcp.tools import OWNER_ROLE, READER_ROLE

HEADERS = [
    ("accept", "application/json, text/event-stream"),
    ("content-type", "application/json"),
    ("mcp-protocol-version", str(HELLO["protocolVersion"])),
]


@dataclass(frozen=True)
class Message:
    """One request of the protocol, sent to one address."""

    path: str
    method: str
    params: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.path} {self.method} {self.params.get('name', '')}"

    def sent(self, client: Client, token: str | None) -> Response:
        body = {"jsonrpc": "2.0", "id": 1, "method": self.method, "params": self.params}
        content = json.dumps(body).encode()
        return client.send("POST", self.path, token=token, headers=HEADERS, body=content)

    def names(self, secret: bytes) -> bool:
        """Return whether the message contains a name, which a reply may then repeat."""
        spelled = self.path + json.dumps(self.params)
        return secret.decode() in spelled or quote(secret) in spelled


def result_of(response: Response) -> Any:
    """Return the result or error of a reply, which may be an event."""
    if response.header("content-type") == "text/event-stream":
        lines = [line[6:] for line in response.body.decode().splitlines() if line[:7] == "data: {"]
        return json.loads(lines[-1])
    return response.content


def addresses(world: str, reader: str) -> list[str]:
    spelled, name = quote(world, safe=""), quote(reader, safe="")
    return ["/mcp", f"/mcp/{spelled}", f"/mcp/{spelled}/{name}"]


def messages(paths: list[str], query: str, book: str, document: str) -> Iterator[Message]:
    """Yield every request of the protocol, with these names in every place."""
    tools = {tool.name: tool for role in (READER_ROLE, OWNER_ROLE) for tool in role.tools}
    given = {"query": query, "book": book, "language": None}
    for path in paths:
        yield Message(path, "initialize", HELLO)
        for method in ("tools/list", "resources/list", "resources/templates/list"):
            yield Message(path, method, {})
        for name, tool in tools.items():
            known = tool.arguments.__struct_fields__
            arguments = {key: value for key, value in given.items() if key in known}
            yield Message(path, "tools/call", {"name": name, "arguments": arguments})
            if "mode" in known:
                by_words = arguments | {"mode": "hybrid"}
                yield Message(path, "tools/call", {"name": name, "arguments": by_words})
            yield Message(path, "tools/call", {"name": name, "arguments": {"position": 999}})
        for uri in uris(book, document):
            yield Message(path, "resources/read", {"uri": uri})
        yield Message(path, "nonsense", {})


def uris(book: str, document: str) -> list[str]:
    names = [quote(name, safe="") for name in (book, document, "1", "2")]
    known = [f"truespan://documents/{name}" for name in names]
    return [*known, *(f"{one}/sentences/0-999" for one in known), "truespan://x", "file:///etc"]
