"""Embeds with a model that Ollama serves, on this machine or another.

Owns: the requests to Ollama, what its complaints mean, and the profile of the model behind a name.
Does not own: retries, batches and the proof of their order; the ingestion does that for all.
Must hold: nothing is truncated in silence, and one profile stands for one build of one model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, NoReturn

import msgspec

from truespan.errors import (
    InvalidConfiguration,
    ModelUnavailable,
    ProfileMismatch,
    ProviderBadReply,
)
from truespan.ingest.embed import RateLimiter
from truespan.protocols import Clock, EmbeddingLimits, TokenCounter
from truespan.providers.http import (
    Bounds,
    JsonClient,
    Reply,
    names_no_model,
    sendable,
    size_refusal,
    words_of,
)
from truespan.types.chunk import Vector
from truespan.types.profile import Distance, EmbeddingProfile
from truespan.types.vectors import LEAST_LENGTH, NO_VECTOR, numbers_of, unit_vector

PROBE = "A short text from which the number of dimensions is learnt."


def learnt_dimensions(
    vector: Vector, wanted: int | None, *, who: str, model: str, setting: str
) -> int:
    """Return the dimensions of a probe's vector.

    Raises:
        ProviderBadReply: it is no vector.
        InvalidConfiguration: it has not the dimensions that were asked for.
    """
    numbers = numbers_of(vector)
    if not LEAST_LENGTH < math.hypot(*numbers) < math.inf:
        raise ProviderBadReply(f"{who} did not return one sound vector.")
    if wanted not in (None, len(numbers)):
        raise InvalidConfiguration(
            f"The model {model!r} gives {len(numbers)} dimensions, not the {wanted} of {setting}.",
            advice=f"Set {setting} to 0, or choose a model that can be shortened.",
        )
    return len(numbers)


ALIASES = {
    "baai/bge-small-en-v1.5": "hf.co/CompendiumLabs/bge-small-en-v1.5-gguf",
    "baai/bge-base-en-v1.5": "hf.co/CompendiumLabs/bge-base-en-v1.5-gguf",
    "baai/bge-large-en-v1.5": "hf.co/CompendiumLabs/bge-large-en-v1.5-gguf",
    "baai/bge-m3": "bge-m3",
    "nomic-ai/nomic-embed-text-v1.5": "nomic-embed-text:v1.5",
    "mixedbread-ai/mxbai-embed-large-v1": "mxbai-embed-large",
    "sentence-transformers/all-minilm-l6-v2": "all-minilm",
    "google/embeddinggemma-300m": "embeddinggemma",
}
"""Names under which models are published, and under which Ollama can pull the same weights.

Ollama's own library has no English bge, but it pulls GGUF files from the model hub by address.
"""

_LIBRARY = re.compile(r"^(registry\.ollama\.ai/)?(library/)?", re.IGNORECASE)


def spellings(model: str) -> list[str]:
    """Return the names a model may be installed under, the one to look for first at the front.

    The given name goes first: who has made a model of that very name wants that one.
    """
    alias = ALIASES.get(model.lower())
    return [model] if alias is None else [model, alias]


def to_pull(model: str) -> str:
    """Return the name that `ollama pull` finds."""
    return ALIASES.get(model.lower(), model)


def same_model(one: str, other: str) -> bool:
    """Say whether two names are the same to Ollama, which adds a tag and ignores case."""
    return _full(one) == _full(other)


def _full(name: str) -> str:
    name = _LIBRARY.sub("", name).lower()
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


@dataclass(frozen=True, slots=True)
class ModelPrefixes:
    """What stands before a query and before a document when a model is asked."""

    query: str = ""
    document: str = ""

    @property
    def query_mode(self) -> str:
        """Return the profile's word for it."""
        return f"instruction: {self.query}" if self.query else "plain"

    @property
    def document_mode(self) -> str:
        """Return the profile's word for it."""
        return f"instruction: {self.document}" if self.document else "passage"


_REPRESENT = ModelPrefixes(query="Represent this sentence for searching relevant passages: ")
_FAMILIES = (
    (re.compile(r"bge[-:](small|base|large)-en"), _REPRESENT),
    (re.compile(r"mxbai-embed-large"), _REPRESENT),
    (re.compile(r"snowflake-arctic-embed2|arctic-embed-[lm]-v2"), ModelPrefixes(query="query: ")),
    (re.compile(r"arctic-embed"), _REPRESENT),
    (re.compile(r"nomic-embed-text"), ModelPrefixes("search_query: ", "search_document: ")),
    (re.compile(r"\be5-(small|base|large)"), ModelPrefixes("query: ", "passage: ")),
    (
        re.compile(r"embeddinggemma"),
        ModelPrefixes("task: search result | query: ", "title: none | text: "),
    ),
)
"""Models that were trained with instructions, by what their name holds; the first match counts."""


