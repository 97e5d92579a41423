// The outcome of an evaluation: means, comparisons, plots, and every query.

import { button, make } from "../common/dom.js";
import { changes, distribution, leading, threshold } from "./plots.js";
import { texts } from "../common/texts.js";

const t = texts.evaluate;
const METRICS = ["hit", "reciprocal_rank", "recall", "precision", "ndcg", "phrase_hit"];
const PAGE = 50;

const number = (value, decimals = 4) => (value === null || value === undefined ? "–" : value.toFixed(decimals));

function signed(value) {
  const text = Math.abs(value).toFixed(4);
  return Number(text) ? `${value > 0 ? "+" : "−"}${text}` : text;
}

/** Return a table that scrolls by itself; the first column names the row. */
function table(caption, heads, rows, kind = "") {
  const cell = (value) => make("td", {}, value);
  return make(
    "div",
    { class: `table-box ${kind}`.trim(), role: "region", "aria-label": caption, tabindex: "0" },
    make(
      "table",
      {},
      make("caption", {}, caption),
      make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col" }, head)))),
      make("tbody", {}, rows.map(([first, ...others]) => make("tr", {}, make("th", { scope: "row" }, first), others.map(cell)))),
    ),
  );
}

/** Return short names of the evaluations: what sets them apart. */
function namesOf(report, modes) {
  if (report.verdict) return report.evaluations.map((one) => one.name.match(/generation \d+/)?.[0] || one.name);
  return modes.length > 1 ? modes : report.evaluations.map(() => t.mean);
}

/** Return the means: a column for each evaluation, and how likely the difference of every two is chance. */
function means(report, names) {
  const pairs = names.flatMap((first, at) => names.slice(at + 1).map((second) => `p ${first}/${second}`));
  const rows = METRICS.filter((name) => report.evaluations.some((one) => one.totals.metrics[name] !== null)).map((name) => [
    t.metrics[name],
    ...report.evaluations.map((one) => number(one.totals.metrics[name])),
    ...report.comparisons.map((pair) => number(pair.metrics.find((one) => one.name === name)?.randomisation_p)),
  ]);
  return [
    table(t.means, [t.metric, ...names, ...(report.comparisons.length ? pairs : [])], rows, "figures-table means"),
    report.comparisons.length > 0 && make("p", { class: "hint" }, t.chance),
  ];
}

function comparison(pair, title, verdict) {
  const rows = pair.metrics.map((one) => [
    t.metrics[one.name],
    ...[one.old, one.new].map((value) => number(value)),
    signed(one.new - one.old),
    ...[one.better, one.worse, one.same].map(String),
    number(one.sign_p),
    number(one.randomisation_p),
  ]);
  return make(
    "section",
    { class: "evaluate-part", "data-part": "comparison" },
    make("h3", {}, title),
    make("p", {}, t.changed(pair)),
    verdict && gate(verdict),
    table(t.oldAgainstNew, [t.metric, t.old, t.new, t.change, t.better, t.worse, t.same, t.pSign, t.pRandom], rows, "figures-table"),
    pair.changes.length > 0 && changes(pair.changes, title),
  );
}

function gate(verdict) {
  return make(
    "div",
    { class: `evaluate-gate ${verdict.passed ? "holds" : "fails"}` },
    make("p", {}, make("b", {}, verdict.passed ? t.gateHolds : t.gateFails)),
    verdict.reasons.length > 0 && make("ul", {}, verdict.reasons.map((one) => make("li", { "data-code": one.code }, one.message))),
  );
}

function scores(report) {
  const last = report.evaluations.at(-1);
  const hits = last.results.filter((one) => one.judged).flatMap((one) => one.hits);
  const { curve } = report;
  const proposal = curve.proposal && t.proposal(curve.proposal);
  return make(
    "section",
    { class: "evaluate-part", "data-part": "scores" },
    make("h3", {}, report.evaluations.length > 1 ? t.scoresOf(last.name) : t.scores),
    hits.length ? distribution(hits) : make("p", { class: "empty" }, t.noHits),
    make("p", {}, [t.byPassages(curve), proposal, ...curve.notes.map((note) => note.message)].filter(Boolean).join(" ")),
    curve.curve.length > 0 && threshold(curve),
  );
}

const stateOf = (result) => result.error || (result.judged ? t.states[result.state] || result.state : t.unjudged);

function outcome(result) {
  if (result.state === "failed") return "failed";
  if (!result.judged) return "unjudged";
  return result.metrics.hit ? "found" : "missed";
}

