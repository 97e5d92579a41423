"""Chat servers on the loopback: they speak the real protocols and can be broken."""

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.support.providers import openai
from tests.support.providers.clock import PassingClock
from tests.support.providers.cooldowns import MemoryCooldowns
from tests.support.providers.loopback import Answer, Asked, Loopback, Reaction
from truespan.providers.keys import KeyRing
from truespan.providers.ollama import OllamaChat
from truespan.providers.openai import OpenAiChat
from truespan.providers.outbound import Bounds
from truespan.types.token import ProviderKey, Secret

KEY = "sk-canary-7b21e0aa"
"""The key that is looked for everywhere it must not be."""
BOUNDS = Bounds(read_seconds=10.0, total_seconds=60.0, piece_seconds=10.0)
OPENAI_PATH, OLLAMA_PATH = "/v1/chat/completions", "/api/chat"
REPLY = ["The tide ", "comes in ", "twice a day. ", "Ebbe, Fluß, 潮 🌊"]


def compact(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode()


def chunked(pieces: Iterable[bytes], *, ended: bool = True) -> Iterator[bytes]:
    """Frame pieces as servers do that do not know the length of their reply."""
    for piece in pieces:
        if piece:
            yield b"%x\r\n%s\r\n" % (len(piece), piece)
    if ended:
        yield b"0\r\n\r\n"


@dataclass(eq=False)
class ChatServer(Loopback):
    """Replies with `reply` to every request to its one model."""

    model: str = "tide-teller"
    reply: list[str] = field(default_factory=lambda: list(REPLY))
    content_type = ""
    path = ""
    models_path = ""

    def __post_init__(self) -> None:
        self.ended = threading.Event()
        """Set when a reply is over, whether or not it came to its end."""
        super().__init__()

    # How the protocol spells it

    def piece(self, text: str) -> bytes:
        raise NotImplementedError

    def end(self, reason: str = "stop") -> bytes:
        raise NotImplementedError

    def trouble(self, words: str) -> bytes:
        """Return an error within a started reply."""
        raise NotImplementedError

    def complaint(self, status: int, words: str, **headers: str) -> Answer:
        raise NotImplementedError

    # What it does

    @property
    def questions(self) -> list[dict[str, Any]]:
        return [asked.content for asked in self.to(self.path)]

    def spoken(self, *texts: str) -> list[bytes]:
        return [self.piece(text) for text in texts]

    def whole(self) -> list[bytes]:
        return [*self.spoken(*self.reply), self.end()]

    def models(self) -> Any:
        raise NotImplementedError

    def answer(self, asked: Asked) -> Reaction:
        if (asked.method, asked.path) == ("GET", self.models_path):
            return Answer(200, self.models())
        if (asked.method, asked.path) != ("POST", self.path):
            return Answer(404, body=b"404 page not found", content_type="text/plain")
        if asked.content["model"] != self.model:
            return self.complaint(404, f"model '{asked.content['model']}' not found")
        return self.saying(self.whole())

    def saying(self, pieces: Iterable[bytes], *, ended: bool = True, **more: Any) -> Answer:
        """Return a reply in these pieces of a body."""
        given: dict[str, Any] = {
            "content_type": self.content_type,
            "headers": {"Transfer-Encoding": "chunked"},
        }
        return Answer(pieces=self._watched(chunked(pieces, ended=ended)), **given | more)

    def _watched(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        try:
            yield from pieces
        finally:
            self.ended.set()

    def reset(self) -> Iterator[bytes]:
        """Reset the connection in place of the next piece."""
        for connection in list(self._open):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            # The handler's own files hold it open, so it is let go of underneath them.
            socket.close(connection.detach())
        raise ConnectionResetError
        yield b""


class OpenAiChatServer(ChatServer):
    """A server for OpenAI's `/v1/chat/completions`, including events without content."""

    content_type = "text/event-stream; charset=utf-8"
    path = OPENAI_PATH
    models_path = "/v1/models"

    @property
    def base(self) -> str:
        return f"{self.url}/v1"

    def models(self) -> Any:
        return {"object": "list", "data": [{"id": self.model, "object": "model"}]}

    def event(self, content: Any) -> bytes:
        return b"data: " + compact(content) + b"\n\n"

    def chunk(self, *choices: dict[str, Any], **more: Any) -> bytes:
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1}
        return self.event(head | {"model": self.model, "choices": list(choices)} | more)

    def piece(self, text: str) -> bytes:
        return self.chunk({"index": 0, "delta": {"content": text}, "finish_reason": None})

    def end(self, reason: str = "stop") -> bytes:
        last = self.chunk({"index": 0, "delta": {}, "finish_reason": reason})
        usage = self.chunk(usage={"prompt_tokens": 9, "completion_tokens": 4})
        return last + usage + b"data: [DONE]\n\n"

    def whole(self) -> list[bytes]:
        role = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
        return [b": ping\n\n", self.chunk(), self.chunk(role), *super().whole()]

    def trouble(self, words: str) -> bytes:
        return self.event({"error": {"message": words, "type": "server_error", "code": None}})

    def complaint(self, status: int, words: str, **headers: str) -> Answer:
        return openai.complaint(status, words, **headers)


class OllamaChatServer(ChatServer):
    """A server for Ollama's `/api/chat`."""

    content_type = "application/x-ndjson"
    path = OLLAMA_PATH
    models_path = "/api/tags"

    @property
    def base(self) -> str:
        return self.url

    def models(self) -> Any:
        return {"models": [{"name": self.model, "digest": "0" * 64}]}

    def line(self, **content: Any) -> bytes:
        head = {"model": self.model, "created_at": "2026-01-01T00:00:00Z"}
        return compact(head | content) + b"\n"

    def piece(self, text: str, **more: str) -> bytes:
        return self.line(message={"role": "assistant", "content": text} | more, done=False)

    def end(self, reason: str = "stop") -> bytes:
        counts = {"total_duration": 1, "prompt_eval_count": 9, "eval_count": 4}
        message = {"role": "assistant", "content": ""}
        return self.line(message=message, done=True, done_reason=reason, **counts)

    def trouble(self, words: str) -> bytes:
        return compact({"error": words}) + b"\n"

    def complaint(self, status: int, words: str, **headers: str) -> Answer:
        return Answer(status, {"error": words}, headers)


def ring(*texts: str, clock: Any = None) -> KeyRing:
    """Return a ring of keys named a, b, c and so on."""
    keys = [
        ProviderKey("openai", chr(ord("a") + place), Secret(text))
        for place, text in enumerate(texts)
    ]
    return KeyRing("openai", keys, MemoryCooldowns(), clock or PassingClock())


def openai_chat(server: OpenAiChatServer, **changes: Any) -> OpenAiChat:
    clock = changes.get("clock") or PassingClock()
    given: dict[str, Any] = {"clock": clock, "keys": ring(KEY, clock=clock), "bounds": BOUNDS}
    return OpenAiChat(server.base, changes.pop("model", server.model), **given | changes)


def ollama_chat(server: OllamaChatServer, **changes: Any) -> OllamaChat:
    given: dict[str, Any] = {"clock": PassingClock(), "bounds": BOUNDS}
    return OllamaChat(server.base, changes.pop("model", server.model), **given | changes)


@dataclass(frozen=True)
class Tongue:
    """One of the protocols: its server, and a model that uses it."""

    name: str
    start: Callable[[], Any]
    model: Callable[..., Any]

    def __str__(self) -> str:
        return self.name


TONGUES = (
    Tongue("openai", OpenAiChatServer, openai_chat),
    Tongue("ollama", OllamaChatServer, ollama_chat),
)
