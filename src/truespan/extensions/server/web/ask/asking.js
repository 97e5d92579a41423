// Asking: the form, its options, and the requests for context and answers of the turns.

import { get, path, post, Problem } from "../common/api.js";
import { button, byId, clearNotice, complain, fill, make, quoted, say } from "../common/dom.js";
import { asReader, emit, go, may, on, previewQuery, readerPath, route, state, worldPath } from "../common/state.js";
import { texts } from "../common/texts.js";
import { mode as modeWords } from "../common/words.js";
import * as library from "../library/library.js";
import * as position from "../reading/position.js";
import * as answers from "./answer.js";
import * as context from "./context.js";
import * as conversations from "./conversations.js";
import { ofBundle, ofSearch, parted } from "./found.js";
import * as options from "./options.js";
import { bestOf } from "./sources.js";
import * as thread from "./thread.js";
import * as why from "./why.js";

const MAX_LENGTH = { question: 1000, selection: 5000 };
let loading = null;
let answering = null;
/** Counts what takes the place of a conversation that is being loaded. */
let visits = 0;
/** Called when the book that was opened last is there, with the position in it. */
let waiting = [];
const whole = { key: "", found: null };

const question = () => byId("question").value.trim();
const book = () => String(state.document.number);
const positionNow = () => (state.position === null ? -1 : state.position);

/** Return everything that determines a result, so that it can be requested again. */
function request(query) {
  return { query, selection: state.selection, ...options.chosen() };
}

function missing() {
  if (!state.world) return texts.ask.needsWorld;
  if (asReader() && !state.document) return texts.ask.needsBook;
  if (!question() && !(state.selection && !asReader())) return texts.ask.needsQuestion;
  return options.problem();
}

/** Return the context without a position, cached while question and document stay the same. */
async function unbounded({ query, top_k, ofReader }, signal) {
  const body = { query, documents: [book()], top_k, ...ofReader, language: null, version: null };
  const key = JSON.stringify([state.world.id, body]);
  if (whole.key !== key) {
    whole.found = ofBundle(await post(`${worldPath()}/retrieve`, body, signal));
    whole.key = key;
  }
  return whole.found;
}

async function asOwner({ query, selection, searching, top_k, filters }, signal) {
  if (searching && query) {
    return { found: ofSearch(await post(`${worldPath()}/search?highlight=true`, { ...filters, query, top_k }, signal)), whole: null };
  }
  const body = { ...filters, query: query || null, selected_text: selection || null, top_k, near_misses: true };
  return { found: ofBundle(await post(`${worldPath()}/retrieve?highlight=true`, body, signal)), whole: null };
}

async function asAReader(wanted, signal) {
  const { query, top_k, ofReader } = wanted;
  const [bundle, all] = await Promise.all([
    post(`${readerPath()}/retrieve${previewQuery({ highlight: true })}`, { query, book: book(), top_k, ...ofReader }, signal),
    may("read") ? unbounded(wanted, signal) : null,
  ]);
  return { found: ofBundle(bundle), whole: all };
}

function marks(result) {
  if (!asReader() || !result) return position.mark([], []);
  const at = positionNow();
  const ahead = result.whole ? parted(result.whole.passages, at).ahead : [];
  return position.mark(parted(result.found.passages, at).given, ahead);
}

/** Show the context and the explanation of a turn, as far as they are loaded. */
function showResult(turn) {
  why.forget();
  why.explainAnswer(turn.answer && (turn.answer.decision_explain ? turn.answer : undefined));
  if (turn.result) {
    context.show(turn.result);
    why.explain(turn.result.found);
  } else {
    context.forget();
    fill(byId("panel-context"), make("p", { class: "empty" }, texts.ask.loading));
    fill(byId("panel-why"), make("p", { class: "empty" }, texts.ask.loading));
  }
  marks(turn.result);
}

