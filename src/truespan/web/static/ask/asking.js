// Asking: sends a question as owner or reader, and shows the context and the answer.

import * as answers from "./answer.js";
import { post } from "../common/api.js";
import * as context from "./context.js";
import { button, byId, fill, make, say } from "../common/dom.js";
import { ofBundle, ofSearch, parted } from "./found.js";
import { clear, complain } from "../common/notices.js";
import * as position from "../reading/position.js";
import { asReader, emit, may, on, readerPath, state, worldPath } from "../common/state.js";
import * as why from "./why.js";
import { many } from "../common/words.js";

const LONGEST = { question: 1000, selection: 5000 };
let asked = "";
let running = null;
let answering = null;
let answered = false;
const whole = { key: "", found: null };

const question = () => byId("question").value.trim();
const number = () => Math.min(20, Math.max(1, byId("top-k").valueAsNumber || 5));
const book = () => String(state.document.number);

const mode = () => byId("search-mode").value || null;
const searching = () => byId("way").value === "search";

/** Return the chosen filters, the same for context, search and answers. */
function filters() {
  const text = (id) => byId(id).value.trim() || null;
  return {
    documents: byId("reach").value === "document" && state.document ? [book()] : null,
    chapter_filter: text("chapter"),
    language_constraint: text("language"),
    version_constraint: text("version"),
    mode: mode(),
  };
}

/** Return everything that determines the result, to detect a repeated question. */
const wording = () => JSON.stringify([question(), state.selection, filters(), number(), searching()]);

function missing() {
  if (!state.world) return "Create a world first: documents are added to a world.";
  if (asReader() && !state.document) return "Choose a book first: a reader asks about one book.";
  if (!question() && !(state.selection && !asReader())) return "Type a question, or select text and ask about it.";
  return "";
}

/** Return the context without a position, cached while question and document stay the same. */
async function unbounded(query, signal) {
  const body = { query, documents: [book()], top_k: number(), mode: mode(), language_constraint: null, version_constraint: null };
  const key = JSON.stringify([state.world.id, body]);
  if (whole.key !== key) {
    whole.found = ofBundle(await post(`${worldPath()}/retrieve`, body, signal));
    whole.key = key;
  }
  return whole.found;
}

async function asOwner(signal) {
  const query = question() || null;
  if (searching() && query) {
    const body = { ...filters(), query, top_k: number() };
    return { found: ofSearch(await post(`${worldPath()}/search`, body, signal)), whole: null };
  }
  const body = { ...filters(), query, selected_text: state.selection || null, top_k: number(), near_misses: true };
  return { found: ofBundle(await post(`${worldPath()}/retrieve`, body, signal)), whole: null };
}

async function asAReader(signal) {
  const body = { query: question(), book: book(), top_k: number(), mode: mode() };
  const [bundle, all] = await Promise.all([
    post(`${readerPath()}/retrieve`, body, signal),
    may("read") ? unbounded(question(), signal) : null,
  ]);
  return { found: ofBundle(bundle), whole: all };
}

function marks(result) {
  if (!asReader() || !result) return position.mark([], []);
  const at = state.position === null ? -1 : state.position;
  const ahead = result.whole ? parted(result.whole.passages, at).ahead : [];
  return position.mark(parted(result.found.passages, at).given, ahead);
}

/** Retrieve context as owner or reader. A new question cancels the previous one. */
export async function ask({ quietly = false } = {}) {
  const lack = missing();
  if (lack) return hint(lack);
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  const panel = byId("panel-context");
  panel.setAttribute("aria-busy", "true");
  byId("result").classList.add("asked");
  asked = wording();
  counted();
  if (!quietly) {
    forgetAnswer(false);
    byId("ask").scrollTop = 0;
  }
  try {
    const result = { ...(await (asReader() ? asAReader(signal) : asOwner(signal))), signal };
    clear();
    context.show(result);
    why.explain(result.found);
    marks(result);
    panel.removeAttribute("aria-busy");
    if (!quietly) say(`${many(result.found.passages.length, "passage")} found.`);
  } catch (problem) {
    if (problem.name === "AbortError") return null;
    panel.removeAttribute("aria-busy");
    complain(problem, problem.retryable ? () => ask({ quietly }) : null);
    if (problem.bundle) why.explain(ofBundle(problem.bundle));
  }
  return null;
}

