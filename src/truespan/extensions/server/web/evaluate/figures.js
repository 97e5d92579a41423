// The figures and plots of an evaluation. Plots can be read without colour: one of two kinds is hatched or dashed.
// A plot is an image to a screen reader, so its description says what it shows.

import { draw, make } from "../common/dom.js";
import { texts } from "../common/texts.js";
import { decimal } from "../common/words.js";

const t = texts.evaluate;
const p = texts.evaluate.plots;
export const METRICS = ["hit", "reciprocal_rank", "recall", "precision", "ndcg", "phrase_hit"];
const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [720, 280, 52, 16, 24, 44];
const [BASE, END] = [HEIGHT - BOTTOM, WIDTH - RIGHT];
const BINS = 20;
const MAX_POINTS = 200;
/** The changes drawn; of more, those that changed most. */
const MAX_BARS = 300;

export const number = (value, decimals = 4) => (value === null || value === undefined ? "–" : decimal(value, decimals));

/** Format a difference with its sign; zero has none. */
function signed(value) {
  const shown = number(Math.abs(value));
  return shown === number(0) ? shown : `${value < 0 ? "−" : "+"}${shown}`;
}

/** Return the figure by which a query counts as better or worse. */
export const leading = (metrics) => (metrics.ndcg === null ? metrics.reciprocal_rank ?? 0 : metrics.ndcg);

/** Return a table that scrolls by itself; the first column names the row. */
export function table(caption, heads, rows, kind = "figures-table") {
  const cell = (value) => make("td", {}, value);
  return make(
    "div",
    { class: `table-box ${kind}`, role: "region", "aria-label": caption, tabindex: "0" },
    make(
      "table",
      {},
      make("caption", {}, caption),
      make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col" }, head)))),
      make("tbody", {}, rows.map(([first, ...others]) => make("tr", {}, make("th", { scope: "row" }, first), others.map(cell)))),
    ),
  );
}

/** Return the counts that are not zero, in words. */
const counted = (words, counts) => Object.keys(words).filter((key) => counts[key]).map((key) => words[key]({ count: counts[key] }));

function section(part, ...children) {
  return make("section", { class: "evaluate-part", "data-part": part }, children);
}

function notesOf(report) {
  const notes = new Map(report.evaluations.flatMap((one) => one.warnings).map((one) => [one.code + one.message, one]));
  return notes.size > 0 && make("ul", { class: "notes" }, [...notes.values()].map((one) => make("li", { "data-code": one.code }, one.message)));
}

/** Return the label of a metric with its k, if all queries have the same, and their number. */
function measured(name, evaluation) {
  const judged = evaluation.results.filter((one) => one.metrics[name] !== null);
  const cuts = new Set(judged.map((one) => one.top_k));
  const label = cuts.size === 1 ? t.metrics[name].replace("@k", `@${[...cuts][0]}`) : t.metrics[name];
  return [`${label} `, make("small", {}, texts.counts.queries({ count: judged.length }))];
}

/** Return every two names, in the order of the comparisons. */
const pairsOf = (names) => names.flatMap((old, at) => names.slice(at + 1).map((other) => [old, other]));

function means(report, names, save) {
  const last = report.evaluations.at(-1);
  const rows = METRICS.map((name) => {
    const figures = report.evaluations.map((one) => one.totals.metrics[name]);
    return figures.some((one) => one !== null) && [measured(name, last), ...figures.map((one) => number(one))];
  });
  return section(
    "means",
    make("div", { class: "evaluate-title" }, make("h3", { id: "evaluate-name", dir: "auto" }, report.title), save),
    make("p", { class: "evaluate-totals" }, [texts.counts.queries({ count: last.totals.queries }), ...counted(t.totals, last.totals)].join(", ")),
    notesOf(report),
    table(t.means, [t.metric, ...names], rows.filter(Boolean), "figures-table means"),
  );
}

function comparison(found, [old, other], verdict, key) {
  const title = t.change({ old, new: other });
  const counts = { unjudged: found.unjudged, failed_new: found.failed_new };
  for (const name of ["only_old", "only_new", "changed_queries", "newly_judged"]) counts[name] = found[name].length;
  const always = ["better", "worse", "same"].map((name) => `${found[name]} ${t.changes[name]}`);
  const rows = found.metrics.map((one) => [t.metrics[one.name], number(one.old), number(one.new), signed(one.new - one.old), one.better, one.worse, one.same]);
  const heads = [t.metric, t.old, t.new, t.difference, t.changes.better, t.changes.worse, t.changes.same];
  return section(
    "comparison",
    make("h3", {}, title),
    make("p", {}, [...always, ...counted(t.compared, counts)].join(", ")),
    verdict && make("div", { class: `evaluate-gate ${verdict.passed ? "holds" : "fails"}` },
      make("p", {}, make("b", {}, verdict.passed ? t.gateHolds : t.gateFails)),
      verdict.reasons.length > 0 && make("ul", {}, verdict.reasons.map((one) => make("li", {}, one.message)))),
    table(t.oldAndNew, heads, rows),
    found.changes.length > 0 && changesPlot(found.changes, title, key),
  );
}