/** Load the context of a turn; a turn that is selected meanwhile cancels it. */
async function load(turn) {
  loading?.abort();
  loading = new AbortController();
  const { signal } = loading;
  const panel = byId("panel-context");
  panel.setAttribute("aria-busy", "true");
  try {
    const found = await (asReader() ? asAReader(turn.request, signal) : asOwner(turn.request, signal));
    turn.result = { ...found, signal, position: positionNow() };
    clearNotice();
    answers.learned(turn);
    if (turn === thread.current()) showResult(turn);
    if (turn.announce) say(texts.ask.found({ count: found.found.passages.length }));
    turn.announce = false;
  } catch (problem) {
    if (problem.name === "AbortError") return;
    const again = problem.retryable ? () => load(turn) : null;
    // The turn of an answer says itself what went wrong.
    if (turn.state === "context") complain(problem, again);
    if (turn === thread.current()) fill(panel, make("p", { class: "empty" }, texts.ask.notLoaded, " ", turn.state !== "context" && problem.message), again && button(texts.ask.loadAgain, again, { class: "small quiet" }));
    if (problem.bundle && turn === thread.current()) why.explain(ofBundle(problem.bundle));
  }
  if (!signal.aborted) panel.removeAttribute("aria-busy");
}

/** Write the question and the options that differ from their defaults into the address. */
function remember(query) {
  go({ q: query, conversation: conversations.open.id, ...options.parameters() });
}

/** Add the question that is typed as a turn without an answer; it is selected, so its context is loaded. */
function findContext(announce) {
  const turn = thread.newTurn({ question: question(), request: request(question()), state: "context", announce });
  thread.add(turn, "context");
  resize();
  return turn;
}

/** Close the options on a narrow screen, where they leave no room for a result. */
function makeRoom() {
  if (matchMedia("(max-width: 1020px)").matches) byId("options").open = false;
}

/** Retrieve context for the question, or quietly again for the selected turn. */
export async function ask({ quietly = false } = {}) {
  if (!quietly) makeRoom();
  if (quietly && thread.current()) return load(thread.current());
  const lack = missing();
  if (lack) return quietly ? null : hint(lack);
  const turn = findContext(!quietly);
  if (quietly) return null;
  thread.reveal(turn);
  return remember(turn.question);
}

/** Return the question that is typed, else that of the selected turn. */
export const asked = () => question() || thread.current()?.question || "";

/** Find context for a question as another reader, or as the owner. */
export function askAgain(query) {
  byId("question").value = query;
  resize();
  return ask({ quietly: true });
}

/** Return the turn of a question: the one that found its context before, or a new one. */
function turnFor(query) {
  const wanted = request(query);
  const found = thread.draft();
  const same = found && JSON.stringify(found.request) === JSON.stringify(wanted);
  const turn = same ? found : thread.newTurn({ question: query, request: wanted, state: "asking" });
  if (!same) thread.add(turn, "answer");
  return turn;
}

/** Request an answer to what was typed, as the next turn of the conversation. */
export function answer() {
  makeRoom();
  const typed = question();
  const query = typed || (state.selection.length <= MAX_LENGTH.question ? state.selection : "");
  const unread = asReader() && state.position === null;
  const lack = missing() || (query ? "" : texts.ask.selectionTooLong) || (unread ? (may("write") && may("read") ? texts.ask.needsPosition : texts.ask.nothingRead) : "");
  if (lack) return hint(lack);
  const turn = turnFor(query);
  byId("question").value = "";
  state.selection = "";
  showSelection();
  resize();
  return answerTurn(turn);
}

function busy(now) {
  byId("stop").hidden = !now;
  byId("ask").classList.toggle("answering", now);
}

/** Stop the answer that is being written; what arrived stays. */
export function stop() {
  answering?.abort();
}

/** Ask the question of a turn; an answer that is being written stops. */
async function answerTurn(turn) {
  stop();
  visits += 1;
  const own = new AbortController();
  answering = own;
  const first = !thread.shown().some((one) => one !== turn && one.state === "done");
  Object.assign(turn, { state: "asking", received: "", problem: null, answer: null, askedAt: Date.now() / 1000, sid: asReader() ? positionNow() : null, book: asReader() ? state.document.number : null, preview: previewQuery() !== "" });
  thread.update(turn);
  thread.select(turn, "answer");
  thread.reveal(turn);
  busy(true);
  remember(turn.question);
  // The completed form of a follow-up, which is searched for, arrives with the answer.
  if (first && !turn.result) load(turn);
  try {
    await receive(turn, own.signal);
    clearNotice();
  } catch (problem) {
    // Whatever was thrown, an answer that was stopped has not failed.
    turn.state = own.signal.aborted ? "stopped" : "failed";
    turn.problem = own.signal.aborted ? null : known(problem);
    if (turn.state === "stopped") say(texts.ask.stopped);
  }
  if (answering === own) {
    answering = null;
    busy(false);
  }
  if (own.signal.reason === "left") return;
  thread.update(turn);
  if (turn === thread.current()) follow(turn);
  if (turn !== thread.current() || turn.state !== "done") return;
  focusAnswer(turn);
  showSource();
}

