"""Embeds with the models of Google AI Studio.

Owns: the requests, the exact count of tokens, and what the complaints mean.
Does not own: retries, batches and the proof of their order; the ingestion does that for all.
Must hold: no text is sent that the model would cut, and a key goes into one header only.

AI Studio reads the beginning of what is too long and says nothing, and it has no switch against
that. So what might be too long is counted first, by the model's own count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, NoReturn

import msgspec

from truespan.errors import InvalidConfiguration, ModelUnavailable, ProviderBadReply, TextTooLong
from truespan.ingest.embed import RateLimiter
from truespan.protocols import Clock, EmbeddingLimits
from truespan.providers.http import (
    Bounds,
    JsonClient,
    Reply,
    names_no_model,
    read_pause,
    sendable,
    size_refusal,
    words_of,
)
from truespan.providers.keys import KeyRing, denies
from truespan.providers.ollama import PROBE, ModelPrefixes, learnt_dimensions
from truespan.types.chunk import Vector
from truespan.types.profile import Distance, EmbeddingProfile
from truespan.types.token import Secret
from truespan.types.vectors import unit_vector

PROVIDER = "google"
BASE_URL = "https://generativelanguage.googleapis.com"
MODEL = "gemini-embedding-001"
ITEMS = 100
"""Most texts in one request; more are refused."""
DOCUMENT, QUERY = "RETRIEVAL_DOCUMENT", "RETRIEVAL_QUERY"
_MARGIN = 4
"""Tokens that may stand for nothing in the text: marks at its beginning and end."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_INSTRUCTED = re.compile(r"^gemini-embedding-2\b")
_INSTRUCTIONS = ModelPrefixes("task: search result | query: ", "title: none | text: ")
"""Models of the second series ignore the task type; they are told in the text itself."""
_DELAY = re.compile(r"\b(\d{1,9})(?:\.\d+)?s\b")


class _Model(msgspec.Struct, rename="camel"):
    input_token_limit: int
    version: str = ""
    supported_generation_methods: list[str] | None = None


class _Values(msgspec.Struct):
    values: list[float | None] | None = None


class _Embedded(msgspec.Struct):
    embeddings: list[_Values | None]


class _Counted(msgspec.Struct, rename="camel"):
    total_tokens: int


@dataclass(frozen=True, slots=True)
class _Task:
    """How a text is sent: with a task type, or with an instruction before it."""

    kind: str | None
    before: str = ""

    @property
    def mode(self) -> str:
        return self.kind or f"instruction: {self.before}"


@dataclass(frozen=True, slots=True)
class _About:
    """A model as Google describes it."""

    version: str
    limit: int
    document: _Task
    query: _Task


@dataclass(frozen=True, slots=True)
class _Known:
    profile: EmbeddingProfile
    about: _About


