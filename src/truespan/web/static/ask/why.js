// The explanation: the funnel, skipped passages, near misses, and the decision.

import { bar, byId, fill, make, tick } from "../common/dom.js";
import { funnel, scale } from "./pictures.js";
import * as words from "../common/words.js";

let found = null;
let answer = null;

function section(title, ...inside) {
  return make("section", { class: "why" }, make("h3", {}, title), inside);
}

function skipped(entries) {
  if (!entries.length) return make("p", { class: "hint" }, "Nothing that was fetched was left out.");
  return make("ul", { class: "plain" }, entries.map((entry) => make("li", { "data-code": entry.code }, make("b", {}, entry.count), ` left out: ${words.verdict(entry.code)}`)));
}

function floor() {
  if (found.floor === null) return make("p", { class: "hint" }, "A reader’s request has no minimum similarity: the closest of what was read is returned.");
  const kept = { true: "excludes most unrelated text", false: "admits most unrelated text" }[found.discriminates];
  return make("p", { class: "hint" }, `The minimum similarity is ${found.floor}`, kept ? `; with this model it ${kept}.` : ".");
}

function misses() {
  if (!found.misses.length) return null;
  return section(
    "Near misses",
    make("p", { class: "hint" }, "Verified, permitted, and just below the minimum similarity. They are not part of the context."),
    make("ul", { class: "rows" }, found.misses.map((miss) =>
      make("li", {}, make("span", { class: "score" }, bar(miss.score, "dim"), words.score(miss.score)), make("span", { class: "where" }, words.trail(miss.path, miss.chapter).join(" › "))))),
  );
}

function gates(explained) {
  if (!explained.gates.length) return null;
  return make("ul", { class: "gates" }, explained.gates.map((gate) =>
    make("li", { class: gate.held ? "held" : "failed" }, tick(gate.held), `${words.gate(gate.name)}: ${gate.found}`, make("small", {}, ` needs ${gate.needed}: ${gate.held ? "passed" : "failed"}`))));
}

function retrieved(notes) {
  if (!notes.length) return null;
  return [
    make("h4", {}, "Passages retrieved for the answer"),
    make("ul", { class: "rows" }, notes.map((note) =>
      make(
        "li",
        { class: note.verdict === "returned" ? "chosen" : "" },
        make("span", { class: "score" }, bar(note.similarity, note.verdict === "returned" ? "" : "dim"), words.score(note.similarity)),
        make("span", { class: "where", title: note.text }, words.trail(note.source_url, note.chapter, note.section).join(" › ")),
        make("span", { class: "verdict" }, words.verdict(note.verdict)),
      ))),
  ];
}

function decision() {
  if (!answer) return section("Decision", make("p", { class: "empty" }, "Request an answer to see whether the passages are enough to answer from."));
  const explained = answer.decision_explain;
  const counts = explained.counts;
  return section(
    "Decision",
    make("p", { class: "decided" }, make("b", { class: `mode ${explained.mode}` }, explained.mode), ` ${words.mode(explained.mode)}`),
    scale(explained),
    make("p", {}, words.reason(explained.reason), explained.refusal && ` ${words.refusal(explained.refusal)}`),
    gates(explained),
    make("p", { class: "hint" },
      `${counts.used} of ${words.many(counts.retrieved, "passage")} used, ${words.many(counts.context_characters, "character")} of context; `,
      `${words.speaker(explained.used_llm)}.`,
      explained.short_query_active && " The question is short, so the thresholds are higher.",
      explained.max_similarity !== null && ` Best similarity ${words.score(explained.max_similarity)}, ${explained.distance}.`,
      answer.record && [" Record ", make("code", {}, answer.record), "."]),
    retrieved(answer.retrieved_chunks_metadata),
  );
}

function render() {
  const panel = byId("panel-why");
  if (!found) return;
  const took = make("p", { class: "hint" }, `Time: ${found.ms.toLocaleString("en")} ms.`);
  const trace = found.trace.length ? make("p", { class: "trace" }, found.trace.join(" → ")) : null;
  fill(
    panel,
    section("From the library to the context", funnel(found.funnel), skipped(found.skipped), floor(), trace, took),
    misses(),
    decision(),
  );
}

/** Explain a context. */
export function explain(result) {
  found = result;
  render();
}

/** Explain an answer too; null if there is none for the current question. */
export function explainAnswer(given) {
  answer = given;
  render();
}

/** Clear the explanation. */
export function forget() {
  found = null;
  answer = null;
}
