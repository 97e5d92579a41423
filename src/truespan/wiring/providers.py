"""Build embedders, chat models and the rules of answers from settings.

Clients are imported when they are first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, cast

from msgspec import Struct, field

from truespan.errors import InvalidConfiguration
from truespan.protocols import ChatModel, ChatModels, Clock, Cooldowns, Embedder, Reranker
from truespan.providers import EMBEDDERS, RERANKERS
from truespan.providers.context import ModelContext
from truespan.settings.catalogue import ChatSettings, FallbackChatSettings, Settings
from truespan.tables import import_member, require, tables
from truespan.types.answer import ANSWER_TOP_K, AnswerRules, Message
from truespan.types.chunk import ChunkKind
from truespan.types.conversation import ConversationRules
from truespan.types.decision import DecisionSettings, ScoreMode
from truespan.types.profile import Calibration, Distance

if TYPE_CHECKING:
    from truespan.retrieval.rerank import RerankOptions

ANSWER_PREFIX = "answer_"
CONFIGURED_DISTANCE = Distance.COSINE
"""Distance of every configurable embedder."""


def configured_model(settings: Settings) -> str:
    """Return the name of the configured embedding model: its provider, or "local-gpu"."""
    provider = settings.embedding.provider
    return "local-gpu" if provider == "local" and settings.embedding.device else provider


def make_embedder(context: ModelContext) -> Embedder:
    """Return the configured embedder; the client is imported now."""
    provider = context.settings.embedding.provider
    row = EMBEDDERS.get(provider)
    # Only an extension runs the bundled model on other devices.
    if row is None or (provider == "local" and context.settings.embedding.device):
        row = tables().embedders.get(provider)
    what = f"The embedding model {configured_model(context.settings)!r}"
    return require(row and row.make, what, "models")(context)


class ChatChoice(Struct, frozen=True):
    """A configured chat model."""

    provider: str
    model: str
    address: str

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"


# Shared by threads: the model is created under a lock.
class DeferredChat(Struct):
    """A chat model that is created when it is first used."""

    name: str
    make: Callable[[], ChatModel]
    _making: Lock = field(default_factory=Lock)
    _made: ChatModel | None = None

    def stream(self, messages: Sequence[Message]) -> Iterator[str]:
        """Yield the reply piece by piece; see `ChatModel`."""
        with self._making:
            if self._made is None:
                self._made = self.make()
        return self._made.stream(messages)


def chat_choices(settings: Settings) -> tuple[ChatChoice | None, ChatChoice | None]:
    """Return the configured chat models: the primary one and its fallback."""
    chat, fallback = settings.chat, settings.chat.fallback
    addresses = {
        "openai": chat.openai.base_url,
        "ollama": chat.ollama.base_url or settings.ollama.base_url,
    }
    return _choice("chat", chat, addresses), _choice("chat_fallback", fallback, addresses)


def chat_models(settings: Settings, clock: Clock, cooldowns: Cooldowns) -> ChatModels:
    """Return the configured chat models; they connect when first used."""

    def deferred(choice: ChatChoice | None) -> ChatModel | None:
        if choice is None:
            return None
        return DeferredChat(choice.name, lambda: _model(choice, settings, clock, cooldowns))

    primary, fallback = chat_choices(settings)
    return ChatModels(deferred(primary), deferred(fallback))


def _choice(
    name: str, settings: ChatSettings | FallbackChatSettings, addresses: Mapping[str, str]
) -> ChatChoice | None:
    provider, model = settings.provider, settings.model.strip()
    if bool(provider) is not bool(model):
        raise InvalidConfiguration(
            f"Only one of {name}_provider and {name}_model is set.",
            advice="Set both, or neither.",
        )
    return ChatChoice(provider, model, addresses[provider]) if provider else None


def _model(choice: ChatChoice, settings: Settings, clock: Clock, cooldowns: Cooldowns) -> ChatModel:
    from truespan.providers.chat import ChatDialect

    dialect = ChatDialect(
        max_tokens=settings.chat.max_tokens,
        seconds=settings.chat.timeout_seconds,
        context=settings.chat.ollama.context,
    )
    if choice.provider == "ollama":
        from truespan.providers.ollama import OllamaChat

        return OllamaChat(choice.address, choice.model, clock=clock, dialect=dialect)
    from truespan.providers.keys import KeyRing
    from truespan.providers.openai import OpenAiChat

    keyless = settings.chat.openai.keyless
    own = () if keyless else settings.keys
    keys = KeyRing("openai", own, cooldowns, clock, keyless=keyless)
    return OpenAiChat(choice.address, choice.model, keys=keys, clock=clock, dialect=dialect)


def check_rerank(settings: Settings) -> None:
    """Raise InvalidConfiguration if the model of the reranker is missing, or has no use."""
    kind, is_set = settings.rerank.kind, bool(settings.rerank.model.strip())
    row = (RERANKERS.get(kind) or tables().rerankers[kind]) if kind else None
    needs_model = row is not None and row.needs_model
    if is_set and not needs_model:
        raise InvalidConfiguration(
            f"The setting rerank_model has no use with rerank_kind {kind!r}.",
            advice="Remove it, or change rerank_kind.",
        )
    if needs_model and not is_set:
        raise InvalidConfiguration(f"rerank_kind {kind!r} needs the setting rerank_model.")


def rerank_options(context: ModelContext, given: Reranker | None = None) -> RerankOptions | None:
    """Return the configured reranker, or `given`, with its limits; None if there is none.

    It connects, or loads its model, when it is first used.
    """
    options = context.settings.rerank
    if given is None and not options.kind:
        return None
    from truespan.retrieval.rerank import SECONDS, RerankOptions

    reranker = given
    if reranker is None:
        row = RERANKERS.get(options.kind) or tables().rerankers[options.kind]
        reranker = cast("Reranker", import_member(row.make)(context, SECONDS))
    return RerankOptions(reranker)


def answer_rules(settings: Settings, *, known: Distance | None = None) -> AnswerRules:
    """Return the rules of answers; `known` is the distance of every profile, if known."""
    wanted = settings.answer.retrieval_distance
    distance = Distance(wanted) if wanted else None
    calibrated = _calibrated(settings)
    if calibrated and settings.answer.score_mode == ScoreMode.RAW:
        raise InvalidConfiguration(
            "answer_thresholds is 'calibrated' and answer_score_mode is 'raw', but calibrated "
            "thresholds are normalized similarities.",
            advice="Set answer_score_mode to 'normalized', or answer_thresholds to 'contract'.",
        )
    if known is not None and distance not in (None, known):
        raise InvalidConfiguration(
            f"answer_retrieval_distance is {distance.value!r}, but the vectors of the configured "
            f"models are compared by {known.value!r}.",
            advice=f"Set it to {known.value!r}, or leave it empty.",
        )
    if settings.answer.min_chunks_for_hybrid > ANSWER_TOP_K:
        raise InvalidConfiguration(
            f"answer_min_chunks_for_hybrid is {settings.answer.min_chunks_for_hybrid}, but only "
            f"{ANSWER_TOP_K} passages are retrieved, so no hybrid answer would be possible.",
            advice=f"Set it to at most {ANSWER_TOP_K}.",
        )
    short = ("short_query_threshold_low", "short_query_threshold_high")
    return AnswerRules(
        decision=_decision_settings(settings, distance or known),
        distance=distance,
        calibrated=calibrated,
        own_thresholds=frozenset(n for n in short if ANSWER_PREFIX + n in settings.written),
        min_evidence=settings.answer.min_evidence,
        log_queries=settings.usage.log_queries,
        usage_days=settings.usage.days,
    )


def conversation_rules(settings: Settings) -> ConversationRules:
    """Return the rules of conversations."""
    return ConversationRules(days=settings.conversation.days)


def _calibrated(settings: Settings) -> bool | None:
    """Return whether measured thresholds apply in every world; None if each world decides."""
    if settings.answer.thresholds:
        return settings.answer.thresholds == "calibrated"
    names = {ANSWER_PREFIX + name for name in Calibration.__struct_fields__}
    written = not settings.written.isdisjoint(names)
    return False if written or settings.answer.score_mode == ScoreMode.RAW else None


def _decision_settings(settings: Settings, distance: Distance | None) -> DecisionSettings:
    kinds = settings.answer.exclude_chunk_types_from_llm.split(",")
    try:
        excluded = tuple(ChunkKind(kind.strip()) for kind in kinds if kind.strip())
    except ValueError:
        raise InvalidConfiguration(
            "answer_exclude_chunk_types_from_llm names an unknown kind of chunk.",
            advice=f"Known kinds: {', '.join(ChunkKind)}.",
        ) from None
    if ChunkKind.TEXT in excluded and not settings.docx.figure_chunks:
        raise InvalidConfiguration(
            "answer_exclude_chunk_types_from_llm names 'text' while docx_figure_chunks is off, so "
            "every chunk would be excluded.",
            advice="Remove 'text' from it.",
        )
    others = ("exclude_chunk_types_from_llm", "score_mode", "distance", "evidence")
    names = set(DecisionSettings.__struct_fields__).difference(others)
    values = {name: getattr(settings.answer, name) for name in names}
    mode = ScoreMode(settings.answer.score_mode)
    if distance is None:
        # Raw thresholds may be set for only one distance; the default is cosine.
        has_dot = None not in (values["raw_dot_low"], values["raw_dot_high"])
        has_cosine = None not in (values["raw_cosine_low"], values["raw_cosine_high"])
        only_dot = mode is ScoreMode.RAW and has_dot and not has_cosine
        distance = Distance.DOT if only_dot else Distance.COSINE
    try:
        return DecisionSettings(
            **values, exclude_chunk_types_from_llm=excluded, score_mode=mode, distance=distance
        )
    except InvalidConfiguration as problem:
        raise InvalidConfiguration(
            f"Settings that begin with {ANSWER_PREFIX!r}: {problem.message}", advice=problem.advice
        ) from None
