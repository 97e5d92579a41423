"""Join the search for a question with the searches for queries that a chat model wrote.

Generated words decide which further chunks are considered, and the order. They leave no score: each
chunk has its similarity to the question as asked, which must reach the floor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from truespan.retrieval.pipeline import Attempt, Pipeline
from truespan.retrieval.stages import drop_invalid_hits
from truespan.types.answer import Shortlist
from truespan.types.ids import ChunkId
from truespan.types.scope import Scope
from truespan.types.trust import Verified, Visible
from truespan.types.vectors import Vector

MAX_JOINING = 10
"""Maximum number of chunks of one further search, and of all chunks that join the question's."""


def join_searches(
    pipeline: Pipeline,
    attempt: Attempt,
    scope: Scope,
    vector: Vector,
    floor: float,
    *,
    texts: Sequence[str],
    chosen: Sequence[Visible],
    shortlist_best: Callable[[list[Verified], int], Shortlist],
) -> tuple[Visible, ...]:
    """Return the chosen chunks of a question and those of `texts`, by their best rank.

    Of equal ranks, the chunk that more searches found comes first, and the question's before
    others. Reciprocal ranks would put a chunk that one query alone finds behind all others. All
    chosen chunks stay, and at most `MAX_JOINING` others join them. `vector` is that of the
    question.
    """
    searches = [chosen]
    for text in texts:
        further = Attempt(attempt.world, attempt.mode, text)
        found = pipeline.fetch(
            further,
            scope,
            pipeline.embed(scope, attempt.world, text).vector,
            k=min(MAX_JOINING, attempt.in_scope),
            floor=None,
            select=lambda verified: shortlist_best(verified, MAX_JOINING),
        )
        searches.append(found.chunks)
        _keep_failures(attempt, further)
    ranks = defaultdict[ChunkId, list[int]](list)
    for chunks in searches:
        for rank, chunk in enumerate(chunks):
            ranks[chunk.chunk_id].append(rank)

    def order(chunk: Visible) -> tuple[int, int]:
        found = ranks[chunk.chunk_id]
        return min(found), -len(found)

    known = {chunk.chunk_id for chunk in chosen}
    others = {
        chunk.chunk_id: chunk
        for chunks in searches[1:]
        for chunk in chunks
        if chunk.chunk_id not in known
    }
    joining = _score_by_question(pipeline, scope, vector, floor, others)
    return tuple(sorted([*chosen, *sorted(joining, key=order)[:MAX_JOINING]], key=order))


def _keep_failures(attempt: Attempt, further: Attempt) -> None:
    """Add the chunks that a further search could not verify to the failures of the question."""
    failed = {failure.chunk_id for failure in attempt.fetched.failures}
    new = [failure for failure in further.fetched.failures if failure.chunk_id not in failed]
    attempt.fetched = replace(attempt.fetched, failures=[*attempt.fetched.failures, *new])


def _score_by_question(
    pipeline: Pipeline,
    scope: Scope,
    vector: Vector,
    floor: float,
    chunks: dict[ChunkId, Visible],
) -> list[Visible]:
    """Return the chunks that reach the floor, with their similarity to the question alone."""
    if not chunks:
        return []
    _, named = pipeline.deps.index.search_with(scope, vector, limit=0, floor=floor, ids=[*chunks])
    hits = {hit.chunk_id: hit for hit in drop_invalid_hits(named, floor)}
    return [
        replace(chunk, score=hit.score, fused=None)
        for id, chunk in chunks.items()
        if (hit := hits.get(id)) and hit.text_hash == (chunk.embedded_hash or chunk.text_hash)
    ]
