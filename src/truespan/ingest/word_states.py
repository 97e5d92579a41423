"""States of words for texts that are embedded already: texts without states, and damaged rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from truespan.ingest.embed import embed_texts
from truespan.ingest.report import IngestDeps
from truespan.protocols import find_state_embedder
from truespan.types.ids import ChunkId, TextHash, hash_bytes
from truespan.types.scope import Scope

if TYPE_CHECKING:
    from truespan.store import Store

_PAGE = 256


def fill_word_states(deps: IngestDeps, scope: Scope) -> int:
    """Compute the missing and damaged states of a generation; return the number of texts.

    Nothing is done in a world without states, or if the model does not give any.
    """
    if not deps.word_states or find_state_embedder(deps.embedder) is None:
        return 0
    if deps.embedder.profile.id != scope.profile.id:
        return 0
    store, after, filled = deps.store, TextHash(""), 0
    if damaged := [text_hash for text_hash, _ in store.word_state_flaws(scope)]:
        store.forget_word_states(scope, damaged)
    while lacking := store.lacking_word_states(scope, after=after, limit=_PAGE):
        after = lacking[-1][0]
        batches = embed_texts(
            deps.embedder,
            _read_texts(store, scope, [chunk_id for _, chunk_id in lacking]),
            deps.limits,
            deps.clock,
            counter=deps.counter,
            on_token_limit=deps.preparation.on_token_limit,
            word_states=True,
        )
        for batch in batches:
            store.keep_word_states(scope, batch.states)
            filled += len(batch.states)
    return filled


def _read_texts(store: Store, scope: Scope, ids: list[ChunkId]) -> dict[TextHash, str]:
    """Return the texts of chunks by their hashes, computed here; damaged chunks are left out."""
    return {
        hash_bytes(record.chunk.data): record.chunk.data.decode()
        for record in store.read_chunks(scope, ids).values()
        if record.chunk is not None and record.is_intact()
    }
