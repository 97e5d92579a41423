// The explanation: the funnel, skipped passages, near misses, and the decision on its scale.

import { bar, byId, draw, fill, make, tick } from "../common/dom.js";
import { texts } from "../common/texts.js";
import * as words from "../common/words.js";
import { badge } from "./answer.js";

const t = texts.ask.why;

const STAGES = [
  ["in_scope", t.inScope],
  ["fetched", t.fetched],
  ["verified", t.verified],
  ["returned", t.returned],
];

function heightOf(count, most) {
  // Logarithmic, so that 5 of 20,000 is still visible.
  return count === 0 ? 3 : 12 + 68 * (Math.log1p(count) / Math.log1p(Math.max(most, 1)));
}

/** Return the funnel: the number of candidates after each stage. */
export function funnel(counts) {
  const most = Math.max(...STAGES.map(([name]) => counts[name]), 1);
  const step = 150;
  const middle = 56;
  const parts = STAGES.map(([name, label], at) => {
    const here = heightOf(counts[name], most) / 2;
    const next = at + 1 < STAGES.length ? heightOf(counts[STAGES[at + 1][0]], most) / 2 : here;
    const x = at * step;
    const body = `M${x} ${middle - here}H${x + 96}L${x + step} ${middle - next}V${middle + next}L${x + 96} ${middle + here}H${x}Z`;
    const end = `M${x} ${middle - here}H${x + step}V${middle + here}H${x}Z`;
    return [
      draw("path", { d: at + 1 < STAGES.length ? body : end, class: `stage stage-${at}` }),
      draw("text", { x: x + 48, y: middle + 7, class: "stage-count" }, words.whole(counts[name])),
      draw("text", { x: x + 48, y: 122, class: "stage-label" }, label),
    ];
  });
  const summary = STAGES.map(([name, label]) => `${words.whole(counts[name])} ${label}`).join(", ");
  return draw("svg", { viewBox: "0 0 600 130", class: "funnel", role: "img", "aria-label": t.funnel({ summary }) }, parts);
}

const LEFT = 20;
const WIDE = 560;

function scaleOf(explained) {
  const { low, high } = explained.thresholds;
  const best = explained.max_score;
  const from = Math.min(0, low, best === null ? 0 : best);
  const to = Math.max(1, high, best === null ? 1 : best);
  return { from, to, at: (value) => LEFT + (WIDE * (value - from)) / (to - from) };
}

function band(x, until, kind, label) {
  const width = Math.max(0, until - x);
  return [
    draw("rect", { x, y: 48, width, height: 22, class: `band ${kind}` }),
    width > 56 && draw("text", { x: x + width / 2, y: 64, class: "band-label" }, label),
  ];
}

function threshold(x, name, value, raised) {
  return [
    draw("path", { d: `M${x} 44V76`, class: "threshold" }),
    draw("text", { x, y: raised ? 104 : 90, class: "threshold-label" }, `${name} ${words.whole(value)}`),
  ];
}

/** Return the decision on its scale: the thresholds and the score of the best passage. */
export function scale(explained) {
  const { low, high } = explained.thresholds;
  const { from, to, at } = scaleOf(explained);
  const best = explained.max_score;
  const close = at(high) - at(low) < 90;
  const marker = best === null ? [] : [
    draw("path", { d: `M${at(best)} 46l-8 -13h16z`, class: `marker ${explained.mode}` }),
    draw("path", { d: `M${at(best)} 46V72`, class: `marker-line ${explained.mode}` }),
    draw("text", { x: Math.min(540, Math.max(60, at(best))), y: 24, class: "marker-label" }, t.best({ score: words.score(best) })),
  ];
  const summary = best === null ? t.nothingFound : t.bestPassage({ score: words.score(best) });
  return draw(
    "svg",
    { viewBox: "0 0 600 110", class: "scale", role: "img", "aria-label": low === high ? t.oneThreshold({ from, to, needed: low, summary, mode: words.mode(explained.mode) }) : t.scale({ from, to, low, high, summary, mode: words.mode(explained.mode) }) },
    band(at(from), at(low), "fallback", t.bands.fallback),
    band(at(low), at(high), "hybrid", t.bands.hybrid),
    band(at(high), at(to), "rag", t.bands.rag),
    draw("text", { x: at(from), y: 90, class: "end-label start" }, words.whole(from)),
    draw("text", { x: at(to), y: 90, class: "end-label end" }, words.whole(to)),
    low === high ? threshold(at(low), t.needed, low, false) : [threshold(at(low), t.low, low, false), threshold(at(high), t.high, high, close)],
    marker,
  );
}

let found = null;
let answer = null;

function section(title, ...inside) {
  return make("section", { class: "why" }, make("h3", {}, title), inside);
}

function skipped(entries) {
  if (!entries.length) return make("p", { class: "hint" }, t.nothingLeftOut);
  return make("ul", { class: "plain" }, entries.map((entry) => make("li", { "data-code": entry.code }, make("b", {}, entry.count), ` ${t.leftOut({ reason: words.verdict(entry.code) })}`)));
}

function floor() {
  if (found.floor === null) return make("p", { class: "hint" }, t.readerFloor);
  const said = { true: t.floorExcludes, false: t.floorAdmits }[found.discriminates] || t.floor;
  return make("p", { class: "hint" }, said({ floor: found.floor }));
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
    make("li", { class: gate.held ? "held" : "failed" }, tick(gate.held), `${words.gate(gate.name)}: ${words.whole(gate.found)}`, make("small", {}, ` ${(gate.held ? t.gateHeld : t.gateFailed)({ needed: gate.needed })}`))));
}

function evidence(explained) {
  const found = explained.evidence;
  if (!found) return null;
  return make("p", { class: "hint" },
    t.evidence({ similarity: words.score(found.similarity), coverage: words.percent(found.coverage), window: words.percent(found.window), background: words.score(found.background) }),
    typeof found.sentence === "number" && ` ${t.sentence({ similarity: words.score(found.sentence) })}`,
    typeof found.late === "number" && ` ${(found.late < 0 ? t.lateBelow : t.late)({ difference: words.score(Math.abs(found.late)) })}`,
    typeof found.has_names === "boolean" && ` ${found.has_names ? t.hasNames : t.lacksNames}`,
    found.foreign && ` ${t.foreign}`,
    found.crossed && ` ${t.crossed}`,
    explained.missing_words && ` ${t.missingWords({ words: explained.missing_words.map((word) => texts.common.quoted({ text: word })).join(", ") })}`);
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
    badge(explained.mode, Boolean(explained.refusal)),
    scale(explained),
    make("p", {}, words.reason(explained.reason), explained.refusal && ` ${words.refusal(explained.refusal)}`),
    gates(explained),
    evidence(explained),
    make("p", { class: "hint" },
      t.used({ used: counts.used, passages: texts.counts.passages({ count: counts.retrieved }), characters: texts.counts.characters({ count: counts.context_characters }) }), " ",
      `${words.speaker(explained.used_llm)}.`,
      explained.short_query_active && ` ${t.shortQuestion}`,
      explained.max_similarity !== null && ` ${t.bestSimilarity({ score: words.score(explained.max_similarity), distance: explained.distance })}`,
      answer.record && [` ${t.record} `, make("code", {}, answer.record), "."]),
    retrieved(answer.retrieved_chunks_metadata),
  );
}

function render() {
  const panel = byId("panel-why");
  if (!found) return;
  const took = make("p", { class: "hint" }, t.time({ milliseconds: found.ms }));
  const trace = found.trace.length ? make("p", { class: "trace" }, found.trace.map(words.step).join(" → ")) : null;
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