const KEPT = {
  all: () => true,
  missed: (results) => results.some((one) => outcome(one) === "missed"),
  failed: (results) => results.some((one) => outcome(one) === "failed"),
  changed: (results) => new Set(results.map((one) => leading(one.metrics))).size > 1,
};

/** Return every query with its outcome, in pages; several evaluations share a row. */
function queries(report, names, onEdit) {
  const several = report.evaluations.length > 1;
  const rows = report.evaluations[0].results.map((first, at) => [first, ...report.evaluations.slice(1).map((one) => one.results[at])]);
  const box = make("div", { class: "evaluate-queries", id: "evaluate-queries" });
  const filters = ["all", "missed", "failed", several && "changed"].filter(Boolean);
  let kept = "all";
  let shown = PAGE;

  const heads = several
    ? [t.query, t.state, ...names.map((name) => t.figureIn(name)), t.firstFound, make("span", { class: "sr" }, t.edit)]
    : [t.query, t.state, ...METRICS.map((name) => t.metrics[name]), t.bestRelevant, t.bestOther, t.firstFound, make("span", { class: "sr" }, t.edit)];

  function line(results) {
    const last = results.at(-1);
    const figures = several
      ? results.map((one) => number(one.judged && !one.error ? leading(one.metrics) : null, 3))
      : [...METRICS.map((name) => number(last.metrics[name], 3)), number(last.best_relevant, 3), number(last.best_irrelevant, 3)];
    const found = last.documents.slice(0, 3).map((one) => one.name).join(", ");
    const absent = last.absent.length > 0 && make("small", { class: "absent" }, t.absent(last.absent));
    return [
      make("span", { class: "evaluate-query", dir: "auto" }, make("span", {}, last.query), make("code", {}, last.id), absent),
      make("span", { class: `outcome ${outcome(last)}` }, outcome(last) === "missed" ? t.missed : stateOf(last)),
      ...figures,
      make("span", { dir: "auto" }, found || "–"),
      button(t.edit, () => onEdit(last), { class: "link", "aria-label": t.editQuery(last.query) }),
    ];
  }

  function render() {
    const chosen = rows.filter(KEPT[kept]);
    const left = chosen.length - shown;
    box.replaceChildren(
      make(
        "div",
        { class: "evaluate-filter", role: "group", "aria-label": t.showQueries },
        filters.map((name) => button(`${t.filters[name]} (${rows.filter(KEPT[name]).length})`, () => ((kept = name), (shown = PAGE), render(), box.querySelector("[aria-pressed=true]").focus()), { class: "small quiet", "aria-pressed": String(kept === name), "data-filter": name })),
      ),
      chosen.length ? table(several ? t.everyQueryByFigure : t.everyQuery, heads, chosen.slice(0, shown).map(line), "queries-table") : make("p", { class: "empty" }, t.noQueries),
    );
    if (left > 0) box.append(button(t.more(Math.min(left, PAGE), left), () => ((shown += PAGE), render()), { class: "small quiet" }));
  }
  render();
  return make("section", { class: "evaluate-part", "data-part": "queries" }, make("h3", {}, t.queries), box);
}

/** Return the report as elements. `onEdit` is called with the result of a query. */
export function render(report, { modes, onEdit, onSave }) {
  const names = namesOf(report, modes);
  const last = report.evaluations.at(-1);
  const shared = report.evaluations.length > 1 && modes.length > 1 ? last.name.replace(/, (auto|hybrid|vector|keyword)(?=$|, reranked)/, "") : last.name;
  const warnings = new Map(report.evaluations.flatMap((one) => one.warnings).map((one) => [one.code, one]));
  const pairs = names.flatMap((first, at) => names.slice(at + 1).map((second) => t.changeFrom(first, second)));
  return [
    make("section", { class: "evaluate-part", "data-part": "means" },
      make("div", { class: "evaluate-title" }, make("h3", { id: "evaluate-name" }, make("bdi", {}, shared)), button(t.saveReport, onSave, { class: "small quiet" })),
      make("p", { class: "evaluate-totals" }, t.counts(last.totals)),
      warnings.size > 0 && make("ul", { class: "notes" }, [...warnings.values()].map((one) => make("li", { "data-code": one.code }, one.message))),
      means(report, names)),
    report.comparisons.map((pair, at) => comparison(pair, pairs[at], report.verdict)),
    scores(report),
    queries(report, names, onEdit),
  ];
}
