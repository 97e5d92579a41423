"""The API of OpenAI for chat clients: each world and each reader of a world is a model."""

from __future__ import annotations

import base64
import secrets
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlencode

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from truespan import errors
from truespan.extensions.server.http.operation import CallContext, Event, Events, Reply, Routes
from truespan.extensions.server.http.replies import name_error
from truespan.extensions.server.http.routes.questions import (
    QUERY_ERRORS,
    select_world,
    wait_for_answer,
)
from truespan.types.answer import Answer, AnswerEvent, Citation, Finished, Piece
from truespan.types.decision import UsedModel
from truespan.types.scope import Unlimited, Verb
from truespan.types.text import escape_label, name_place
from truespan.types.vectors import Vector

if TYPE_CHECKING:
    from truespan.engine.reader import Reader
    from truespan.engine.world import World

PREFIX = "truespan"
SOURCES = "\n\nSources:\n"
"""Begins the list of sources, which is removed from answers that a client sends back."""
MAX_MESSAGES = 1000
MAX_INPUTS = 256
# Shared by threads: bytes, which nothing changes.
_DONE = msgspec.Raw(b"[DONE]")

# Shared by threads: filled while modules are imported, then only read.
openai = Routes(
    "OpenAI-compatible",
    "Worlds and readers as models for chat clients of the OpenAI API.",
    "not_allowed",
)
ModelId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=500,
        description="`truespan/WORLD`, or `truespan/WORLD@READER` for what a reader has read.",
    ),
]


class ContentPart(Struct, frozen=True, kw_only=True):
    """A part of a message. Only texts are used."""

    type: str
    text: str = ""


class ChatMessage(Struct, frozen=True, kw_only=True):
    """A message of a chat. Only messages of users and of the assistant are used."""

    role: str
    content: str | list[ContentPart] | None = None

    @property
    def text(self) -> str:
        """The texts of the message as one."""
        if not isinstance(self.content, list):
            return self.content or ""
        return "\n".join(part.text for part in self.content if part.type == "text")


class StreamOptions(Struct, frozen=True, kw_only=True):
    """Options of a stream."""

    include_usage: bool = False


class CompletionRequest(Struct, frozen=True, kw_only=True):
    """A chat whose last message of a user is the question.

    Earlier messages tell what the question refers to; they are never evidence. Further members,
    such as a temperature, are not used.
    """

    model: ModelId
    messages: Annotated[list[ChatMessage], Meta(min_length=1, max_length=MAX_MESSAGES)]
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: Annotated[int, Meta(ge=1, le=1)] | None = None


class ReplyMessage(Struct, frozen=True, kw_only=True):
    """A message, or in a stream the next part of one."""

    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType = UNSET
    refusal: None = None


