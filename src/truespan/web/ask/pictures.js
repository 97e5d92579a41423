// Diagrams: the funnel, and the decision on its scale.

import { draw } from "../common/dom.js";
import { texts } from "../common/texts.js";
import * as words from "../common/words.js";

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
      draw("text", { x: x + 48, y: middle + 7, class: "stage-count" }, counts[name].toLocaleString("en")),
      draw("text", { x: x + 48, y: 122, class: "stage-label" }, label),
    ];
  });
  const summary = STAGES.map(([name, label]) => `${counts[name]} ${label}`).join(", ");
  return draw("svg", { viewBox: "0 0 600 130", class: "funnel", role: "img", "aria-label": t.funnel(summary) }, parts);
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
    draw("text", { x, y: raised ? 104 : 90, class: "threshold-label" }, `${name} ${value}`),
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
    draw("text", { x: Math.min(540, Math.max(60, at(best))), y: 24, class: "marker-label" }, t.best(words.score(best))),
  ];
  const summary = best === null ? t.nothingFound : t.bestPassage(words.score(best));
  return draw(
    "svg",
    { viewBox: "0 0 600 110", class: "scale", role: "img", "aria-label": t.scale(from, to, low, high, summary, explained.mode) },
    band(at(from), at(low), "fallback", "fallback"),
    band(at(low), at(high), "hybrid", "hybrid"),
    band(at(high), at(to), "rag", "rag"),
    draw("text", { x: at(from), y: 90, class: "end-label start" }, String(from)),
    draw("text", { x: at(to), y: 90, class: "end-label end" }, String(to)),
    threshold(at(low), t.low, low, false),
    threshold(at(high), t.high, high, close),
    marker,
  );
}
