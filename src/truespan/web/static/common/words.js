// Texts for codes of the API. An unknown code is shown as it is.

const VERDICTS = {
  returned: "given to the model",
  absent: "does not exist",
  not_embedded: "not embedded yet",
  not_trusted: "not trusted",
  filtered_out: "left out by a filter",
  below_floor: "below the minimum similarity",
  unrelated_to_selection: "unrelated to the selection",
  excluded_kind: "a figure, shown separately",
  duplicate_passage: "contained in another passage",
  over_budget: "too large for the remaining budget",
  outranked: "others were closer",
  stale_vector: "changed since it was embedded",
  missing_chunk: "its text is missing",
  damaged_text: "its text is damaged",
  orphan_point: "belongs to no document",
  quarantined_chunk: "quarantined as damaged",
};

const REASONS = {
  nothing_found: "Nothing reached the low threshold.",
  nothing_usable: "What was found is of an excluded kind, or too large.",
  below_low: "The best passage is below the low threshold.",
  gate_failed: "The best passage is between the thresholds, and a check failed.",
  primary_blank: "The model returned nothing.",
  primary_no_context: "The model found no answer in the passages.",
  reached_high: "The best passage reached the high threshold.",
  gates_held: "The best passage is between the thresholds, and all checks passed.",
};

const REFUSALS = {
  reading: "A reader gets no answer from a model’s memory: it might contain spoilers.",
  no_fallback_model: "No model is configured to answer without passages.",
  fallback_silent: "The model had no answer without passages either.",
};

const MODES = {
  rag: "from the sources",
  hybrid: "from the sources, with less certainty",
  fallback: "not from the sources",
};

const GATES = {
  min_similarity_for_hybrid: "best similarity",
  min_coverage: "words of the question in a passage",
  min_chunks_for_hybrid: "passages",
  min_total_context_chars: "characters of context",
};

const STATUSES = {
  success: "Found",
  partial: "Fewer than asked for",
  no_matches: "No matches",
  error: "Failed",
};

const SPEAKERS = {
  primary: "written by a chat model",
  fallback: "written by a chat model without passages",
  none: "no chat model was used: these are the passages themselves",
};

const PHASES = {
  reading: "Reading",
  embedding: "Embedding",
  metadata: "Deriving metadata",
  removing: "Removing deleted documents",
  waiting: "Waiting for a worker",
  finished: "Finishing",
};

const known = (table) => (code) => (Object.hasOwn(table, code) ? table[code] : String(code));

export const verdict = known(VERDICTS);
export const reason = known(REASONS);
export const refusal = known(REFUSALS);
export const mode = known(MODES);
export const gate = known(GATES);
export const status = known(STATUSES);
export const speaker = known(SPEAKERS);
export const phase = known(PHASES);

/** Return a count with its noun. */
export function many(count, one, more = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : more}`;
}

/** Format a score. */
export const score = (value) => value.toFixed(3);

/** Format sentence numbers. */
export function sentences(first, last) {
  return first === last ? `sentence ${first}` : `sentences ${first}–${last}`;
}

/** Return labels without empty ones and repetitions. */
export function trail(...labels) {
  return labels.filter((label, at) => label && label !== labels[at - 1]);
}
