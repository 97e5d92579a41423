// Codes of the API in words for people. A code that is not here is shown as it is.

const VERDICTS = {
  returned: "given to the model",
  absent: "not there",
  not_embedded: "not embedded yet",
  not_trusted: "not trusted",
  filtered_out: "left out by a filter",
  below_floor: "below the floor",
  unrelated_to_selection: "unrelated to the selection",
  excluded_kind: "a figure, shown apart",
  duplicate_passage: "already within another",
  over_budget: "too large for what was left",
  outranked: "others were closer",
  stale_vector: "changed since it was embedded",
  missing_chunk: "its text is missing",
  damaged_text: "its text is damaged",
  orphan_point: "belongs to nothing",
  quarantined_chunk: "set aside as damaged",
};

const REASONS = {
  nothing_found: "Nothing reached the low threshold.",
  nothing_usable: "What was found is of excluded kinds, or too large.",
  below_low: "The best passage lies below the low threshold.",
  gate_failed: "The best passage lies between the thresholds, and a gate did not hold.",
  primary_blank: "The model said nothing.",
  primary_no_context: "The model found no answer in the passages.",
  reached_high: "The best passage reached the high threshold.",
  gates_held: "The best passage lies between the thresholds, and all gates held.",
};

const REFUSALS = {
  reading: "A reader gets no answer from a model’s memory: it might tell the end.",
  no_fallback_model: "No model is set that could answer without passages.",
  fallback_silent: "The model that was asked without passages had no answer.",
};

const MODES = {
  rag: "from the sources",
  hybrid: "from the sources, with care",
  fallback: "not from the sources",
};

const GATES = {
  min_similarity_for_hybrid: "best similarity",
  min_chunks_for_hybrid: "passages",
  min_total_context_chars: "characters of context",
};

const STATUSES = {
  success: "Found",
  partial: "Fewer than asked for",
  no_matches: "Nothing matches",
  error: "Failed",
};

const SPEAKERS = {
  primary: "a model spoke",
  fallback: "a model spoke without passages",
  none: "no model spoke: these are the passages themselves",
};

const PHASES = {
  reading: "Reading",
  embedding: "Embedding",
  metadata: "Deriving metadata",
  removing: "Removing what is gone",
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

/** Return a score as it is shown. */
export const score = (value) => value.toFixed(3);

/** Return sentence numbers as people say them. */
export function sentences(first, last) {
  return first === last ? `sentence ${first}` : `sentences ${first}–${last}`;
}

/** Return labels without repeating one that is the same as the one before. */
export function trail(...labels) {
  return labels.filter((label, at) => label && label !== labels[at - 1]);
}
