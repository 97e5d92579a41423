"""A reading companion over MCP: what a model gets to see before and after a chapter is read.

It starts `truespan mcp` as a desktop assistant does and calls its tools; no chat model is needed.
Pass the folder of a library, which is created if needed:

    python examples/reading_companion.py my-library
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters, stdio_client

import truespan

BOOK = Path(__file__).with_name("the-glass-ferry.md")
QUESTION = "Who killed Mr. Vayle?"
SYSTEM = """You are a reading companion. Answer from the passages below and from nothing else, and
cite their sentences. If they do not answer the question, say so. Never hint at what comes later."""


class Companion:
    """A reader's session with the server, and the prompts it makes for a chat model."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def call(self, tool: str, **arguments: Any) -> str:
        """Call a tool and return the text that a model sees."""
        result = await self._client.call_tool(tool, arguments)
        return "\n\n".join(block.text for block in result.content if block.type == "text")

    async def hear(self, said: str) -> str:
        """React to what the reader says: a chapter that was finished, or a question."""
        words = said.rstrip(".!").split()
        if words[:3] == ["I", "finished", "chapter"]:
            return await self.call("set_position", through_chapter=words[-1])
        passages = await self.call("retrieve_context", query=said, top_k=3, max_tokens=600)
        # This is what you send to the chat model of your choice.
        return f"{SYSTEM}\n\n{passages}\n\nThe question: {said}"


async def talk(folder: str) -> None:
    """Let Ada read two chapters and ask after each."""
    place = ["-L", folder, "-w", "mysteries"]
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "truespan", "mcp", *place, "--reader", "ada", "--may", "move"],
    )
    async with Client(stdio_client(server)) as client:
        companion = Companion(client)
        print(f"Tools: {', '.join(tool.name for tool in (await client.list_tools()).tools)}\n")
        print(await companion.call("set_position", book=BOOK.name, sentence=-1), end="\n\n")
        for said in (QUESTION, "I finished chapter 1.", QUESTION, "I finished chapter 2."):
            print(f"Ada: {said}\n\n{await companion.hear(said)}\n")
        print(await companion.call("list_books"))


def main(folder: str) -> None:
    """Prepare the library as its owner, then talk as the reader."""
    with truespan.open(folder, create=True) as library:
        world = library.world("mysteries", create=True)
        world.ingest(BOOK, kind="book", title="The Glass Ferry")
    asyncio.run(talk(folder))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "examples/demo-library")
