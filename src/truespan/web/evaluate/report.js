// The outcome of an evaluation: figures and plots as the server drew them, and every query.

import { button, make } from "../common/dom.js";
import { texts } from "../common/texts.js";

const t = texts.evaluate;
const METRICS = ["hit", "reciprocal_rank", "recall", "precision", "ndcg", "phrase_hit"];
const PAGE = 50;

const number = (value, decimals = 4) => (value === null || value === undefined ? "–" : value.toFixed(decimals));

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

/** Return the figures and plots that the server drew. Scripts in parsed markup do not run, and the policy of the page allows none. */
function drawn(report) {
  return [...new DOMParser().parseFromString(report.html, "text/html").body.children].map((one) => document.adoptNode(one));
}

/** Return the figure by which a query counts as better or worse. */
const leading = (metrics) => (metrics.ndcg === null ? metrics.reciprocal_rank ?? 0 : metrics.ndcg);

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
  const parts = drawn(report);
  parts[0].querySelector(".evaluate-title").append(button(t.saveReport, onSave, { class: "small quiet" }));
  return [...parts, queries(report, namesOf(report, modes), onEdit)];
}
