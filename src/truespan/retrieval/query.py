"""The query: its vector from the cache or an embedder, its language, and the use of a floor.

The language of a short query is recognised by its stop words. If it is unknown, the query counts as
one in the language of each text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, cast

from truespan import errors
from truespan.protocols import Embedder, RemoteEmbedder, find_state_embedder
from truespan.retrieval.checks import name_model
from truespan.retrieval.deps import RetrievalDeps
from truespan.types.bundle import Notice
from truespan.types.chunk import QueryEntry
from truespan.types.ids import TextHash, WorldId, hash_text
from truespan.types.profile import Calibration, EmbeddingProfile
from truespan.types.scope import Scope, Verb, World
from truespan.types.telemetry import CacheOutcome, CounterName
from truespan.types.vectors import (
    MAX_WORDS,
    ROW_BYTES,
    QueryStates,
    Vector,
    is_sound,
    join_states,
    mean_of,
    weighted_mean,
)

if TYPE_CHECKING:
    from truespan.store import Store

SCORE_DECIMALS = 6
INSTRUCTION_ROOM = 32
"""Tokens left free for a model's query instruction when a long text is split."""


def round_score(score: float) -> float:
    """Return a score as shown in results: within [0, 1], with six decimals.

    Rounding errors can put a cosine slightly outside the range. Compare scores before rounding.
    """
    rounded = round(score, SCORE_DECIMALS)
    return 0.0 if rounded < 0.0 else 1.0 if rounded > 1.0 else rounded


TTL_SECONDS = 24 * 3600.0


def cache_key(world: WorldId, endpoint: str, profile: EmbeddingProfile, text: str) -> str:
    """Return a digest of everything that determines a query vector.

    Each part is preceded by its length, so that no two lists of parts produce the same bytes.
    """
    parts = (
        world,
        profile.provider,
        endpoint,
        profile.model,
        profile.revision,
        str(profile.dimensions),
        "confirmed query",
        profile.query_mode,
        text,
    )
    pieces = [part.encode() for part in parts]
    return sha256(b"".join([len(data).to_bytes(8, "big") + data for data in pieces])).hexdigest()


def candidates_for(deps: RetrievalDeps, profile: EmbeddingProfile) -> Iterator[Embedder]:
    """Yield the embedders that may have a profile, found without a request.

    An embedder is created only if its provider is the profile's, the default one is not known to
    have the profile, and no earlier one was enough for the caller.
    """
    # Asking whether an embedder fits the protocol would look at every member.
    if not hasattr(deps.embedder, "may_have") and deps.embedder.profile.id == profile.id:
        yield deps.embedder
        return
    others = deps.others.values()
    own = (other.embedder() for other in others if other.provider == profile.provider)
    for embedder in chain(own, (deps.embedder,)):
        if (
            cast("RemoteEmbedder", embedder).may_have(profile)
            if hasattr(embedder, "may_have")
            else embedder.profile.id == profile.id
        ):
            yield embedder


def embedder_for(deps: RetrievalDeps, profile: EmbeddingProfile) -> Embedder:
    """Return the embedder of a generation's profile; the default one if no other has it."""
    for embedder in candidates_for(deps, profile):
        if embedder is not deps.embedder and embedder.profile.id == profile.id:
            return embedder
    return deps.embedder


def split_query(deps: RetrievalDeps, text: str, limit: int) -> list[str]:
    """Cut a long text at sentence ends into parts that a model with a token limit reads."""
    from truespan.ingest.chunking import split_text

    return split_text(text, deps.counter, limit - INSTRUCTION_ROOM)