function forgetAnswer(stale) {
  answering?.abort();
  answered = false;
  byId("count-answer").textContent = "";
  why.explainAnswer(null);
  answers.invite(answer, stale);
}

/** Request an answer, and its context if the question is new. */
export async function answer() {
  const query = question() || (state.selection.length <= LONGEST.question ? state.selection : "");
  const lack = missing() || (query ? "" : "Type a question: the selection is too long to be one.");
  if (lack) return hint(lack);
  emit("tab", "answer");
  if (asked !== wording()) ask();
  answering?.abort();
  answering = new AbortController();
  const where = asReader() ? `${readerPath()}/answer` : `${worldPath()}/answer`;
  const body = asReader() ? { query, book: book(), mode: mode() } : { query, ...filters() };
  try {
    const given = await answers.ask(where, body, answering.signal);
    clear();
    answered = true;
    byId("count-answer").textContent = "✓";
    why.explainAnswer(given);
  } catch (problem) {
    if (problem.name === "AbortError") return null;
    answers.invite(answer);
    complain(problem, answer);
  }
  return null;
}

/** Show a hint below the question. */
function hint(words) {
  byId("question-hint").textContent = words;
  byId("question").focus();
}

function counted() {
  const length = byId("question").value.length;
  byId("question-hint").textContent = length > LONGEST.question - 200 ? `${length} of ${LONGEST.question} characters` : "";
  const box = byId("question");
  box.style.height = "auto";
  box.style.height = `${Math.min(180, box.scrollHeight + 2)}px`;
}

function showSelection() {
  const box = byId("selection");
  box.hidden = !state.selection || asReader();
  if (box.hidden) return;
  const characters = new Intl.Segmenter(undefined, { granularity: "grapheme" });
  const plain = state.selection.replace(/\s+/g, " ");
  const start = plain.length > 160 ? [...characters.segment(plain.slice(0, 400))].slice(0, 160).map((one) => one.segment).join("") : plain;
  fill(box, make("span", {}, "About ", make("q", {}, start === plain ? start : `${start}…`)), button("×", dropSelection, { class: "icon small", "aria-label": "Ask without the selection" }));
}

function dropSelection() {
  state.selection = "";
  showSelection();
  byId("question").focus();
}

function askSelection(words) {
  const most = asReader() ? LONGEST.question : LONGEST.selection;
  emit("pane", "ask");
  if (words.length > most) {
    const whose = asReader() ? "The selection becomes the question of a reader, which" : "A selection";
    return hint(`${whose} may have ${most.toLocaleString("en")} characters; this one has ${words.length.toLocaleString("en")}. Select less.`);
  }
  state.selection = asReader() ? "" : words;
  if (asReader()) byId("question").value = words;
  showSelection();
  counted();
  return ask();
}

/** Clear everything after another world, reader or token was chosen. */
export function forget() {
  running?.abort();
  state.selection = "";
  whole.key = "";
  asked = "";
  showSelection();
  context.forget();
  why.forget();
  forgetAnswer(false);
  marks(null);
  byId("result").classList.remove("asked");
}

byId("ask-form").addEventListener("submit", (event) => {
  event.preventDefault();
  emit("tab", "context");
  ask();
});
byId("go-answer").addEventListener("click", answer);
byId("question").addEventListener("input", counted);
byId("question").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (event.ctrlKey || event.metaKey) answer();
  else byId("ask-form").requestSubmit();
});
on("ingested", () => {
  whole.key = "";
});
on("ask-selection", askSelection);
on("moved", () => {
  context.showAgain();
  marks(context.shown());
});
on("settled", () => {
  if (!asked || !question()) return;
  const had = answered;
  ask({ quietly: true });
  if (had) forgetAnswer(true);
});
on("boundary", context.showAgain);
