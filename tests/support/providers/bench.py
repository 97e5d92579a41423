"""A library on one of the loopback providers, with one fault at a time."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.providers import google, openai
from tests.support.providers.clock import PassingClock
from tests.support.providers.cooldowns import MemoryCooldowns
from tests.support.providers.embedders import make_embedder
from tests.support.providers.google import Google
from tests.support.providers.loopback import Answer, Asked, Loopback, Reaction
from tests.support.providers.ollama import DEFAULT_MODEL, Ollama
from tests.support.providers.openai import OpenAi
from tests.support.worlds import LibraryFixture, MemoryIndex, WordCounter, make_library
from truespan.engine.world import World
from truespan.extensions.models.google import GoogleEmbedder
from truespan.providers.keys import KeyRing
from truespan.providers.ollama import OllamaEmbedder
from truespan.providers.openai import OpenAiEmbedder
from truespan.providers.outbound import Bounds
from truespan.types.token import ProviderKey, Secret

KEY = "sk-canary-4f1d9c7e"
"""The key that is looked for everywhere it must not be."""
BOUNDS = Bounds(total_seconds=20.0, body_bytes=16 << 20)
TIGHT = replace(BOUNDS, read_seconds=0.2)
"""For faults that are noticed by nothing happening."""


class TickingClock(PassingClock):
    """A clock that advances a little at every call, once enabled."""

    tick = 0.0

    def monotonic(self) -> float:
        self.time += self.tick
        return self.time


@dataclass(frozen=True)
class Speaker:
    """The protocol of one provider."""

    name: str
    start: Callable[[], Any]
    embedder: Callable[[Any, TickingClock], Any]
    path: str
    texts: Callable[[Any], list[str]]
    """The texts of a request that embeds."""
    vectors: Callable[[Any], list[Any]]
    """The vectors in the content of a reply."""
    content: Callable[[list[Any]], Any]
    """The content of a reply with these vectors."""
    complaint: Callable[[int, str], Answer]
    no_model: str
    keyed: bool = True

    def __str__(self) -> str:
        return self.name


def ring(provider: str, clock: TickingClock) -> KeyRing:
    return KeyRing(provider, [ProviderKey(provider, "main", Secret(KEY))], MemoryCooldowns(), clock)


def _ollama(server: Ollama, clock: TickingClock) -> OllamaEmbedder:
    return make_embedder(
        OllamaEmbedder,
        server.url,
        DEFAULT_MODEL,
        dimensions=None,
        counter=WordCounter(),
        clock=clock,
        in_flight=1,
        bounds=BOUNDS,
    )


def _openai(server: OpenAi, clock: TickingClock) -> OpenAiEmbedder:
    return make_embedder(
        OpenAiEmbedder,
        server.base,
        server.model,
        keys=ring("openai", clock),
        dimensions=None,
        counter=WordCounter(),
        clock=clock,
        in_flight=1,
        bounds=BOUNDS,
    )


def _google(server: Google, clock: TickingClock) -> GoogleEmbedder:
    return make_embedder(
        GoogleEmbedder,
        server.base,
        server.model,
        keys=ring("google", clock),
        dimensions=None,
        clock=clock,
        in_flight=1,
        bounds=BOUNDS,
    )


def _listed(vectors: list[Any]) -> list[dict[str, Any]]:
    return [{"index": place, "embedding": vector} for place, vector in enumerate(vectors)]


SPEAKERS = (
    Speaker(
        name="ollama",
        start=Ollama,
        embedder=_ollama,
        path="/api/embed",
        texts=lambda asked: [asked["input"]] if isinstance(asked["input"], str) else asked["input"],
        vectors=lambda content: content["embeddings"],
        content=lambda vectors: {"embeddings": vectors},
        complaint=lambda status, words: Answer(status, {"error": words}),
        no_model=f"model '{DEFAULT_MODEL}' not found",
        keyed=False,
    ),
    Speaker(
        name="openai",
        start=OpenAi,
        embedder=_openai,
        path=openai.PATH,
        texts=lambda asked: asked["input"],
        vectors=lambda content: [entry["embedding"] for entry in content["data"]],
        content=lambda vectors: {"data": _listed(vectors), "model": "text-embedding-3-small"},
        complaint=openai.complaint,
        no_model="The model `text-embedding-3-small` does not exist",
    ),
    Speaker(
        name="google",
        start=Google,
        embedder=_google,
        path="/v1beta/models/gemini-embedding-001:batchEmbedContents",
        texts=lambda asked: [google.text_of(one["content"]) for one in asked["requests"]],
        vectors=lambda content: [entry["values"] for entry in content["embeddings"]],
        content=lambda vectors: {"embeddings": [{"values": vector} for vector in vectors]},
        complaint=google.complaint,
        no_model="models/gemini-embedding-001 is not found for API version v1beta",
    ),
)


@dataclass
class Bench:
    """A library whose provider can be broken. Use it in a `with` statement."""

    speaker: Speaker
    folder: Path
    server: Loopback = field(init=False)
    embedder: Any = None
    clock: TickingClock = field(default_factory=TickingClock)
    hits: int = 0
    """How many requests met the fault."""
    wait: threading.Event = field(default_factory=threading.Event)
    """Set when whoever hangs may go."""
    _hit: threading.Condition = field(default_factory=threading.Condition)
    _after: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> "Bench":
        self.server = self._after.enter_context(self.speaker.start())
        self._after.callback(self.wait.set)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._after.close()

    def open(self, index: MemoryIndex | None = None) -> LibraryFixture:
        """Open the library as a new process would, with an embedder without a profile."""
        embedder: Any = self.speaker.embedder(self.server, self.clock)
        self.embedder = embedder
        return make_library(self.folder, embedder=embedder, clock=self.clock, index=index)

    def built(self) -> tuple[LibraryFixture, World]:
        """Return a library with one document that was embedded before any fault."""
        lib = self.open()
        return lib, lib.world(tide__txt="The tide comes in twice a day.")

    def plant(
        self, react: Callable[["Bench", Asked], Reaction | None], when: Callable[[int], bool]
    ) -> None:
        """Break requests whose number of texts `when` accepts, from now on."""

        def fault(asked: Asked) -> Reaction | None:
            if asked.path != self.speaker.path or not when(len(self.texts(asked))):
                return None
            reaction = react(self, asked)
            with self._hit:
                self.hits += reaction is not None
                self._hit.notify_all()
            return reaction

        self.server.fault = fault

    def counted(self, expected: int) -> int:
        """Return the number of requests that met the fault, including those in transit."""
        with self._hit:
            self._hit.wait_for(lambda: self.hits >= expected, timeout=10)
            return self.hits

    def tighten(self) -> None:
        """Shorten the timeouts from now on; the profile was read with longer ones."""
        self.bound(TIGHT)

    def bound(self, bounds: Bounds) -> None:
        self.embedder._client.bounds = bounds
        self.embedder._client.close()

    def texts(self, asked: Asked) -> list[str]:
        return self.speaker.texts(asked.content)

    def true(self, asked: Asked) -> list[Any]:
        """Return the correct vectors."""
        answer = self.server.answer(asked)
        assert isinstance(answer, Answer)
        return self.speaker.vectors(answer.content)

    def reply(self, vectors: list[Any], **more: Any) -> Answer:
        return Answer(content=self.speaker.content(vectors), **more)

    # Breaking the way to it

    def refuse(self) -> None:
        self.server.stop()

    def lose_name(self) -> None:
        def nowhere(*args: Any, **kwargs: Any) -> Any:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        self.server.hang_up()
        patch = self._after.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(socket, "getaddrinfo", nowhere)

    def clog(self) -> None:
        """Listen without accepting connections, so that no attempt to connect ends."""
        self.server.stop()
        self.bound(replace(BOUNDS, connect_seconds=0.1))
        clogged = self._after.enter_context(socket.socket())
        clogged.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        clogged.bind(("127.0.0.1", self.server.port))
        clogged.listen(0)
        for _ in range(4):
            waiting = self._after.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", self.server.port))

    def hang(self) -> Iterator[bytes]:
        """Send nothing until the test is over."""
        self.wait.wait(30)
        yield b""