def embed_shown(
    deps: RetrievalDeps, scope: Scope, texts: Mapping[TextHash, str]
) -> dict[TextHash, Vector]:
    """Return the vectors of texts with a scope's profile; nothing is stored.

    A text beyond the input limit of the model gets the mean of the vectors of its parts. Some
    providers embed only its beginning instead of refusing it.
    """
    from truespan.ingest.chunking import split_text
    from truespan.ingest.embed import embed_texts

    limit = scope.profile.input_limit
    parts = {
        known: split_text(text, deps.counter, limit)
        for known, text in texts.items()
        if deps.counter.count(text) > limit
    }
    sent = {known: text for known, text in texts.items() if known not in parts}
    sent |= {hash_text(part): part for listed in parts.values() for part in listed}
    batches = embed_texts(
        embedder_for(deps, scope.profile),
        sent,
        deps.limits,
        deps.clock,
        counter=deps.counter,
        on_token_limit=deps.preparation.on_token_limit,
    )
    found = {known: vector for batch in batches for known, vector in batch.vectors.items()}
    for known, listed in parts.items():
        vectors = [found.get(hash_text(part)) for part in listed]
        if all(vectors):
            counts = [deps.counter.count(part) for part in listed]
            found[known] = weighted_mean([each for each in vectors if each], counts)
    return found


class EmbeddedQuery(NamedTuple):
    """The vector of a query, and the states of its words if requested and given by the model."""

    vector: Vector
    states: QueryStates | None = None


def embed_query(
    deps: RetrievalDeps, scope: Scope, text: str, world: World | None = None
) -> EmbeddedQuery:
    """Return a stripped query, embedded under the scope's locked profile.

    A cached query needs no provider if its model was confirmed afterwards, or before by this
    process; otherwise the model is confirmed first. The defaults of `world`, if it is given, decide
    whether states of words are wanted, and whether a query beyond the input limit of the model has
    the mean of the vectors of its parts.

    Raises:
        ProfileMismatch: another model is configured.
        ModelDrifted: the provider has another model under the same name.
        QueryTooLong: the query is beyond the input limit.
    """
    profile, recent, now = scope.profile, deps.recent_queries, deps.clock.now()
    defaults = None if world is None else world.defaults.values
    word_states = defaults is not None and deps.word_states and not defaults.plain
    for embedder in candidates_for(deps, profile):
        key = cache_key(scope.world, embedder.endpoint, profile, text)
        cached = deps.store.records.cached_query(scope, key, now=now, ttl=TTL_SECONDS)
        if cached is None and (cached := recent.find(scope, key, now=now, ttl=TTL_SECONDS)):
            # The store may have been busy before.
            recent.write(deps.store, scope, now)
        if cached is None or not is_sound(cached.vector, profile.dimensions):
            continue
        states = None
        if word_states and cached.states is None:
            # They were not requested when the query was embedded.
            continue
        if word_states and cached.states:
            # Imported here because a search by similarity alone needs no words.
            from truespan.words.terms import distinct_words

            # The cache has no words, so that it does not reveal queries.
            words = distinct_words(text, MAX_WORDS)
            if len(cached.states) != len(words) * ROW_BYTES:
                continue
            states = QueryStates(words, cached.states)
        if cached.unconfirmed and not deps.model_check.knows(scope):
            _confirm_model(deps, scope, _choose_embedder(deps, profile))
        deps.trace.count(CounterName.QUERY_CACHE, 1, CacheOutcome.HIT)
        return EmbeddedQuery(cached.vector, states)
    try:
        return _embed_and_cache(deps, scope, text, now, word_states=word_states)
    except errors.QueryTooLong:
        if defaults is None or defaults.plain:
            raise
        parts = split_query(deps, text, profile.input_limit)
        if len(parts) == 1:
            raise
    found = [embed_query(deps, scope, part, world) for part in parts]
    states = [part.states for part in found if part.states is not None]
    vector = mean_of([part.vector for part in found])
    return EmbeddedQuery(vector, join_states(states) if states else None)


def _embed_and_cache(
    deps: RetrievalDeps, scope: Scope, text: str, now: float, *, word_states: bool
) -> EmbeddedQuery:
    """Embed a query, after checking that the provider still serves the same model."""
    profile = scope.profile
    embedder = _choose_embedder(deps, profile)
    deps.trace.count(CounterName.QUERY_CACHE, 1, CacheOutcome.MISS)
    try:
        query = _embed(embedder, profile, text, word_states=word_states)
    except errors.ProviderUnavailable:
        deps.model_check.forget(scope)
        raise
    unconfirmed = None if _confirm_model(deps, scope, embedder) else name_model(scope, embedder)
    rows = (query.states.rows if query.states else b"") if word_states else None
    key = cache_key(scope.world, embedder.endpoint, profile, text)
    deps.recent_queries.add(scope, QueryEntry(key, query.vector, rows, now, unconfirmed))
    deps.recent_queries.write(deps.store, scope, now)
    return query


