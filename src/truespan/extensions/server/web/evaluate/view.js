// Evaluate: golden queries run from the page, and the outcome: figures, plots and every query.

import { events, get, Problem } from "../common/api.js";
import { button, byId, clearNotice, complain, fill, make, say } from "../common/dom.js";
import { figures, leading, METRICS, number, table } from "./figures.js";
import * as golden from "./golden.js";
import { go, may, on, state, worldPath } from "../common/state.js";
import { texts } from "../common/texts.js";
import { generation as generationName } from "../common/words.js";

const t = texts.evaluate;
/** The simplest first: each is compared with those before it. */
const MODES = ["vector", "keyword", "hybrid"];
let generations = [];
let running = null;
let last = null;
/** The world, and the caller, that the view was built for. */
let built = "";
/** Resolves when the view is built. */
let ready = Promise.resolve();

const active = () => document.body.dataset.view === "evaluate";
const text = () => byId("golden").value;
const chosenModes = () => MODES.filter((name) => byId(`evaluate-${name}`).checked);

function field(id, name, control) {
  return make("div", { class: "field" }, make("label", { for: id }, name), control);
}

function build() {
  const choices = generations.map((one) => make("option", { value: one.generation.number }, generationName(one)));
  const again = generations.map((one) => make("option", { value: one.generation.number }, generationName(one)));
  fill(
    byId("evaluate-body"),
    make("p", { class: "lead evaluate-lead" }, t.lead),
    make(
      "form",
      { class: "evaluate-form", id: "evaluate-form", onsubmit: run },
      make(
        "div",
        { class: "evaluate-golden" },
        make("div", { class: "evaluate-golden-head" },
          make("label", { for: "golden" }, t.golden),
          make("span", { class: "hint", id: "golden-count" }),
          make("span", { class: "grow" }),
          make("label", { class: "file-button" }, make("input", { type: "file", id: "golden-file", class: "sr", accept: ".yaml,.yml,.jsonl,.ndjson", onchange: choose }), make("span", {}, t.chooseFile)),
          button(t.saveFile, saveGolden, { class: "small quiet", id: "golden-save" }),
          button(t.clear, () => set("", ""), { class: "small quiet", id: "golden-clear" })),
        make("textarea", { id: "golden", rows: 9, spellcheck: "false", autocomplete: "off", placeholder: t.goldenPlaceholder, "aria-describedby": "golden-hint", "aria-errormessage": "golden-problem", oninput: changed }),
        make("p", { class: "bad", id: "golden-problem", role: "alert" }),
        make("p", { class: "hint", id: "golden-hint" }, t.goldenHint),
      ),
      make("details", { class: "evaluate-add", id: "evaluate-add" }, make("summary", {}, t.addQuery), adding()),
      make(
        "div",
        { class: "evaluate-options" },
        make("fieldset", { class: "evaluate-modes" }, make("legend", {}, t.modes), MODES.map((name) => make("label", { class: "check" }, make("input", { type: "checkbox", id: `evaluate-${name}`, value: name }), t.modeNames[name]))),
        generations.length > 1 && field("evaluate-generation", t.generation, make("select", { id: "evaluate-generation" }, make("option", { value: "" }, t.inUse), choices)),
        generations.length > 1 && field("evaluate-against", t.against, make("select", { id: "evaluate-against" }, make("option", { value: "" }, t.none), again)),
        may("follow") && field("evaluate-reader", t.reader, make("input", { id: "evaluate-reader", maxlength: 200, autocomplete: "off", spellcheck: "false", list: "reader-names", placeholder: t.wholeWorld })),
        field("evaluate-rerank", t.reranker, make("select", { id: "evaluate-rerank" }, make("option", { value: "" }, t.asWorld), make("option", { value: "true" }, t.with), make("option", { value: "false" }, t.without))),
        make("div", { class: "evaluate-run" }, make("button", { class: "go", id: "evaluate-run" }, t.run), button(t.stop, stop, { class: "go second", id: "evaluate-stop", hidden: true })),
      ),
    ),
    make("div", { class: "evaluate-progress", id: "evaluate-progress", hidden: true }, make("progress", { id: "evaluate-bar", max: 1, value: 0, "aria-label": t.progress }), make("span", { class: "hint", id: "evaluate-done" })),
    make("div", { class: "evaluate-result", id: "evaluate-result" }, make("p", { class: "empty" }, t.nothingYet)),
  );
  byId("golden").value = golden.kept();
  showCount();
}

