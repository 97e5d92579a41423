// The explanation: the funnel, skipped passages, near misses, and the decision.

import { bar, byId, fill, make, tick } from "../common/dom.js";
import { funnel, scale } from "./pictures.js";
import { texts } from "../common/texts.js";
import * as words from "../common/words.js";

const t = texts.ask.why;
let found = null;
let answer = null;

function section(title, ...inside) {
  return make("section", { class: "why" }, make("h3", {}, title), inside);
}

function skipped(entries) {
  if (!entries.length) return make("p", { class: "hint" }, t.nothingLeftOut);
  return make("ul", { class: "plain" }, entries.map((entry) => make("li", { "data-code": entry.code }, make("b", {}, entry.count), ` ${t.leftOut(words.verdict(entry.code))}`)));
}

function floor() {
  if (found.floor === null) return make("p", { class: "hint" }, t.readerFloor);
  const kept = { true: t.floorExcludes, false: t.floorAdmits }[found.discriminates];
  return make("p", { class: "hint" }, t.floor(found.floor, kept));
}

function misses() {
  if (!found.misses.length) return null;
  return section(
    t.nearMisses,
    make("p", { class: "hint" }, t.nearMissesHint),
    make("ul", { class: "rows" }, found.misses.map((miss) =>
      make("li", {}, make("span", { class: "score" }, bar(miss.score, "dim"), words.score(miss.score)), make("span", { class: "where" }, words.trail(miss.path, miss.chapter).join(" › "))))),
  );
}

function gates(explained) {
  if (!explained.gates.length) return null;
  return make("ul", { class: "gates" }, explained.gates.map((gate) =>
    make("li", { class: gate.held ? "held" : "failed" }, tick(gate.held), `${words.gate(gate.name)}: ${gate.found}`, make("small", {}, ` ${t.gate(gate.needed, gate.held)}`))));
}

function retrieved(notes) {
  if (!notes.length) return null;
  return [
    make("h4", {}, t.retrieved),
    make("ul", { class: "rows" }, notes.map((note) =>
      make(
        "li",
        { class: note.verdict === "returned" ? "chosen" : "" },
        make("span", { class: "score" }, bar(note.similarity, note.verdict === "returned" ? "" : "dim"), words.score(note.similarity)),
        make("span", { class: "where", title: note.text }, words.place(note, [note.source_url, note.chapter, note.section])),
        make("span", { class: "verdict" }, words.verdict(note.verdict)),
      ))),
  ];
}

function decision() {
  if (!answer) return section(t.decision, make("p", { class: "empty" }, answer === undefined ? t.decisionStored : t.noDecision));
  const explained = answer.decision_explain;
  const counts = explained.counts;
  return section(
    t.decision,
    make("p", { class: "decided" }, make("b", { class: `mode ${explained.mode}` }, explained.mode), ` ${words.mode(explained.mode)}`),
    scale(explained),
    make("p", {}, words.reason(explained.reason), explained.refusal && ` ${words.refusal(explained.refusal)}`),
    gates(explained),
    make("p", { class: "hint" },
      t.used(counts.used, words.many(counts.retrieved, t.passage, t.passages), words.many(counts.context_characters, t.character, t.characters)), " ",
      `${words.speaker(explained.used_llm)}.`,
      explained.short_query_active && ` ${t.shortQuestion}`,
      explained.max_similarity !== null && ` ${t.bestSimilarity(words.score(explained.max_similarity), explained.distance)}`,
      answer.record && [` ${t.record} `, make("code", {}, answer.record), "."]),
    retrieved(answer.retrieved_chunks_metadata),
  );
}

function render() {
  const panel = byId("panel-why");
  if (!found) return;
  const took = make("p", { class: "hint" }, t.time(found.ms));
  const trace = found.trace.length ? make("p", { class: "trace" }, found.trace.join(" → ")) : null;
  fill(
    panel,
    section(t.funnelTitle, funnel(found.funnel), skipped(found.skipped), floor(), trace, took),
    misses(),
    decision(),
  );
}

/** Explain a context. */
export function explain(result) {
  found = result;
  render();
}

/** Explain an answer too; null if there is none, undefined if its decision is not known. */
export function explainAnswer(given) {
  answer = given;
  render();
}

/** Clear the explanation. */
export function forget() {
  found = null;
  answer = null;
}
