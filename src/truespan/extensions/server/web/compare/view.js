// Compare: the same question twice, side by side.

import { events, get, path, Problem } from "../common/api.js";
import { align, ask, format, label, parse, ranked, request } from "./sides.js";
import { bar, button, byId, clearNotice, complain, draw, fill, make, say } from "../common/dom.js";
import { passageBlocks } from "../reading/blocks.js";
import { figure, markUnsupported } from "../ask/support.js";
import { badge, textOf } from "../ask/answer.js";
import { emit, go, may, on, route, state, worldPath } from "../common/state.js";
import { texts } from "../common/texts.js";
import * as words from "../common/words.js";

const t = texts.compare;
const SIDES = ["left", "right"];
const MAX_PASSAGES = 20;
let sides = { left: null, right: null };
let generations = [];
let shown = null;
let running = null;
let answering = null;
/** The address and the world of what is shown, to tell what is new. */
let asked = "";
/** The outline of the book that readers are asked about. */
let book = { number: null, chapters: [], last: 0 };

const active = () => document.body.dataset.view === "compare";
const hasReader = () => SIDES.some((name) => sides[name].as === "reader");
const query = () => byId("compare-question").value.trim();
const count = () => Math.min(MAX_PASSAGES, Math.max(1, byId("compare-count").valueAsNumber || 5));

/** Return the document that both sides are asked about; null for all of them. */
function within() {
  const chosen = byId("compare-within").value;
  if (chosen) return chosen;
  return hasReader() && state.document ? String(state.document.number) : null;
}

const FALLBACK = {
  left: () => ({ as: may("read") ? "owner" : "reader", mode: "vector" }),
  right: () => ({ as: may("read") ? "owner" : "reader", mode: "keyword" }),
};

function readSides() {
  const now = route();
  for (const name of SIDES) sides[name] = parse(now[name], FALLBACK[name]());
}

/** Build the form once for a world; its values come from the route. */
function build() {
  fill(
    byId("compare-body"),
    make("p", { class: "lead compare-lead" }, t.lead),
    make(
      "form",
      { class: "compare-form", id: "compare-form", onsubmit: submit },
      make(
        "div",
        { class: "compare-ask" },
        field("compare-question", t.question, make("input", { id: "compare-question", maxlength: 1000, autocomplete: "off", placeholder: t.placeholder, enterkeyhint: "search" })),
        field("compare-within", t.within, make("select", { id: "compare-within", onchange: chooseWithin })),
        field("compare-count", t.count, make("input", { id: "compare-count", type: "number", min: 1, max: MAX_PASSAGES, value: 5, inputmode: "numeric" })),
        make("button", { class: "go", id: "compare-go" }, t.compare),
      ),
      make("div", { class: "compare-presets", role: "group", "aria-label": t.presets }, presets()),
      make("div", { class: "compare-sides", id: "compare-sides" }),
    ),
    make("div", { id: "compare-result", class: "compare-result" }),
  );
}

function field(id, name, control, attributes = {}) {
  return make("div", { class: "field", ...attributes }, make("label", { for: id }, name), control);
}

/** Return buttons for the usual comparisons. */
function presets() {
  const owner = may("read") ? { as: "owner" } : { as: "reader" };
  const latest = generations.at(-1)?.generation.number;
  const used = generations.find((one) => one.is_default)?.generation.number;
  const other = latest !== used ? latest : generations.find((one) => !one.is_default)?.generation.number;
  return [
    may("read") && may("follow") && preset("readers", t.presetReader, { as: "owner" }, { as: "reader" }),
    other !== undefined && preset("generations", t.presetGenerations, { ...owner, generation: used }, { ...owner, generation: other }),
    preset("modes", t.presetModes, { ...owner, mode: "vector" }, { ...owner, mode: "keyword" }),
  ];
}

function preset(name, title, left, right) {
  const set = () => {
    sides = { left: parse(String(new URLSearchParams(left))), right: parse(String(new URLSearchParams(right))) };
    renderSides();
    compare();
  };
  return button(title, set, { class: "small quiet", "data-preset": name });
}

function renderSides() {
  const swap = () => {
    sides = { left: sides.right, right: sides.left };
    renderSides();
    compare();
  };
  fill(
    byId("compare-sides"),
    sideForm("left"),
    button("⇄", swap, { class: "icon compare-swap", "aria-label": t.swap, title: t.swap }),
    sideForm("right"),
  );
  const all = byId("compare-within").querySelector("option[value='']");
  if (all) all.textContent = hasReader() && state.document ? t.openDocument({ title: state.document.title || state.document.name }) : t.allDocuments;
}