def _choose_embedder(deps: RetrievalDeps, profile: EmbeddingProfile) -> Embedder:
    embedder = embedder_for(deps, profile)
    if embedder.profile.id != profile.id:
        raise errors.ProfileMismatch(str(profile), str(embedder.profile))
    return embedder


def _confirm_model(deps: RetrievalDeps, scope: Scope, embedder: Embedder) -> bool:
    """Confirm a model; return False if an earlier confirmation counts."""
    try:
        return deps.model_check.confirm(deps.store, deps.clock, scope, embedder)
    except errors.ModelDrifted:
        deps.recent_queries.discard_unconfirmed(scope)
        raise


def _embed(
    embedder: Embedder, profile: EmbeddingProfile, text: str, *, word_states: bool
) -> EmbeddedQuery:
    tokens = embedder.count_query(text)
    if tokens > profile.input_limit:
        raise errors.QueryTooLong(tokens, profile.input_limit)
    with_states = find_state_embedder(embedder) if word_states else None
    if with_states is not None:
        query = EmbeddedQuery(*with_states.embed_query_with_states(text))
    else:
        query = EmbeddedQuery(embedder.embed_query(text))
    if not is_sound(query.vector, profile.dimensions):
        raise errors.ProviderBadReply(
            f"The query vector is not one of {profile.dimensions} finite numbers."
        )
    return query


LOW_FLOOR = Notice(
    "floor_does_not_discriminate",
    "Most unrelated text reaches this floor under the embedding profile in use; "
    "'truespan calibrate' proposes one that keeps it out.",
)


def calibration_of(
    store: Store, scope: Scope, world: World | None = None, *, shipped_first: bool = False
) -> Calibration | None:
    """Return the calibration measured in this world, or the one shipped with the profile.

    It is read once for each state of a world, if that is given. Readers and callers with a limited
    audience get the shipped one: a calibration measured on all documents reveals the others. The
    order of results uses the `shipped_first`: a measured one changes with the world.
    """
    shipped = scope.profile.calibration
    if shipped_first and shipped is not None:
        return shipped
    unbounded = scope.position is None and scope.authority.may(Verb.READ, scope.world)
    unbounded = unbounded and not scope.is_limited
    measured = store.records.kept_calibration(scope, world) if unbounded else None
    return measured or shipped


def query_language(profile: EmbeddingProfile, query: str) -> str | None:
    """Return the language of a query; None if it is unknown, or if the model knows only one.

    It depends on the query alone, so that no text changes it.
    """
    languages = profile.languages or frozenset()
    return _detect(query, languages) if len(languages) > 1 else None


# Shared by threads: an `lru_cache` of texts, which locks.
@lru_cache(maxsize=64)
def _detect(query: str, languages: frozenset[str]) -> str | None:
    """Detect a language; a request asks several times."""
    # Imported here because the tables of the detector take 70 MB.
    from truespan.text.language import detect_language

    return detect_language(query) or _language_of_stop_words(query, languages)


def _language_of_stop_words(query: str, languages: Iterable[str]) -> str | None:
    """Return the language that has two or more words of a query as stop words.

    It must have twice as many as any other language; None if no language does.
    """
    # Imported here because a search by similarity alone needs no words.
    from truespan.words.stop_words import STOP_WORDS
    from truespan.words.terms import stemmer_of, words

    listed = set(words(query))
    counts = sorted(
        (len(listed & STOP_WORDS.get(stemmer_of(language), frozenset())), language)
        for language in languages
    )
    (second, _), (most, language) = counts[-2:]
    return language if most >= max(2, 2 * second) else None
