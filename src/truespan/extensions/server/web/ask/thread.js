// The thread: the turns of the open conversation. One is selected; the tabs with its context, its
// answer and the explanation are shown in it.

import { button, byId, fill, make } from "../common/dom.js";
import { emit, on } from "../common/state.js";
import { texts } from "../common/texts.js";
import { render } from "./answer.js";
import { clock } from "../common/words.js";

const TABS = ["context", "answer", "why"];
let turns = [];
let selected = null;
let again = () => {};
/** The last sentence read; Infinity where there is no position. */
let limit = Infinity;

/** Return a turn; `values` are those of a stored turn, or of a question just asked. */
export function newTurn(values) {
  return { id: null, question: "", standalone: "", askedAt: null, sid: null, book: null, state: "context", answer: null, received: "", problem: null, request: null, result: null, ...values };
}

const within = (turn) => turn.state === "context" || turn.sid === null || turn.sid <= limit;

/** Return the turns that are shown, oldest first. */
export const shown = () => turns.filter(within);

/** Return the selected turn, or null. */
export const current = () => selected;

/** Return the question that only looked for context, or null. It is always the last. */
export const draft = () => (turns.at(-1)?.state === "context" ? turns.at(-1) : null);

/** Set what “Ask again” and “Answer the question” do. */
export function onAgain(does) {
  again = does;
}

function heading(turn) {
  const place = turn.sid === null || turn.state === "context" ? "" : turn.sid < 0 ? texts.ask.askedBefore : texts.ask.askedAt({ sid: turn.sid });
  const small = [turn.askedAt !== null && clock(turn.askedAt), place, turn.preview && texts.ask.notKept].filter(Boolean).join(", ");
  const differs = turn.standalone && turn.standalone !== turn.question;
  return [
    make("h3", { class: "asked-text" }, turn.question || texts.ask.aboutSelection),
    small && make("small", {}, small),
    differs && make("p", { class: "searched" }, `${texts.ask.searchedFor} `, make("q", {}, turn.standalone)),
  ];
}

/** Return the tabs of a turn that is not selected: they select it. */
function peek(turn) {
  return make("div", { class: "tablist peek", role: "group", "aria-label": texts.ask.resultsOf({ question: turn.question }) }, TABS.map((tab) =>
    button(texts.ask.tabs[tab], () => select(turn, tab, true), { class: tab === "answer" ? "chosen" : "", "data-peek": tab })));
}

function build(turn) {
  turn.article = make("article", { tabindex: "-1" });
  turn.head = make("header", { class: "asked-head" });
  turn.slot = make("div", { class: "turn-result" }, peek(turn), turn.article);
  turn.item = make("li", { class: "turn" }, turn.head, turn.slot);
  update(turn);
}

/** Show a turn again after it has changed. */
export function update(turn) {
  turn.item.dataset.state = turn.state;
  if (turn.id) turn.item.dataset.turn = turn.id;
  fill(turn.head, heading(turn));
  render(turn, () => again(turn));
  if (turn === selected) count();
}

function count() {
  byId("count-answer").textContent = selected?.state === "done" && !selected.answer.decision_explain?.refusal ? "✓" : "";
}

/** Move the result back to its place, and close the selected turn. */
function release() {
  byId("talk").append(byId("result"));
  byId("result").classList.remove("asked");
  if (selected) {
    fill(selected.slot, peek(selected), selected.article);
    selected.item.removeAttribute("aria-current");
  }
  selected = null;
  count();
}

/** Select a turn and one of its tabs. */
export function select(turn, tab = turn.state === "context" ? "context" : "answer", focus = false) {
  if (turn !== selected) {
    release();
    selected = turn;
    turn.item.setAttribute("aria-current", "true");
    fill(byId("panel-answer"), turn.article);
    fill(turn.slot, byId("result"));
    byId("result").classList.add("asked");
    count();
    emit("turn", turn);
  }
  emit("tab", tab);
  if (focus) byId(`tab-${tab}`).focus();
}

/** Show the turns that may be seen; a selected one that may not leaves the page with the others. */
function arrange() {
  const visible = shown();
  if (selected && !visible.includes(selected)) release();
  const items = visible.map((turn) => turn.item);
  const list = byId("thread");
  if (items.length !== list.children.length || items.some((item, at) => item !== list.children[at])) fill(list, items);
  if (!selected && visible.length) select(visible.at(-1));
  emit("thread");
}

/** Add a turn at the end, in the place of a question that only looked for context, and select it. */
export function add(turn, tab) {
  const before = draft();
  if (before) turns.pop();
  turns.push(turn);
  build(turn);
  if (before === selected && before) release();
  arrange();
  select(turn, tab);
}

/** Bring the question of a turn to the top. */
export function reveal(turn) {
  turn.item.scrollIntoView({ block: "start" });
}

/** Show turns in the place of the present ones; known ones keep what was loaded for them. */
export function show(stored) {
  const known = new Map(turns.filter((turn) => turn.id).map((turn) => [turn.id, turn]));
  const local = turns.filter((turn) => !turn.id);
  const joined = [...stored.map((turn) => known.get(turn.id) || turn), ...local.filter((turn) => turn.state !== "context")];
  joined.sort((a, b) => a.askedAt - b.askedAt);
  turns = [...joined, ...local.filter((turn) => turn.state === "context")];
  for (const turn of turns) if (!turn.item) build(turn);
  arrange();
}

/** Clear the thread. */
export function clear() {
  release();
  turns = [];
  fill(byId("panel-answer"));
  arrange();
}

/** Hide the turns that were asked past a position, and show the others; null means no position. */
export function limitTo(position) {
  limit = position === null ? Infinity : position;
  arrange();
}

on("turn-tab", ({ turn, tab }) => select(turn, tab, true));