function choose(id, name, value, options, change) {
  const select = make("select", { id, onchange: (event) => change(event.target.value) }, options.map(([key, text]) => make("option", { value: key }, text)));
  select.value = options.some(([key]) => key === value) ? value : options[0][0];
  return field(id, name, select);
}

/** Learn where the chapters of the chosen book begin, for callers who may know. */
async function learnBook() {
  const number = within();
  if (!hasReader() || !may("read") || number === book.number || number === null) return;
  const { outline, last_sid: last } = await get(worldPath() + path`/documents/${number}`);
  book = { number, chapters: chaptersOf(outline), last };
  renderSides();
}

function chaptersOf(outline) {
  const starts = outline.filter((one, at) => one.chapter && outline[at - 1]?.chapter !== one.chapter);
  return starts.map((one) => ({ chapter: one.chapter, first: one.first_sid }));
}

function sideForm(name) {
  const side = sides[name];
  const change = (key, id = key) => (value) => {
    sides[name] = { ...side, [key]: value };
    renderSides();
    byId(`${name}-${id}`)?.focus();
    learnBook().catch(complain);
    if (shown) compare();
  };
  const reading = side.as === "reader";
  const allowed = [may("read") && ["owner", t.owner], may("follow") && ["reader", t.asReader]].filter(Boolean);
  const numbers = generations.map((one) => [String(one.generation.number), words.generation(one)]);
  return make(
    "fieldset",
    { class: `compare-side ${name}` },
    make("legend", {}, t[name]),
    choose(`${name}-as`, t.as, side.as, allowed.length ? allowed : [["owner", t.owner]], change("as")),
    reading && field(`${name}-reader`, t.readerName, make("input", { id: `${name}-reader`, value: side.reader || state.reader, maxlength: 200, list: "reader-names", autocomplete: "off", spellcheck: "false", readonly: byId("reader").readOnly, onchange: (event) => change("reader")(event.target.value.trim()) })),
    reading && may("read") && field(`${name}-sid`, t.position, make("input", { id: `${name}-sid`, type: "number", min: -1, max: book.number === within() ? book.last : null, value: side.sid, placeholder: t.recorded, inputmode: "numeric", onchange: (event) => change("sid")(event.target.value) })),
    reading && may("read") && throughChapter(name, side, change("sid", "chapter")),
    numbers.length > 1 && choose(`${name}-generation`, t.generationLabel, side.generation, [["", t.inUse], ...numbers], change("generation")),
    choose(`${name}-mode`, t.match, side.mode, [["", t.asWorld], ...Object.entries(t.modes)], change("mode")),
    choose(`${name}-rerank`, t.reranker, side.rerank, [["", t.asWorld], ["true", t.with], ["false", t.without]], change("rerank")),
  );
}

/** Return a list that sets the position to the end of a chapter. */
function throughChapter(name, side, change) {
  const starts = book.number === within() ? book.chapters : [];
  if (starts.length < 2) return null;
  const ends = starts.map((one, at) => [String((starts[at + 1]?.first ?? book.last + 1) - 1), one.chapter]);
  const options = [["", side.sid === "" ? t.recorded : t.sentence({ sid: side.sid })], ...ends];
  return choose(`${name}-chapter`, t.chapter, side.sid, options, change);
}

function chooseWithin() {
  // A position belongs to a book.
  for (const name of SIDES) sides[name] = { ...sides[name], sid: "" };
  renderSides();
  learnBook().catch(complain);
  if (shown) compare();
}

function submit(event) {
  event.preventDefault();
  compare();
}

/** Put the comparison into the URL. */
function remember({ replace }) {
  const within = byId("compare-within").value;
  go({ q: query(), left: format(sides.left), right: format(sides.right), within, top_k: count() === 5 ? null : count() }, { replace });
  asked = address();
}

const address = () => {
  const { q, left, right, within: chosen, document: open, top_k: top } = route();
  return JSON.stringify([state.world?.id, state.me?.token, q, left, right, chosen, open, top]);
};

async function compare({ remembered = false } = {}) {
  if (!remembered) remember({ replace: false });
  running?.abort();
  answering?.abort();
  if (!query()) {
    shown = null;
    return fill(byId("compare-result"), make("p", { class: "empty" }, t.askFirst));
  }
  if (hasReader() && within() === null) return fill(byId("compare-result"), make("p", { class: "empty" }, t.bookFirst));
  running = new AbortController();
  const { signal } = running;
  const result = byId("compare-result");
  result.setAttribute("aria-busy", "true");
  try {
    const [left, right] = await Promise.all(SIDES.map((name) => ask(sides[name], query(), within(), count(), signal)));
    clearNotice();
    shown = { left, right, rows: align(ranked(left.found.passages), ranked(right.found.passages)) };
    render();
    say(t.counted(tally()));
  } catch (problem) {
    if (problem.name === "AbortError") return null;
    complain(problem, problem.retryable ? () => compare() : null);
  }
  result.removeAttribute("aria-busy");
  return null;
}