/** Return the form that adds a query to the text. */
function adding() {
  const documents = state.documents.map((one) => make("option", { value: one.name }, one.title || one.name));
  return make(
    "div",
    { class: "evaluate-add-form" },
    field("add-query", t.question, make("input", { id: "add-query", maxlength: 1000, autocomplete: "off" })),
    field("add-document", t.expected, make("select", { id: "add-document" }, make("option", { value: "" }, t.none), documents)),
    field("add-phrases", t.phrases, make("textarea", { id: "add-phrases", rows: 2, placeholder: t.phrasesHint })),
    make("div", { class: "row" }, button(t.add, add, { class: "small", id: "add-golden" }), make("span", { class: "hint bad", id: "add-hint", role: "status" })),
  );
}

function add() {
  const query = byId("add-query").value.trim();
  const document = byId("add-document").value;
  const phrases = byId("add-phrases").value.split("\n").map((one) => one.trim()).filter(Boolean);
  const lack = !query ? t.needsQuery : !document && !phrases.length ? t.needsExpected : "";
  byId("add-hint").textContent = lack;
  if (lack) return;
  set(golden.withQuery(text(), { query, expected: document ? [document] : [], phrases: [...new Set(phrases)] }));
  for (const id of ["add-query", "add-phrases"]) byId(id).value = "";
  byId("golden").scrollTop = byId("golden").scrollHeight;
  byId("add-query").focus();
  say(t.added({ count: golden.count(text()) }));
}

function set(words, name) {
  byId("golden").value = words;
  golden.keep(words, name);
  showCount();
}

function changed() {
  showProblem("");
  golden.keep(text());
  showCount();
}

function showCount() {
  const number = golden.count(text());
  byId("golden-count").textContent = number ? texts.counts.queries({ count: number }) : "";
  byId("evaluate-run").disabled = !text().trim();
  for (const id of ["golden-save", "golden-clear"]) byId(id).hidden = !text();
}

async function choose(event) {
  const [file] = event.target.files;
  event.target.value = "";
  if (!file) return;
  set(await file.text(), file.name);
  say(t.fileRead({ name: file.name }));
}

const saveGolden = () => golden.save(golden.fileName(), text(), "text/plain");

/** Show what is wrong with the text below it, and select the line; an empty message clears it. */
function showProblem(message) {
  byId("golden-problem").textContent = message;
  byId("golden").setAttribute("aria-invalid", String(Boolean(message)));
  if (message) select(golden.lineOf(text(), Number(message.match(/line (\d+)/)?.[1])));
}

/** Show the entry of a result in the text, selected. */
const edit = (result) => select(golden.placeOf(text(), result));

function select(place) {
  const box = byId("golden");
  box.focus();
  if (!place) return;
  box.setSelectionRange(place.start, place.end);
  // A text area does not scroll to its selection by itself.
  const line = text().slice(0, place.start).split("\n").length - 1;
  box.scrollTop = Math.max(0, line - 2) * Number.parseFloat(getComputedStyle(box).lineHeight);
  box.scrollIntoView({ block: "center" });
}

function request() {
  const value = (id) => byId(id)?.value.trim() || null;
  const whole = (id) => (value(id) === null ? null : Number(value(id)));
  const rerank = value("evaluate-rerank");
  return {
    golden: text(),
    modes: chosenModes(),
    generation: whole("evaluate-generation"),
    against: whole("evaluate-against"),
    reader: value("evaluate-reader"),
    rerank: rerank === null ? null : rerank === "true",
    stream: true,
  };
}

function busy(on) {
  byId("evaluate-run").hidden = on;
  byId("evaluate-stop").hidden = !on;
  byId("evaluate-progress").hidden = !on;
  byId("evaluate-result").classList.toggle("stale", on);
}

async function run(event) {
  event.preventDefault();
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  const body = request();
  const world = state.world.id;
  let wrong = "";
  showProblem("");
  progress(0, 0);
  busy(true);
  byId("evaluate-stop").focus();
  try {
    const report = await finish(body, signal);
    clearNotice();
    last = { report, modes: body.modes };
    if (world === state.world?.id) showReport();
    say(t.finished({ count: report.evaluations.at(-1).totals.queries }));
  } catch (problem) {
    if (problem.name === "AbortError") say(t.stopped);
    else if (problem.code === "golden_invalid") wrong = problem.message;
    else complain(problem, problem.retryable ? () => byId("evaluate-form").requestSubmit() : null);
  }
  if (signal === running?.signal && byId("evaluate-form")) {
    busy(false);
    if (wrong) showProblem(wrong);
    else byId("evaluate-run").focus();
  }
}

