"""An embedding server that speaks OpenAI's protocol and takes its time: for `bench.workers`.

    python -m bench.slow_provider SECONDS

Each request takes the same time, for any size and number of requests at once, as with a provider
that has machines enough. `GET /asked` returns their number. Vectors follow from the texts.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from typing import Any

import msgspec
import uvicorn

from bench.synthetic import SyntheticEmbedder
from truespan.types.vectors import numbers_of

MODEL = "slow"


class Provider:
    """Answers after a while."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._embedder = SyntheticEmbedder()
        self._asked = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        body = b""
        while (part := await receive()).get("more_body"):
            body += part["body"]
        body += part["body"]
        if scope["method"] == "GET":
            await _send(send, {"asked": self._asked})
            return
        self._asked += 1
        loop = asyncio.get_running_loop()
        until = loop.time() + self._seconds
        reply = self._reply(msgspec.json.decode(body)["input"])
        await asyncio.sleep(until - loop.time())
        await _send(send, reply)

    def _reply(self, texts: list[str]) -> dict[str, Any]:
        vectors = [numbers_of(vector).tolist() for vector in self._embedder.embed_documents(texts)]
        entries = [{"index": index, "embedding": one} for index, one in enumerate(vectors)]
        return {"object": "list", "model": MODEL, "data": entries}


async def _send(send: Any, content: object) -> None:
    body = msgspec.json.encode(content)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def main() -> None:
    """Serve until a signal comes."""
    provider = Provider(float(sys.argv[1]))
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(json.dumps({"address": f"http://127.0.0.1:{listener.getsockname()[1]}/"}), flush=True)
    config = uvicorn.Config(provider, log_config=None, lifespan="off", access_log=False)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