class GoogleEmbedder:
    """Embeds through AI Studio, which is first asked when a text or the profile is needed."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        keys: KeyRing,
        dimensions: int | None,
        clock: Clock,
        in_flight: int = 2,
        bounds: Bounds | None = None,
        pace: RateLimiter | None = None,
    ) -> None:
        self._client = JsonClient(base_url, label="Google", clock=clock, bounds=bounds, pace=pace)
        self._model = model.removeprefix("models/")
        if not _PLAIN_NAME.fullmatch(self._model):
            # It becomes a part of the address, where a slash or a question mark would lead astray.
            raise InvalidConfiguration("google_model is not the name of a model.")
        self._keys = keys
        self._dimensions = dimensions
        self._clock = clock
        self._limits = EmbeddingLimits(items=ITEMS, in_flight=in_flight, joint=True)
        self._learning = Lock()
        self._learnt: _Known | None = None

    @property
    def profile(self) -> EmbeddingProfile:
        """Return the profile of the configured model, learnt once.

        Raises:
            ModelUnavailable: Google has no such model, or it does not embed.
            CredentialsMissing: no key may be used for it.
            ProviderUnavailable, ProviderRefused, ProviderBadReply: Google did not say.
        """
        return self._known().profile

    @property
    def endpoint(self) -> str:
        """Return the base URL in one spelling."""
        return self._client.target.url

    @property
    def limits(self) -> EmbeddingLimits:
        """Return what one request may hold."""
        return self._limits

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text, in the order of the texts.

        Raises:
            ProviderUnavailable: Google did not answer; trying again may help.
            TextTooLong: the model would read less than one of the texts; nothing was embedded.
            BatchTooLarge: all of them together are too much for one request.
            ProviderRefused: Google said no.
            ProviderBadReply: the reply is not one vector for each text.
            ModelUnavailable: the model is gone.
            CredentialsMissing: no key may be used for it.
        """
        if not texts:
            return []
        about = self._known().about
        sent = [about.document.before + sendable(text) for text in texts]
        for text in sent:
            self._check_length(text, about.limit)
        return self._embed(sent, about.document)

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a query; raises as `embed_documents` does."""
        about = self._known().about
        sent = about.query.before + sendable(text)
        self._check_length(sent, about.limit)
        [vector] = self._embed([sent], about.query)
        return vector

    def count_query(self, text: str) -> int:
        """Return the exact number of tokens the model would read of a query, as it counts itself.

        The room that the profile leaves for an instruction is taken off again.
        """
        known = self._known()
        counted = self._count(known.about.query.before + sendable(text))
        return counted - (known.about.limit - known.profile.input_limit)

    def _check_length(self, text: str, limit: int) -> None:
        """Refuse a text of which the model would read only the beginning.

        A token stands for at least one byte, so most texts need no counting.
        """
        if len(text.encode()) + _MARGIN > limit and self._count(text) > limit:
            raise TextTooLong(
                f"A text is longer than the model reads ({self._client.who}).",
                advice="Nothing was sent; shorten the query, or choose smaller chunks.",
            )

    def _count(self, text: str) -> int:
        payload = {"contents": [{"parts": [{"text": text}]}]}
        return self._post("countTokens", payload).read(_Counted).total_tokens

    def _embed(self, texts: list[str], task: _Task) -> list[Vector]:
        payload = {"requests": [self._wanted(text, task) for text in texts]}
        found = self._post("batchEmbedContents", payload).read(_Embedded).embeddings
        if len(found) != len(texts):
            raise ProviderBadReply(
                f"{self._client.who} returned {len(found)} vectors for {len(texts)} texts."
            )
        return [unit_vector(entry.values if entry else None) for entry in found]

    def _wanted(self, text: str, task: _Task) -> dict[str, Any]:
        wanted: dict[str, Any] = {
            "model": f"models/{self._model}",
            "content": {"parts": [{"text": text}]},
        }
        if task.kind is not None:
            wanted["taskType"] = task.kind
        if self._dimensions is not None:
            wanted["outputDimensionality"] = self._dimensions
        return wanted

    # Asking

    def _post(self, verb: str, payload: Any) -> Reply:
        path = f"/v1beta/models/{self._model}:{verb}"
        return self._send(lambda headers: self._client.post(path, payload, headers=headers))

    def _send(self, ask: Callable[[dict[str, str]], Reply]) -> Reply:
        def with_key(key: Secret | None) -> Reply:
            headers = {} if key is None else {"x-goog-api-key": key.reveal()}
            return self._with_delay(ask(headers))

        reply = self._keys.send(self._model, with_key, denied=_denied)
        if not reply.succeeded:
            self._refuse(reply)
        return reply

    def _with_delay(self, reply: Reply) -> Reply:
        """Return a reply with the pause it asks for, which Google writes into the body."""
        if reply.retry_after is not None or reply.succeeded:
            return reply
        asked = _DELAY.search(words_of(reply))
        # Parts of a second are left out there, so one is added here.
        pause = read_pause(str(int(asked[1]) + 1), self._clock.now()) if asked else None
        return replace(reply, retry_after=pause)

    def _refuse(self, reply: Reply) -> NoReturn:
        """Raise what a complaint means; the words themselves are looked at and not passed on."""
        if (refusal := size_refusal(reply)) is not None:
            raise refusal
        if reply.status == 404 or (reply.status == 400 and names_no_model(reply)):
            raise self._no_model()
        raise reply.failure()

    def _no_model(self) -> ModelUnavailable:
        return ModelUnavailable(
            f"{self._client.who} has no embedding model {self._model!r}.",
            advice=f"Set google_model to one that embeds, such as {MODEL}.",
        )

    # What stands behind the name

    def _known(self) -> _Known:
        with self._learning:
            if self._learnt is None:
                self._learnt = self._learn()
            return self._learnt

    def _learn(self) -> _Known:
        about = self._describe()
        [vector] = self._embed([about.document.before + PROBE], about.document)
        profile = EmbeddingProfile(
            provider=PROVIDER,
            model=self._model,
            revision=about.version,
            dimensions=learnt_dimensions(
                vector,
                self._dimensions,
                who=self._client.who,
                model=self._model,
                setting="google_dimensions",
            ),
            distance=Distance.COSINE,
            document_mode=about.document.mode,
            query_mode=about.query.mode,
            input_limit=about.limit - self._count_before(about),
        )
        return _Known(profile, about)

    def _describe(self) -> _About:
        path = f"/v1beta/models/{self._model}"
        model = self._send(lambda headers: self._client.get(path, headers=headers)).read(_Model)
        if "embedContent" not in (model.supported_generation_methods or ["embedContent"]):
            raise self._no_model()
        if model.input_token_limit < 1:
            raise ProviderBadReply(f"{self._client.who} says that the model reads nothing.")
        if _INSTRUCTED.match(self._model):
            tasks = _Task(None, _INSTRUCTIONS.document), _Task(None, _INSTRUCTIONS.query)
        else:
            tasks = _Task(DOCUMENT), _Task(QUERY)
        return _About(model.version, model.input_token_limit, *tasks)

    def _count_before(self, about: _About) -> int:
        longer = max(about.document.before, about.query.before, key=len)
        return self._count(longer) if longer else 0


def _denied(reply: Reply) -> bool:
    """Say whether a reply denies the key: an invalid one is called a bad request."""
    return denies(reply) or (reply.status == 400 and "API_KEY_INVALID" in words_of(reply))