/** Show the first source of the selected answer in the text pane. */
export function showSource() {
  const { answer: given } = thread.current() ?? {};
  const source = given?.citations.find((one) => one.chunk_id);
  if (source) emit("show", { document: source.document, first: source.first_sid, last: source.last_sid, best: bestOf(source, given.quotes), aside: true });
}

/** Move the focus to an answer, unless the user is doing something else by now. */
function focusAnswer(turn) {
  const { activeElement: focused } = document;
  const idle = focused === document.body || focused === byId("go-answer") || (focused === byId("question") && !question());
  if (idle) turn.article.focus({ preventScroll: true });
}

/** Return a problem of the server as it is; an error of the page is written to the console. */
function known(problem) {
  if (problem.name === "Problem") return problem;
  console.error(problem);
  return new Problem({ detail: texts.ask.pageFailed, code: "page" });
}

async function receive(turn, signal) {
  const { query, filters, ofReader } = turn.request;
  const body = asReader() ? { query, book: book(), ...ofReader } : { query, ...filters };
  for await (const { event, data } of conversations.ask(body, signal)) {
    signal.throwIfAborted();
    if (event === "problem") throw new Problem(data);
    if (event === "started") answers.begin(turn, data.mode);
    else if (event === "piece") answers.extend(turn, data.text);
    else if (event === "finished") {
      const given = typeof data.answer === "object" ? data.answer : data;
      Object.assign(turn, { state: "done", answer: given, ...conversations.note(given) });
      say(texts.ask.answered({ mode: modeWords(given.mode) }));
      if (conversations.open.id && signal.reason !== "left") go({ conversation: conversations.open.id }, { replace: true });
      emit("stored");
      return;
    }
  }
  throw new Problem({ detail: texts.ask.interrupted, code: "broken_off", retryable: true });
}

/** Show the results of the selected turn, and load its context if there is none for this position. */
function follow(turn) {
  const searched = turn.standalone || turn.question;
  if (turn.request === null) turn.request = request(searched);
  if (turn.standalone && turn.request.query && turn.request.query !== searched) {
    turn.request = { ...turn.request, query: searched };
    turn.result = null;
  }
  if (turn.result && asReader() && turn.result.position !== positionNow()) turn.result = null;
  showResult(turn);
  if (!turn.result && turn.state !== "asking") load(turn);
}

/** Show a hint below the question. */
function hint(words) {
  byId("question-hint").textContent = words;
  byId("question").focus();
}

function resize() {
  const box = byId("question");
  const { length } = box.value;
  byId("question-hint").textContent = length > MAX_LENGTH.question - 200 ? texts.ask.length({ length, most: MAX_LENGTH.question }) : "";
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
  fill(box, make("span", {}, `${texts.ask.about} `, quoted(start === plain ? start : `${start}…`)), button("×", dropSelection, { class: "icon small", "aria-label": texts.ask.dropSelection }));
}

function dropSelection() {
  state.selection = "";
  showSelection();
  byId("question").focus();
}

function askSelection(words) {
  const most = asReader() ? MAX_LENGTH.question : MAX_LENGTH.selection;
  emit("pane", "ask");
  if (words.length > most) return hint((asReader() ? texts.ask.readerSelectionLong : texts.ask.selectionLong)({ most, length: words.length }));
  state.selection = asReader() ? "" : words;
  if (asReader()) byId("question").value = words;
  showSelection();
  resize();
  return ask();
}

/** Leave the conversation: nothing of it stays on the page. */
function leave() {
  visits += 1;
  answering?.abort("left");
  loading?.abort();
  conversations.leave();
  context.forget();
  why.forget();
  thread.clear();
  emit("tab", "context");
  marks(null);
}