/** Return the lowest position of the readers; past it, text is hidden. */
function boundary() {
  const positions = SIDES.filter((name) => sides[name].as === "reader").map((name) => shown[name].position ?? -1);
  return positions.length && may("read") ? Math.min(...positions) : Infinity;
}

/** Return what is withheld from the reader of a side: found without a position, and past it. */
function withheld(name) {
  const { whole, position } = shown[name];
  return whole ? whole.passages.filter((one) => one.last > (position ?? -1)) : [];
}

function tally() {
  const of = (kind) => shown.rows.filter((row) => row.kind === kind).length;
  return { both: of("same") + of("moved"), moved: of("moved"), part: of("part"), left: of("left"), right: of("right") };
}

function render() {
  const counts = tally();
  const chips = [
    ["both", counts.both, t.both],
    ["moved", counts.moved, t.moved],
    ["left", counts.left, t.onlyLeft],
    ["right", counts.right, t.onlyRight],
    counts.part > 0 && ["part", counts.part, t.part],
  ].filter(Boolean);
  const readers = SIDES.filter((name) => shown[name].whole);
  const sums = readers.map((name) => ({ name, count: withheld(name).length }));
  const hidden = Number.isFinite(boundary()) && shown.rows.some(isPast);
  fill(
    byId("compare-result"),
    make(
      "div",
      { class: "compare-summary" },
      make(
        "ul",
        { class: "compare-counts", "aria-label": t.counts },
        chips.map(([kind, number, name]) => make("li", { class: `count-${kind}`, "data-count": kind }, make("b", {}, number), ` ${name}`)),
        sums.map(({ name, count: number }) => make("li", { class: "count-withheld", "data-count": "withheld" }, make("b", {}, number), ` ${t.withheldFrom({ name: sides[name].reader || state.reader })}`)),
      ),
      hidden && make("label", { class: "check" }, make("input", { type: "checkbox", id: "compare-veil", checked: true, onchange: veil }), t.hideAhead),
      make("span", { class: "grow" }),
      button(t.answerBoth, answer, { class: "small", id: "compare-answer" }),
      button(t.share, share, { class: "small quiet", id: "compare-share" }),
    ),
    make("div", { class: "compare-heads" }, SIDES.map(head)),
    make("div", { class: "compare-answers", id: "compare-answers", hidden: true }),
    shown.rows.length ? [slopes(), make("ol", { class: "compare-rows", id: "compare-rows" }, shown.rows.map(renderRow))] : make("p", { class: "empty" }, t.nothing),
  );
  veil();
}

function head(name) {
  const { found, position } = shown[name];
  const note = position === null ? t.noPosition : position === -1 ? t.nothingRead : position === undefined ? "" : t.upTo({ sid: position });
  return make(
    "header",
    { class: `compare-head ${name}` },
    make("h3", {}, label(sides[name])),
    make("p", { class: "hint" }, [texts.counts.passages({ count: found.passages.length }), texts.counts.tokens({ count: found.tokens }), note].filter(Boolean).join(" · ")),
    found.warnings.filter((one) => one.code !== "floor_does_not_discriminate").map((one) => make("p", { class: "hint warn", "data-code": one.code }, words.notice(one))),
  );
}

const isPast = (row) => [row.left, row.right].some((one) => one && one.last > boundary());

function renderRow(row) {
  return make(
    "li",
    { class: `compare-row ${row.kind}`, "data-kind": row.kind },
    cell(row, "left"),
    make("div", { class: "compare-change", title: changeTitle(row) }, change(row)),
    cell(row, "right"),
  );
}

function change({ left, right, kind }) {
  if (kind === "same") return [make("b", {}, "="), delta(left, right)];
  if (kind === "moved") {
    const step = left.rank - right.rank;
    return [make("b", { class: step > 0 ? "up" : "down" }, `${step > 0 ? "▲" : "▼"} ${Math.abs(step)}`), delta(left, right)];
  }
  return make("b", { class: "one" }, left ? "◂" : "▸");
}