async function finish(body, signal) {
  for await (const { event, data } of events("POST", `${worldPath()}/evaluate`, { body, signal })) {
    if (event === "problem") throw new Problem(data);
    if (event === "progress") progress(data.done, data.searches);
    else if (event === "finished") return data;
  }
  throw new Problem({ detail: t.brokenOff, code: "broken_off", retryable: true });
}

function progress(done, searches) {
  const box = byId("evaluate-bar");
  if (!box) return;
  box.max = searches || 1;
  box.value = done;
  byId("evaluate-done").textContent = searches ? t.done({ done, searches }) : t.starting;
}

const stop = () => running?.abort();

function showReport() {
  const { report, modes } = last;
  const onSave = () => golden.save("evaluation.json", JSON.stringify(report, null, 1), "application/json");
  fill(byId("evaluate-result"), render(report, { modes, onEdit: edit, onSave }));
}

/** Show the view; called each time it is entered. */
export function show() {
  const wanted = JSON.stringify([state.world?.id, state.me?.token, state.documents.map((one) => one.name)]);
  if (wanted !== built) {
    built = wanted;
    ready = enter();
  }
  return ready;
}

async function enter() {
  if (!state.world) return fill(byId("evaluate-body"), make("p", { class: "empty" }, t.noWorld));
  if (!may("read")) return fill(byId("evaluate-body"), make("p", { class: "empty" }, t.notAllowed));
  generations = [];
  try {
    if (may("administer")) generations = (await get(`${worldPath()}/generations`)).generations;
  } catch (problem) {
    complain(problem);
  }
  build();
  if (last) showReport();
  return null;
}

/** Add a question that was answered well. */
function keepRated(query) {
  const words = golden.withQuery(golden.kept(), query);
  if (byId("golden")) set(words);
  else golden.keep(words);
}

/** Offer a question of another view as a golden query. */
async function offer({ query, document = null }) {
  go({ view: "evaluate" }, { apply: true });
  await show();
  if (!byId("add-query")) return;
  byId("evaluate-add").open = true;
  byId("add-query").value = query;
  byId("add-document").value = state.documents.find((one) => one.number === document)?.name || "";
  byId("evaluate-add").scrollIntoView({ block: "nearest" });
  byId("add-phrases").focus();
}

on("golden", offer);
on("rated", keepRated);
on("opened", () => {
  if (active() && state.me) show();
});
on("world", () => {
  running?.abort();
  last = null;
  built = "";
});

const PAGE = 50;

/** Return short names of the evaluations: what sets them apart. */
function namesOf(report, modes) {
  if (report.verdict) return report.evaluations.map((one) => one.name.match(/generation \d+/)?.[0] || one.name);
  return modes.length > 1 ? modes : report.evaluations.map(() => t.mean);
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
    ? [t.query, t.state, ...names, t.firstFound, make("span", { class: "sr" }, t.edit)]
    : [t.query, t.state, ...METRICS.map((name) => t.metrics[name]), t.bestRelevant, t.bestOther, t.firstFound, make("span", { class: "sr" }, t.edit)];

  function line(results) {
    const last = results.at(-1);
    const figures = several
      ? results.map((one) => number(one.judged && !one.error ? leading(one.metrics) : null, 3))
      : [...METRICS.map((name) => number(last.metrics[name], 3)), number(last.best_relevant, 3), number(last.best_irrelevant, 3)];
    const found = last.documents.slice(0, 3).map((one) => one.name).join(", ");
    const absent = last.absent.length > 0 && make("small", { class: "absent" }, t.absent({ names: last.absent.join(", ") }));
    return [
      make("span", { class: "evaluate-query", dir: "auto" }, make("span", {}, last.query), make("code", {}, last.id), absent),
      make("span", { class: `outcome ${outcome(last)}` }, outcome(last) === "missed" ? t.missed : stateOf(last)),
      ...figures,
      make("span", { dir: "auto" }, found || "–"),
      button(t.edit, () => onEdit(last), { class: "link", "aria-label": t.editQuery({ query: last.query }) }),
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
    if (left > 0) box.append(button(t.more({ count: Math.min(left, PAGE), left }), () => ((shown += PAGE), render()), { class: "small quiet" }));
  }
  render();
  return make("section", { class: "evaluate-part", "data-part": "queries" }, make("h3", {}, t.queries), box);
}

/** Return the report as elements. `onEdit` is called with the result of a query. */
export function render(report, { modes, onEdit, onSave }) {
  const names = namesOf(report, modes);
  return [...figures(report, names, button(t.saveReport, onSave, { class: "small quiet" })), queries(report, names, onEdit)];
}
