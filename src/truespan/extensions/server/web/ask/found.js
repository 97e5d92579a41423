// One shape for the results of search and retrieve, so that both are shown alike.

function ofChunk(chunk, note) {
  return {
    id: chunk.chunk_id,
    score: chunk.relevance_score,
    text: chunk.content,
    tokens: chunk.token_count,
    document: note.document,
    source: note.source_url,
    title: note.title,
    chapter: chunk.chapter,
    section: chunk.section,
    location: note.location,
    language: note.text_language || note.language,
    first: note.first_sid,
    last: note.last_sid,
    hash: note.text_hash,
    generation: note.generation,
    fused: note.fused,
    rerank: note.rerank,
    match: note.match,
    best_sentence: note.best_sentence,
    others: note.other_places,
  };
}

/** Convert a bundle. */
export function ofBundle(bundle) {
  const account = bundle.metadata;
  return {
    passages: bundle.retrieved_chunks.map((chunk, at) => ofChunk(chunk, account.sources[at])),
    figures: account.figures,
    status: bundle.status,
    tokens: bundle.total_tokens,
    context: bundle.context,
    funnel: account.funnel,
    skipped: account.skipped,
    warnings: account.warnings,
    misses: account.near_misses,
    located: account.located,
    floor: account.floor,
    discriminates: account.floor_discriminates,
    trace: account.trace,
    asked: account.original_top_k,
    ms: account.processing_time_ms,
  };
}

function ofPassage(one) {
  return {
    id: one.chunk_id,
    score: one.score,
    text: one.text,
    tokens: one.token_count,
    document: one.document,
    source: one.source_url,
    title: one.title,
    chapter: one.chapter,
    section: one.section,
    location: one.location,
    language: one.text_language || one.language,
    first: one.first_sid,
    last: one.last_sid,
    hash: one.receipt.text_hash,
    generation: one.receipt.generation,
    fused: one.fused,
    rerank: one.rerank,
    match: one.match,
    best_sentence: one.best_sentence,
    others: one.other_places,
    figure: one.chunk_type === "figure" ? one : null,
  };
}

/** Convert the result of a search. */
export function ofSearch(result) {
  const passages = result.passages.map(ofPassage);
  return {
    passages,
    figures: [],
    status: passages.length ? "success" : "no_matches",
    tokens: passages.reduce((sum, one) => sum + one.tokens, 0),
    context: result.context,
    funnel: result.funnel,
    skipped: result.skipped,
    warnings: result.warnings,
    misses: [],
    located: [],
    floor: result.floor,
    discriminates: result.floor_discriminates,
    trace: [],
    asked: result.requested_k,
    ms: result.processing_time_ms,
  };
}

const blend = (one) => one.fused?.blend ?? -1;

/** Return the score by which a passage is ranked, and what it is: of the reranker, of words and similarity, or similarity. */
export function rankScore(one) {
  if (one.rerank) return { name: "rerank", score: one.rerank.score };
  if (one.fused) return { name: "blend", score: one.fused.blend ?? null };
  return { name: "similarity", score: one.score };
}

const byPlace = (a, b) => a.document - b.document || a.first - b.first || a.last - b.last;
/** As the reranker ordered them, by words and similarity, or by similarity. */
const byRank = (a, b) =>
  (a.rerank && b.rerank ? a.rerank.after - b.rerank.after : 0) ||
  (a.fused || b.fused ? blend(b) - blend(a) : 0) ||
  b.score - a.score ||
  byPlace(a, b);

/** Return passages by rank, or in reading order. */
export const ordered = (passages, ranked) => [...passages].sort(ranked ? byRank : byPlace);

/** Return the best score by which passages are ranked, for bars beside each other. */
export const topOf = (passages) => Math.max(...passages.map((one) => rankScore(one).score ?? 0)) || 1;

/** Split passages at a position: those a reader there gets, and those past it. */
export function parted(passages, position) {
  const at = position === null ? -1 : position;
  return {
    given: passages.filter((one) => one.last <= at),
    ahead: passages.filter((one) => one.last > at),
  };
}