function delta(left, right) {
  const difference = right.score - left.score;
  if (Math.abs(difference) < 0.0005) return null;
  return make("small", {}, `${difference > 0 ? "+" : "−"}${words.score(Math.abs(difference))}`);
}

function changeTitle({ left, right, kind }) {
  if (kind === "same") return t.sameRank({ rank: left.rank });
  if (kind === "moved") return t.movedFrom({ before: left.rank, after: right.rank });
  if (kind === "part") return t.partTitle;
  return left ? t.onlyLeftTitle : t.onlyRightTitle;
}

function cell(row, name) {
  const one = row[name];
  const other = row[name === "left" ? "right" : "left"];
  if (!one) return make("div", { class: `compare-cell none ${name}` }, make("p", {}, absence(name, other, row.near)));
  const past = one.last > boundary();
  const twin = other && other.text === one.text;
  return make(
    "article",
    { class: `compare-cell ${name}${past ? " past" : ""}${twin ? " twin" : ""}`, "data-first": one.first, "data-last": one.last },
    make(
      "header",
      {},
      make("span", { class: "compare-rank" }, `#${one.rank}`),
      make("span", { class: "score", title: t.similarity }, bar(one.score), words.score(one.score)),
      one.fused && make("span", { class: "compare-more", title: t.wordScore }, t.wordsOf({ figure: words.decimal(one.fused.bm25, 2) })),
      one.rerank && make("span", { class: "compare-more", title: one.rerank.model }, t.rerankedFrom({ rank: one.rerank.before })),
    ),
    make("div", { class: "compare-text" }),
    make(
      "footer",
      {},
      button(words.sentences(one.first, one.last), () => emit("show", { document: one.document, first: one.first, last: one.last }), { class: "link" }),
      make("span", {}, words.trail(one.title, past ? "" : one.chapter).join(" › ")),
      may("read") && button(t.keep, () => emit("golden", { query: query(), document: one.document }), { class: "link compare-keep", title: t.keepTitle, "aria-label": t.keepLabel }),
    ),
  );
}

/** Say why a passage has no place on one side. */
function absence(name, other, near) {
  const { position } = shown[name];
  if (near) return t.partOf({ rank: near.rank });
  if (sides[name].as === "reader" && position !== undefined && other.last > (position ?? -1)) {
    return position === null ? t.withheldAll : other.first > position ? t.withheld({ sid: position }) : t.withheldCut({ sid: position });
  }
  const count = shown[name].found.passages.length;
  return count ? t.notFound({ count }) : t.nothingHere;
}

/** Insert the texts. Text past a position is on the page only while it is not hidden. */
function veil() {
  const hides = byId("compare-veil")?.checked;
  const cells = byId("compare-rows")?.querySelectorAll("article") || [];
  const passages = shown.rows.flatMap((row) => [row.left, row.right].filter(Boolean));
  cells.forEach((node, at) => {
    const covered = hides && node.classList.contains("past");
    const text = node.querySelector(".compare-text");
    node.classList.toggle("veiled", Boolean(covered));
    fill(text, covered ? make("div", { class: "veil-text", role: "img", "aria-label": t.hidden }, make("i"), make("i")) : blocksOf(passages[at]));
  });
}

const blocksOf = (one) => passageBlocks(one.text, { labels: [one.title, one.chapter, one.section].filter(Boolean) });

const LINE = 26;

/** Draw each passage as a line from its rank on the left to its rank on the right. */
function slopes() {
  const most = Math.max(...SIDES.map((name) => shown[name].found.passages.length), 1);
  const y = (rank) => 14 + (rank - 1) * LINE;
  const height = most * LINE + 4;
  const dots = shown.rows.flatMap(({ left, right, kind }) => [
    left && dot(70, y(left.rank), left, kind, "end", 56),
    right && dot(290, y(right.rank), right, kind, "start", 304),
  ]);
  const lines = shown.rows.filter((row) => row.left && row.right).map(({ left, right, kind }) =>
    draw("line", { class: `slope ${kind}${right.rank > left.rank ? " down" : ""}`, x1: 78, y1: y(left.rank), x2: 282, y2: y(right.rank) }));
  const stubs = shown.rows.filter((row) => !row.left || !row.right).map(({ left, right }) =>
    left ? draw("line", { class: "slope lone", x1: 78, y1: y(left.rank), x2: 118, y2: y(left.rank) }) : draw("line", { class: "slope lone", x1: 242, y1: y(right.rank), x2: 282, y2: y(right.rank) }));
  return make(
    "figure",
    { class: "compare-slopes" },
    draw("svg", { viewBox: `0 0 360 ${height}`, role: "img", "aria-label": t.slopes(tally()) }, lines, stubs, dots),
    make("figcaption", { class: "hint" }, t.slopesCaption),
  );
}