/** Begin a new conversation. */
export function begin() {
  leave();
  go({ conversation: null, q: null });
  emit("welcome");
  byId("question").focus();
}

/** Clear everything after another world, reader or token was chosen. */
export function forget() {
  state.selection = "";
  whole.key = "";
  showSelection();
  leave();
  thread.limitTo(null);
}

/** Open a stored conversation; its last turn is selected, or the one with this question. */
export async function open(id, query = null) {
  leave();
  const own = visits;
  const { book: number, turns } = await conversations.load(id);
  if (own !== visits) return;
  const about = number === null ? null : state.documents.find((one) => one.number === number);
  if (about && about.number !== state.document?.number) {
    const located = new Promise((settle) => waiting.push(settle));
    await library.openDocument(about);
    await located;
    if (own !== visits) return;
  }
  conversations.open.id = id;
  thread.limitTo(asReader() ? positionNow() : null);
  thread.show(turns.map(thread.newTurn));
  const wanted = query && thread.shown().findLast((turn) => turn.question === query);
  if (wanted) thread.select(wanted);
  if (thread.current()) thread.reveal(thread.current());
}

/** Show what the route names: its options, its conversation, and its question. */
export async function restore() {
  const wanted = route();
  options.restore(wanted);
  const id = wanted.conversation || null;
  let gone = false;
  try {
    if (id && id !== conversations.open.id) {
      await open(id, wanted.q);
      go({ conversation: id, q: wanted.q }, { replace: true });
    }
    else if (!id && conversations.open.id) leave();
  } catch (problem) {
    gone = problem.code === "conversation_not_found" || problem.code === "conversations_off";
    if (!gone) return complain(problem, restore);
    go({ conversation: null }, { replace: true });
  }
  if (!wanted.q) {
    if (!thread.current()) emit("welcome");
  } else {
    const found = thread.shown().findLast((turn) => turn.question === wanted.q);
    if (found) thread.select(found);
    else {
      byId("question").value = wanted.q;
      if (!missing()) findContext(false);
    }
  }
  if (gone) byId("question-hint").textContent = texts.ask.conversationGone;
  return null;
}

byId("ask-form").addEventListener("submit", (event) => {
  event.preventDefault();
  answer();
});
byId("go").addEventListener("click", () => ask());
byId("stop").addEventListener("click", () => {
  stop();
  byId("question").focus();
});
byId("question").addEventListener("input", resize);
byId("question").addEventListener("keydown", (event) => {
  if (event.key === "Escape" && answering) stop();
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (event.ctrlKey || event.metaKey) ask();
  else answer();
});
thread.onAgain(answerTurn);
on("turn", follow);
on("ingested", () => {
  whole.key = "";
});
on("ask-selection", askSelection);
on("moved", () => {
  if (!asReader()) return;
  const before = thread.current();
  thread.limitTo(positionNow());
  // A question that is hidden leaves the address too.
  if (route().q && !thread.shown().some((turn) => turn.question === route().q)) go({ q: null }, { replace: true });
  // The context of a turn may still be loading: then nothing of it is shown yet.
  if (!thread.current() && (before || context.shown())) {
    loading?.abort();
    context.forget();
    why.forget();
    emit("tab", "context");
    emit("welcome");
  }
  context.showAgain();
  marks(context.shown());
});
on("saved", async () => {
  const { id } = conversations.open;
  if (!id || !asReader()) return;
  try {
    const { turns } = await conversations.load(id);
    // Reading on shows turns again that were asked further on.
    if (id === conversations.open.id) thread.show(turns.map(thread.newTurn));
  } catch (problem) {
    if (problem.code !== "conversation_not_found") complain(problem);
  }
});
on("settled", () => {
  const turn = thread.current();
  if (turn && turn.state !== "asking") load(turn);
});
on("boundary", context.showAgain);
on("located", () => {
  // A reader's conversation is about one book.
  if (asReader() && thread.shown().some((turn) => turn.state !== "context" && turn.book !== state.document?.number)) {
    const { id } = conversations.open;
    leave();
    if (id && id === route().conversation) go({ conversation: null, q: null }, { replace: true });
  }
  thread.limitTo(asReader() ? positionNow() : null);
  for (const settle of waiting) settle();
  waiting = [];
});