def manner_of(name: str) -> ModelPrefixes:
    """Return how a model wants to be asked; as it is, unless its family is known."""
    known = (manner for pattern, manner in _FAMILIES if pattern.search(name.lower()))
    return next(known, ModelPrefixes())


RECHECK_SECONDS = 60.0
"""For how long the model behind a name is taken to be the one that was seen last."""
_ITEMS = 32
_SPECIAL_TOKENS = 2
_LEAST_CONTEXT = 512
"""What is read of a text when Ollama does not say how much the model reads."""
_USUAL_CONTEXT = 2048
"""Ollama gives a model less than it could read unless its file says more; older releases this."""
_CHARACTERS_PER_TOKEN = 4
_BOUNDS = Bounds(read_seconds=300.0, total_seconds=300.0)
"""Nothing comes before the last text of a batch is done, nor while a model is being loaded."""

_NOT_FINITE = re.compile(r"\bnan\b|\binf\b|unsupported value", re.IGNORECASE)
_NO_EMBEDDINGS = re.compile(r"does not support embed", re.IGNORECASE)


class _Installed(msgspec.Struct):
    name: str
    digest: str


class _Tags(msgspec.Struct):
    models: list[_Installed]


class _Shown(msgspec.Struct):
    model_info: dict[str, Any] | None = None
    parameters: str | None = None


class _Embedded(msgspec.Struct):
    embeddings: list[list[float | None] | None]


class _NotFinite(Exception):
    """Ollama computed numbers that cannot be sent as JSON."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A model as Ollama has it installed. `counted` says whether the local counter reads as it."""

    profile: EmbeddingProfile
    manner: ModelPrefixes
    counted: bool