class Choice(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The reply to a chat; `delta` is the next part of a streamed one."""

    index: int
    finish_reason: Literal["stop"] | None
    message: ReplyMessage | UnsetType = UNSET
    delta: ReplyMessage | UnsetType = UNSET


class TokenUsage(Struct, frozen=True, kw_only=True):
    """Tokens of the messages and of the reply, counted with the tokenizer of the library."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Completion(Struct, frozen=True, kw_only=True):
    """A reply to a chat, or in a stream a part of it.

    `truespan` is the whole answer with citations, checked quotes and its decision; in a stream, the
    last part with a choice has it.
    """

    id: str
    object: Literal["chat.completion", "chat.completion.chunk"]
    created: int
    model: str
    choices: list[Choice]
    usage: TokenUsage | UnsetType | None = UNSET
    truespan: Answer | UnsetType = UNSET


class ModelCard(Struct, frozen=True, kw_only=True):
    """A model that can be asked."""

    id: str
    created: int = 0
    object: Literal["model"] = "model"
    owned_by: Literal["truespan"] = "truespan"


class ModelList(Struct, frozen=True, kw_only=True):
    """The models that the caller may ask."""

    data: list[ModelCard]
    object: Literal["list"] = "list"


class EmbeddingRequest(Struct, frozen=True, kw_only=True):
    """Texts to embed with the model of a world."""

    model: ModelId
    input: (
        Annotated[str, Meta(min_length=1)]
        | Annotated[
            list[Annotated[str, Meta(min_length=1)]], Meta(min_length=1, max_length=MAX_INPUTS)
        ]
    )
    encoding_format: Literal["float", "base64"] = "float"


class EmbeddingItem(Struct, frozen=True, kw_only=True):
    """The vector of one text: numbers, or 32-bit little-endian floats in base64."""

    index: int
    embedding: list[float] | str
    object: Literal["embedding"] = "embedding"


class EmbeddingUsage(Struct, frozen=True, kw_only=True):
    """Tokens of the texts, counted with the tokenizer of the library."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(Struct, frozen=True, kw_only=True):
    """The vectors of the texts in their order."""

    data: list[EmbeddingItem]
    model: str
    usage: EmbeddingUsage
    object: Literal["list"] = "list"


@openai.get("/v1/models", names_error=True)
def list_models(context: CallContext) -> ModelList:
    """List models for chat clients.

    Returns each world that the caller may read, and each reader whom the caller may follow.
    """
    names = [name for world in context.library.worlds() for name in _names_of(context, world)]
    return ModelList(data=[ModelCard(id=f"{PREFIX}/{name}") for name in names])


def _names_of(context: CallContext, world: Any) -> Iterator[str]:
    authority = context.principal.authority
    if authority.may(Verb.READ, world.id):
        yield world.name
    if not authority.may(Verb.FOLLOW, world.id):
        return
    readers = authority.readers
    if isinstance(readers, Unlimited):
        may_list = authority.may(Verb.READ, world.id)
        readers = context.library.world(world.id).readers() if may_list else ()
    for reader in sorted(readers):
        yield f"{world.name}@{reader}"


@openai.post(
    "/v1/chat/completions",
    errors=(*QUERY_ERRORS, "world_not_found", errors.WorldNotNamed, "no_reading_position"),
    names_error=True,
    events={"": Completion},
    example={
        "model": "truespan/mysteries",
        "messages": [{"role": "user", "content": "Who wound the great clock?"}],
    },
)
def complete_chat(context: CallContext, body: CompletionRequest) -> Reply[Completion] | Events:
    """Answer the last message of a chat.

    Works like answer, in the format of OpenAI: the text cites sources by number and lists them with
    their places. A refusal is an ordinary reply. With `stream` the parts are events without a name,
    and the last event is `[DONE]`.
    """
    question, history = split_chat(body.messages)
    asked, world = _find(context, body.model)
    # Without a chat model the answer consists of the best sentences that were found.
    events = asked.answer_stream(question, history=history)
    chat = Chat(
        id=f"chatcmpl-{secrets.token_hex(12)}",
        created=int(time.time()),
        model=body.model,
        link=_link(context.origin, world, asked),
        count=context.library.server.count_tokens,
        asked="\n".join(message.text for message in body.messages),
    )
    if body.stream or context.accepts_events:
        options = body.stream_options
        shows_usage = options is not None and options.include_usage
        first = next(events)
        return Events(_sent(chat.stream(first, events, shows_usage=shows_usage)))
    return Reply(chat.whole(wait_for_answer(context, events)))


def _sent(parts: Iterator[Any]) -> Iterator[Event]:
    """Yield parts as events without a name; an error ends them in the format of OpenAI."""
    try:
        for part in parts:
            yield Event("", part)
    except errors.TruespanError as error:
        yield Event("", {"error": name_error(error)})


@openai.post(
    "/v1/embeddings",
    errors=(*QUERY_ERRORS, "world_not_found", errors.WorldNotNamed),
    names_error=True,
    example={"model": "truespan/mysteries", "input": ["The great clock stopped."]},
)
def embed_texts(context: CallContext, body: EmbeddingRequest) -> EmbeddingList:
    """Embed texts with the model of a world.

    Returns the vectors as documents of the world get them.
    """
    texts = [body.input] if isinstance(body.input, str) else body.input
    vectors = context.library.server.embed(select_world(context, _world_name(body.model)), texts)
    count = context.library.server.count_tokens
    used = sum(map(count, texts))
    return EmbeddingList(
        data=[
            EmbeddingItem(index=number, embedding=_encode(vector, body.encoding_format))
            for number, vector in enumerate(vectors)
        ],
        model=body.model,
        usage=EmbeddingUsage(prompt_tokens=used, total_tokens=used),
    )


def _encode(vector: Vector, encoding: str) -> list[float] | str:
    """Return a vector, which is stored as 32-bit little-endian floats."""
    if encoding == "base64":
        return base64.b64encode(vector).decode()
    return [*struct.unpack(f"<{len(vector) // 4}f", vector)]


def split_chat(messages: Sequence[ChatMessage]) -> tuple[str, list[tuple[str, str]]]:
    """Return the question of a chat, and the earlier questions with their answers."""
    turns: list[tuple[str, str]] = []
    for message in messages:
        if message.role == "user":
            turns.append((message.text, ""))
        elif message.role == "assistant" and turns:
            question, answer = turns[-1]
            turns[-1] = question, answer + message.text.partition(SOURCES)[0]
    if not turns:
        raise errors.InvalidArgument(
            "The chat has no message of a user.", advice='Send one with the role "user".'
        )
    return turns[-1][0], turns[:-1]


def _world_name(model: str) -> str | None:
    name = model.removeprefix(f"{PREFIX}/")
    return None if name == PREFIX else name


def _find(context: CallContext, model: str) -> tuple[World | Reader, World]:
    """Return the world or reader that a model names, and the world."""
    name = _world_name(model)
    try:
        world = select_world(context, name)
    except errors.NotFound as missing:
        missing.raise_unless("world_not_found")
        # Names of worlds and of readers may contain an @ too; the longest name of a world counts.
        parts = (name or "").split("@")
        for place in range(len(parts) - 1, 0, -1):
            try:
                world = select_world(context, "@".join(parts[:place]))
            except errors.NotFound as missing:
                missing.raise_unless("world_not_found")
                continue
            return world.reader("@".join(parts[place:])), world
        raise
    return world, world


def _link(origin: str, world: World, asked: World | Reader) -> Callable[[Citation], str]:
    """Return the function that gives the address of a source in the web page."""
    reader = {} if asked is world else {"reader": asked.name}

    def link(citation: Citation) -> str:
        place = {"world": world.id, "document": citation.document, "pane": "reading"} | reader
        return f"{origin}/#{urlencode(place)}"

    return link


class Chat(Struct, frozen=True):
    """The reply to a chat, complete or in parts."""

    id: str
    created: int
    model: str
    link: Callable[[Citation], str]
    count: Callable[[str], int]
    asked: str

    def whole(self, answer: Answer) -> Completion:
        """Return the complete reply."""
        text = answer.answer + self.sources(answer)
        return Completion(
            id=self.id,
            object="chat.completion",
            created=self.created,
            model=self.model,
            choices=[
                Choice(
                    index=0,
                    finish_reason="stop",
                    message=ReplyMessage(role="assistant", content=text),
                )
            ],
            usage=self._usage(text),
            truespan=answer,
        )

    def stream(
        self, first: AnswerEvent, events: Iterator[AnswerEvent], *, shows_usage: bool
    ) -> Iterator[Completion | msgspec.Raw]:
        """Yield the parts of the reply, and the mark of its end."""
        yield self._part(ReplyMessage(role="assistant", content=""))
        written = ""
        for event in chain([first], events):
            if isinstance(event, Piece):
                written += event.text
                yield self._part(ReplyMessage(content=event.text))
            elif isinstance(event, Finished):
                sources = self.sources(event.answer)
                if sources:
                    written += sources
                    yield self._part(ReplyMessage(content=sources))
                yield self._part(ReplyMessage(), answer=event.answer)
        if shows_usage:
            yield self._chunk([], usage=self._usage(written))
        yield _DONE

    def sources(self, answer: Answer) -> str:
        """Return the list of cited sources; empty where the answer itself names their places."""
        used = answer.decision_explain["used_llm"]
        cited = [one for one in answer.citations if one.document is not None]
        if used == UsedModel.NONE or not cited:
            return ""
        lines = [
            f"[{one.number}] [{escape_label(name_place(labels, one.location))}]({self.link(one)})"
            for one in cited
            for labels in [(one.title, one.chapter, one.section)]
        ]
        return SOURCES + "\n".join(lines)

    def _part(self, delta: ReplyMessage, answer: Answer | UnsetType = UNSET) -> Completion:
        reason = None if answer is UNSET else "stop"
        choice = Choice(index=0, finish_reason=reason, delta=delta)
        return self._chunk([choice], answer=answer)

    def _chunk(
        self,
        choices: list[Choice],
        *,
        usage: TokenUsage | UnsetType = UNSET,
        answer: Answer | UnsetType = UNSET,
    ) -> Completion:
        return Completion(
            id=self.id,
            object="chat.completion.chunk",
            created=self.created,
            model=self.model,
            choices=choices,
            usage=usage,
            truespan=answer,
        )

    def _usage(self, text: str) -> TokenUsage:
        prompt, written = self.count(self.asked), self.count(text)
        return TokenUsage(
            prompt_tokens=prompt, completion_tokens=written, total_tokens=prompt + written
        )