function scores(report, names) {
  const last = report.evaluations.at(-1);
  const hits = last.results.filter((one) => one.judged).flatMap((one) => one.hits);
  return section(
    "scores",
    make("h3", {}, names.length > 1 ? t.scoresOf({ name: last.name }) : t.scores),
    hits.length > 0 ? distribution(hits) : make("p", { class: "empty" }, t.noHits),
    report.curve && make("p", {}, thresholdsInWords(report.curve)),
    report.curve?.curve.length > 0 && thresholds(report.curve),
  );
}

function thresholdsInWords({ relevant, irrelevant, auc, proposal, notes }) {
  const proposed = proposal && t.proposed({ floor: number(proposal.floor), low: number(proposal.low), high: number(proposal.high) });
  return [t.curve({ relevant, irrelevant, auc: number(auc, 3) }), proposed, ...notes.map((one) => one.message)].filter(Boolean).join(" ");
}

/** Return the sections of a report, without its queries; `save` is a button beside the title. */
export function figures(report, names, save) {
  const pairs = pairsOf(names);
  return [means(report, names, save), ...report.comparisons.map((one, at) => comparison(one, pairs[at], report.verdict, `changes-${at}`)), scores(report, names)];
}

const scale = (least, most, start, end) => (value) => start + ((value - least) / (most - least)) * (end - start);

/** Return round numbers around all values, never the same one twice. */
function rangeOf(values) {
  const [least, most] = [Math.floor(Math.min(...values) * 20) / 20, Math.ceil(Math.max(...values) * 20) / 20];
  return most > least ? [least, most] : [least, least + 0.05];
}

const place = (value) => Math.round(value * 100) / 100;
const label = (x, y, words, anchor = "middle") => draw("text", { x: place(x), y: place(y), "text-anchor": anchor }, words);
const rule = (x1, y1, x2, y2, kind = "axis") => draw("line", { class: kind, x1: place(x1), y1: place(y1), x2: place(x2), y2: place(y2) });

function bar(key, kind, hatched, x, y, width, height, words) {
  const fill = hatched ? `url(#${key}-hatching)` : null;
  return draw("rect", { class: kind, fill, x: place(x), y: place(y), width: place(width), height: place(height) }, words && draw("title", {}, words));
}

/** Return the axes with their names and a few numbers; `across` has no numbers for a list of queries. */
function frame(across, [low, high], nameAcross, nameUp) {
  const heights = [0, 0.5, 1].map((share) => [BASE - share * (BASE - TOP), decimal(low + share * (high - low), 2)]);
  const widths = across ? [0, 0.25, 0.5, 0.75, 1].map((share) => [LEFT + share * (END - LEFT), decimal(across[0] + share * (across[1] - across[0]), 2)]) : [];
  return [
    label((LEFT + END) / 2, HEIGHT - 6, nameAcross),
    label(4, 14, nameUp, "start"),
    rule(LEFT, TOP, LEFT, BASE),
    heights.map(([y, words]) => [label(LEFT - 6, y + 4, words, "end"), rule(LEFT, y, END, y)]),
    widths.map(([x, words]) => label(x, BASE + 16, words)),
  ];
}