class OllamaEmbedder:
    """Embeds through Ollama, which is first asked when the first text or the profile is needed."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        dimensions: int | None,
        counter: TokenCounter,
        clock: Clock,
        in_flight: int = 2,
        bounds: Bounds | None = None,
        pace: RateLimiter | None = None,
    ) -> None:
        self._client = JsonClient(
            base_url,
            label="Ollama",
            clock=clock,
            bounds=bounds or _BOUNDS,
            pace=pace,
            start_advice="Start it with 'ollama serve', or set ollama_base_url to where it runs.",
        )
        self._model = model
        self._dimensions = dimensions
        self._counter = counter
        self._clock = clock
        self._limits = EmbeddingLimits(items=_ITEMS, in_flight=in_flight, joint=True)
        self._learning = Lock()
        self._learnt: _Known | None = None
        self._seen = 0.0

    @property
    def profile(self) -> EmbeddingProfile:
        """Return the profile of the model behind the configured name.

        It is learnt once and kept, so that all vectors of this process have one meaning. Whether
        the name still stands for that build is looked up again every minute.

        Raises:
            ModelUnavailable: the model is not installed.
            ProfileMismatch: the name stands for another build than it did before.
            ProviderUnavailable, ProviderRefused, ProviderBadReply: Ollama did not say.
        """
        return self._known().profile

    @property
    def endpoint(self) -> str:
        """Return the base URL in one spelling."""
        return self._client.target.url

    @property
    def limits(self) -> EmbeddingLimits:
        """Return batches that a small machine answers well within the time-out."""
        return self._limits

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text, in the order of the texts.

        A text for which Ollama finds no finite numbers gets a vector of none, which is refused
        further on; the other texts of the batch are not lost with it.

        Raises:
            ProviderUnavailable: Ollama did not answer; trying again may help.
            TextTooLong, BatchTooLarge: a text, or all of them together, are too much for it.
            ProviderRefused: Ollama said no.
            ProviderBadReply: the reply is not one vector for each text.
            ModelUnavailable, ProfileMismatch: the model is gone, or another than before.
        """
        if not texts:
            return []
        known = self._known()
        sent = [known.manner.document + sendable(text) for text in texts]
        try:
            return self._vectors(known.profile.model, sent)
        except _NotFinite:
            return [self._embed_apart(known, text) for text in sent]

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a query; raises as `embed_documents` does."""
        known = self._known()
        try:
            [vector] = self._vectors(known.profile.model, known.manner.query + sendable(text))
        except _NotFinite:
            raise ProviderBadReply(
                f"{self._client.who} found no finite numbers for the query."
            ) from None
        return vector

    def count_query(self, text: str) -> int:
        """Return how many tokens a query has, as far as that can be known before the call.

        Ollama cannot be asked to count. Most embedding models it serves read with the vocabulary
        of the local counter, whose count is then exact, or high where words are unknown; of the
        others it is estimated as batches are. What passes here and is still too long is refused
        by Ollama itself, which is told never to truncate.
        """
        known = self._known()
        whole = known.manner.query + text
        return self._counter.count(whole) if known.counted else len(whole) // _CHARACTERS_PER_TOKEN

    def _embed_apart(self, known: _Known, text: str) -> Vector:
        try:
            return self._vectors(known.profile.model, [text])[0]
        except _NotFinite:
            return NO_VECTOR

    def _vectors(self, name: str, texts: str | list[str]) -> list[Vector]:
        payload: dict[str, Any] = {"model": name, "input": texts, "truncate": False}
        if self._dimensions is not None:
            payload["dimensions"] = self._dimensions
        reply = self._client.post("/api/embed", payload)
        if not reply.succeeded:
            self._refuse(reply)
        found = reply.read(_Embedded).embeddings
        expected = 1 if isinstance(texts, str) else len(texts)
        if len(found) != expected:
            raise ProviderBadReply(
                f"{self._client.who} returned {len(found)} vectors for {expected} texts."
            )
        return [unit_vector(numbers) for numbers in found]

    def _refuse(self, reply: Reply) -> NoReturn:
        """Raise what a complaint means; the words themselves are looked at and not passed on."""
        complaint = words_of(reply)
        if names_no_model(reply):
            raise self._missing()
        if (refusal := size_refusal(reply)) is not None:
            raise refusal
        if _NOT_FINITE.search(complaint):
            raise _NotFinite
        if _NO_EMBEDDINGS.search(complaint):
            raise ModelUnavailable(
                f"The model {self._model!r} cannot embed ({self._client.who}).",
                advice="Set ollama_model to an embedding model.",
            )
        raise reply.failure()

    def _missing(self) -> ModelUnavailable:
        return ModelUnavailable(
            f"{self._client.who} has no model {self._model!r}.",
            advice=f"Get it with 'ollama pull {to_pull(self._model)}'.",
        )

    # What stands behind the name

    def _known(self) -> _Known:
        with self._learning:
            now = self._clock.monotonic()
            if self._learnt is None:
                self._learnt = self._learn()
            elif now - self._seen >= RECHECK_SECONDS:
                self._confirm(self._learnt.profile)
            else:
                return self._learnt
            self._seen = now
            return self._learnt

    def _confirm(self, profile: EmbeddingProfile) -> None:
        """Refuse to go on when the model was pulled or made anew: its vectors mean other things."""
        found = self._installed()
        if (found.name, found.digest) != (profile.model, profile.revision):
            now = f"{found.name} in another build ({found.digest[:19]})"
            raise ProfileMismatch(str(profile), now)

    def _installed(self) -> _Installed:
        models = self._client.get("/api/tags").read(_Tags).models
        for name in spellings(self._model):
            for model in models:
                if same_model(model.name, name) and model.digest:
                    return model
        raise self._missing()

    def _learn(self) -> _Known:
        found = self._installed()
        shown = self._show(found.name)
        manner = manner_of(found.name)
        room = _context(shown) - _SPECIAL_TOKENS - self._counter.count(manner.document)
        profile = EmbeddingProfile(
            provider="ollama",
            model=found.name,
            revision=found.digest,
            dimensions=self._probe(found.name),
            distance=Distance.COSINE,
            document_mode=manner.document_mode,
            query_mode=manner.query_mode,
            input_limit=max(room, 1),
        )
        counted = (shown.model_info or {}).get("tokenizer.ggml.model") == "bert"
        return _Known(profile, manner, counted)

    def _show(self, name: str) -> _Shown:
        reply = self._client.post("/api/show", {"model": name})
        if not reply.succeeded:
            self._refuse(reply)
        return reply.read(_Shown)

    def _probe(self, name: str) -> int:
        try:
            [vector] = self._vectors(name, PROBE)
        except _NotFinite:
            raise ProviderBadReply(f"{self._client.who} found no finite numbers.") from None
        return learnt_dimensions(
            vector,
            self._dimensions,
            who=self._client.who,
            model=self._model,
            setting="ollama_dimensions",
        )


def _context(shown: _Shown) -> int:
    """Return how many tokens the model reads, special ones included."""
    lengths = [
        value
        for key, value in (shown.model_info or {}).items()
        if key.endswith(".context_length") and type(value) is int and value > 0
    ]
    stated = re.search(r"^num_ctx\s+(\d{1,9})\s*$", shown.parameters or "", re.MULTILINE)
    given = int(stated[1]) if stated else _USUAL_CONTEXT
    return min([*lengths, given]) if lengths else _LEAST_CONTEXT