function dot(x, y, one, kind, anchor, labelAt) {
  return draw(
    "g",
    { class: `slope-end ${kind}` },
    draw("circle", { cx: x, cy: y, r: 7 }),
    draw("text", { x: labelAt, y: y + 4, "text-anchor": anchor }, `#${one.rank} ${words.score(one.score)}`),
  );
}

/** Ask both sides for an answer, and show each as it arrives. */
async function answer() {
  answering?.abort();
  answering = new AbortController();
  const { signal } = answering;
  const box = byId("compare-answers");
  const panels = SIDES.map((name) => make("article", { class: `compare-answer ${name}`, "aria-busy": "true", "aria-label": t.answerOf({ side: label(sides[name]) }), tabindex: "0" }, make("p", { class: "waiting" }, t.answering)));
  fill(box, panels);
  box.hidden = false;
  const outcomes = await Promise.allSettled(SIDES.map((name, at) => answerSide(sides[name], panels[at], signal)));
  const failed = outcomes.find((one) => one.status === "rejected" && one.reason.name !== "AbortError");
  if (failed) complain(failed.reason, answer);
  else if (!signal.aborted) say(t.answered);
}

async function answerSide(side, panel, signal) {
  const { where, body } = request(side, "answer", within());
  let text = "";
  try {
    for await (const { event, data } of events("POST", where, { body: { ...body, query: query(), stream: true }, signal })) {
      if (event === "problem") throw new Problem(data);
      if (event === "started") fill(panel, badge(data.mode), make("div", { class: "spoken md" }));
      else if (event === "piece") fill(panel.querySelector(".spoken"), textOf((text += data.text), []));
      else if (event === "finished") return finished(panel, data);
    }
    throw new Problem({ detail: t.brokenOff, code: "broken_off", retryable: true });
  } catch (problem) {
    if (problem.name !== "AbortError") fill(panel, make("p", { class: "bad" }, problem.message));
    throw problem;
  } finally {
    panel.removeAttribute("aria-busy");
  }
}

function finished(panel, found) {
  const wrong = found.quotes.filter((one) => !one.verified).length;
  const spoken = make("div", { class: "spoken md" }, textOf(found.answer, found.citations));
  if (found.support) markUnsupported(spoken, found.support, found.answer);
  fill(
    panel,
    make("div", { class: "answer-head" }, badge(found.mode, Boolean(found.decision_explain.refusal)), found.support && figure(found.support)),
    spoken,
    make("p", { class: "hint" }, [texts.counts.sources({ count: found.citations.length }), wrong ? t.wrongQuotes({ count: wrong }) : "", words.speaker(found.decision_explain.used_llm)].filter(Boolean).join(" · ")),
  );
}

function share() {
  remember({ replace: true });
  const done = () => say(t.shared);
  if (navigator.clipboard) navigator.clipboard.writeText(location.href).then(done, () => say(t.notShared));
  byId("compare-share").textContent = t.shared;
}

async function learnGenerations() {
  generations = [];
  if (!state.world || !may("administer")) return;
  generations = (await get(`${worldPath()}/generations`)).generations;
}

function fillWithin() {
  const list = byId("compare-within");
  fill(list, make("option", { value: "" }, t.allDocuments), state.documents.map((one) => make("option", { value: one.number }, one.title || one.name)));
  const wanted = route().within;
  list.value = state.documents.some((one) => String(one.number) === wanted) ? wanted : "";
}

/** Show the view; called each time it is entered. */
export async function show() {
  if (!state.world) {
    asked = "";
    return fill(byId("compare-body"), make("p", { class: "empty" }, t.noWorld));
  }
  if (asked === address()) return null;
  asked = address();
  book = { number: null, chapters: [], last: 0 };
  try {
    await learnGenerations();
  } catch (problem) {
    complain(problem);
  }
  shown = null;
  build();
  const now = route();
  byId("compare-question").value = now.q || "";
  if (now.top_k) byId("compare-count").value = now.top_k;
  readSides();
  fillWithin();
  renderSides();
  learnBook().catch(complain);
  if (now.q && now.left && now.right) return compare({ remembered: true });
  fill(byId("compare-result"), make("p", { class: "empty" }, t.askFirst));
  return null;
}

on("route", () => {
  if (active()) show();
});
on("opened", () => {
  if (active() && state.me) show();
});
on("world", () => {
  running?.abort();
  answering?.abort();
  asked = "";
});