function plot(key, title, description, parts) {
  const id = (name) => `${key}-${name}`;
  const hatching = draw("pattern", { id: id("hatching"), width: 6, height: 6, patternUnits: "userSpaceOnUse" }, draw("path", { d: "M0 6 L6 0", class: "hatch" }));
  const image = draw("svg", { class: "plot", role: "img", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-labelledby": `${id("title")} ${id("description")}` },
    draw("title", { id: id("title") }, title), draw("desc", { id: id("description") }, description), draw("defs", {}, hatching), parts);
  return make("figure", { class: "plot-box", "data-plot": key.split("-")[0] },
    make("div", { class: "plot-scroll", role: "region", "aria-label": title, tabindex: "0" }, image),
    make("figcaption", { class: "hint" }, `${title}. ${description}`));
}

/** Draw the scores of hits and of misses, each as shares of its total. */
function distribution(hits) {
  const range = rangeOf(hits.map((one) => one.score));
  const [least, most] = range;
  const step = (most - least) / BINS;
  const kinds = [["hit", true, p.hits], ["miss", false, p.misses]].map(([kind, relevant, name]) => {
    const bins = hits.filter((one) => one.relevant === relevant).map((one) => Math.min(Math.max(Math.floor((one.score - least) / step), 0), BINS - 1));
    return { kind, name, count: bins.length, shares: Array.from({ length: BINS }, (_, at) => bins.filter((bin) => bin === at).length / Math.max(bins.length, 1)) };
  });
  const tallest = Math.max(...kinds.flatMap((one) => one.shares)) || 1;
  const [across, up] = [scale(least, most, LEFT, END), scale(0, tallest, BASE, TOP)];
  const half = (across(least + step) - LEFT) / 2;
  const bars = kinds.flatMap(({ kind, name, shares }, side) => [
    bar("distribution", kind, side, LEFT + 8 + 160 * side, 5, 12, 10),
    label(LEFT + 26 + 160 * side, 14, name, "start"),
    ...shares.map((share, at) => {
      const from = least + at * step;
      const words = () => p.bar({ kind: name, share: decimal(100 * share, 1), from: number(from, 3), to: number(from + step, 3) });
      return share > 0 && bar("distribution", kind, side, across(from) + half * side + 1, up(share), Math.max(half - 1, 1), Math.max(BASE - up(share), 0.5), words());
    }),
  ]);
  const words = p.distributionIs({ relevant: kinds[0].count, irrelevant: kinds[1].count, least: decimal(least, 2), most: decimal(most, 2) });
  return plot("distribution", p.distribution, words, [frame(range, [0, tallest], p.similarity, p.share), bars]);
}

/** Draw precision and recall over the threshold, with proposed values as vertical lines. */
function thresholds({ curve, proposal }) {
  // As many points as can be distinguished.
  const every = Math.ceil(curve.length / MAX_POINTS);
  const points = curve.filter((_, at) => at % every === 0 || at === curve.length - 1);
  const range = rangeOf(points.map((one) => one.threshold));
  const [across, up] = [scale(...range, LEFT, END), scale(0, 1, BASE, TOP)];
  const line = (name) => draw("polyline", { class: `curve ${name}`, points: points.map((one) => `${place(across(one.threshold))},${place(up(one[name]))}`).join(" ") });
  const marks = Object.entries(proposal || {}).filter(([, value]) => value !== null).map(([name, value], at) => {
    const x = across(value);
    const [side, shift] = x > WIDTH * 0.8 ? ["end", -4] : ["start", 4];
    // Each label is lower than the one before it.
    return [rule(x, TOP, x, BASE, "mark"), label(x + shift, TOP + 14 + 14 * at, `${name} ${number(value, 3)}`, side)];
  });
  const legend = [label(LEFT + 8, 14, p.precisionLine, "start"), label(LEFT + 168, 14, p.recallLine, "start")];
  const words = p.thresholdsAre({ least: decimal(range[0], 2), most: decimal(range[1], 2) });
  return plot("threshold", p.thresholds, words, [frame(range, [0, 1], p.threshold, p.share), line("precision"), line("recall"), marks, legend]);
}

/** Draw the change of each query, from the worst to the best. */
function changesPlot(changes, title, key) {
  const drawn = [...changes].sort((a, b) => Math.abs(b.difference) - Math.abs(a.difference)).slice(0, MAX_BARS).sort((a, b) => a.difference - b.difference);
  const up = scale(-1, 1, BASE, TOP);
  const width = (END - LEFT) / drawn.length;
  const bars = drawn.map((one, at) => {
    const [top, bottom] = [up(one.difference), up(0)].sort((a, b) => a - b);
    const kind = one.difference > 0 ? "better" : one.difference < 0 ? "worse" : "same";
    const words = p.queryChange({ id: one.id, old: number(leading(one.old), 3), new: number(leading(one.new), 3), change: signed(one.difference) });
    return bar(key, kind, kind === "worse", LEFT + at * width, top, Math.max(width * 0.9, 0.5), Math.max(bottom - top, 1), words);
  });
  const many = (sign) => changes.filter((one) => sign * one.difference > 0).length;
  const words = p.changesAre({ count: changes.length, worse: many(-1), better: many(1) }) + (changes.length > MAX_BARS ? ` ${p.mostChanged({ count: MAX_BARS })}` : "");
  return plot(key, title, words, [frame(null, [-1, 1], p.queries, p.change), bars]);
}
