// The reading position: a slider that previews, over the sentences with chapters and passages, and
// what records it.

import { get, write } from "../common/api.js";
import { button, byId, clearNotice, complain, draw, fill, make, say } from "../common/dom.js";
import { asReader, emit, entryName, may, namedEntry, on, placeOf, places, readerPath, state, worldPath } from "../common/state.js";
import { texts } from "../common/texts.js";

const PAUSE = 140;
let parts = null;
/** The recorded position before the last save, to undo it; undefined if there is nothing to undo. */
let previous;
let timer = 0;
let writing = false;
let turn = 0;
let loading = false;
let marks = { given: [], ahead: [] };

const shown = () => (state.position === null ? -1 : state.position);
const recorded = () => (state.saved === null ? -1 : state.saved);
const previewing = () => shown() !== recorded();

function words() {
  const sid = shown();
  if (sid < 0) return texts.reading.nothingReadYet;
  const place = placeOf(sid);
  return place?.chapter ? texts.reading.sentenceIn({ sid, last: state.lastSid, chapter: entryName(place) }) : texts.reading.sentenceOf({ sid, last: state.lastSid });
}

function strip() {
  const span = state.lastSid + 1;
  const x = (sid) => (1000 * (sid + 1)) / Math.max(1, span);
  const box = (one, kind) =>
    draw("rect", { x: x(one.first - 1), width: Math.max(5, x(one.last) - x(one.first - 1)), y: 4, height: 16, rx: 1.5, class: kind });
  fill(
    parts.strip,
    draw("rect", { x: 0, y: 9, width: 1000, height: 6, class: "unread" }),
    draw("rect", { x: 0, y: 9, width: x(shown()), height: 6, class: previewing() ? "read preview" : "read" }),
    previewing() && draw("path", { d: `M${x(recorded())} 2V22`, class: "saved-tick" }),
    places().map((one) => draw("path", { d: `M${x(one.first - 1)} 6V18`, class: "chapter-tick" }, one.first <= shown() && draw("title", {}, one.name))),
    marks.ahead.map((one) => box(one, "mark-ahead")),
    marks.given.map((one) => box(one, "mark-given")),
  );
}

function render() {
  if (!parts) return;
  const sid = shown();
  parts.range.value = String(sid);
  parts.range.setAttribute("aria-valuetext", words());
  if (document.activeElement !== parts.number) parts.number.value = sid < 0 ? "" : String(sid);
  parts.label.textContent = words();
  const preview = previewing();
  byId("position").classList.toggle("previewing", preview);
  parts.preview.hidden = !preview;
  parts.save.hidden = !may("write");
  parts.save.disabled = !preview || writing;
  parts.back.hidden = !preview;
  parts.back.title = recorded() < 0 ? texts.reading.backToNothing : texts.reading.backTo({ sid: recorded() });
  parts.undo.hidden = preview || previous === undefined;
  strip();
}

/** Draw the places of the given and withheld passages. */
export function mark(given, ahead) {
  marks = { given, ahead };
  if (parts) strip();
}

/** Preview a position: everything on the page is as of it, and nothing is recorded. */
export function move(sid) {
  const next = Math.min(state.lastSid, Math.max(-1, Number.isNaN(sid) ? -1 : Math.round(sid)));
  if (loading || !may("read") || next === shown()) return;
  // Back at a position that was never recorded is where the reader began.
  state.position = next === recorded() ? state.saved : next;
  render();
  emit("moved", next);
  clearTimeout(timer);
  timer = setTimeout(() => settle().catch(complain), PAUSE);
}

/** Ask again as of the position, once it stays. */
async function settle() {
  const own = turn;
  emit("settled", shown());
  say(previewing() ? texts.reading.previewSaid({ words: words() }) : words());
  await boundary(own);
}

async function boundary(own) {
  const sid = shown();
  if (sid < 0) return;
  const page = await get(`${worldPath()}/documents/${state.document.number}/sentences?offset=${sid}&limit=1`);
  if (own !== turn || sid !== state.position) return;
  state.boundary = page.sentences[0]?.text || "";
  emit("boundary");
}

/** Record a position; the one before it can be restored. If that fails, it stays a preview. */
async function record(sid, undone = false) {
  if (writing || loading || !may("write")) return;
  writing = true;
  clearTimeout(timer);
  const own = turn;
  const before = recorded();
  if (sid !== shown()) {
    state.position = sid;
    emit("moved", sid);
  }
  render();
  try {
    await write("PUT", `${readerPath()}/position`, { book: String(state.document.number), sid });
    if (own !== turn) return;
    const stayed = shown() === sid;
    state.saved = sid;
    if (stayed) state.position = sid;
    previous = undone ? undefined : before;
    clearNotice();
    emit("saved", sid);
    if (stayed) emit("settled", sid);
    say(undone ? texts.reading.undone({ words: words() }) : texts.reading.savedSaid({ words: words() }));
    await boundary(own);
  } catch (problem) {
    if (own === turn) complain(problem);
  } finally {
    writing = false;
    render();
  }
}

/** Record a sentence as the last one read. */
export const readTo = (sid) => record(Math.min(state.lastSid, Math.max(-1, sid)));

function jump(step) {
  const starts = places().map((one) => one.first - 1).filter((sid) => sid >= 0);
  const stops = [-1, ...starts, state.lastSid];
  const next = step > 0 ? stops.find((sid) => sid > shown()) : stops.findLast((sid) => sid < shown());
  if (next !== undefined) move(next);
}

function slider() {
  const range = make("input", { type: "range", id: "slider", min: -1, max: state.lastSid, step: 1, "aria-label": texts.reading.position, oninput: (event) => move(event.target.valueAsNumber) });
  const number = make("input", { type: "number", id: "position-number", max: state.lastSid, inputmode: "numeric", placeholder: texts.reading.none, "aria-label": texts.reading.sentenceNumber, onchange: (event) => move(event.target.valueAsNumber) });
  const label = make("span", { class: "position-label", id: "position-label" });
  const preview = make("span", { class: "preview-badge", id: "preview-badge", title: texts.reading.previewHint, hidden: true }, texts.reading.preview);
  const lane = draw("svg", { viewBox: "0 0 1000 24", preserveAspectRatio: "none", class: "strip", "aria-hidden": "true" });
  const save = button(texts.reading.save, () => record(shown()), { class: "small", id: "save-position", title: texts.reading.saveTitle });
  const back = button(texts.reading.back, () => move(recorded()), { class: "small quiet", id: "back-position" });
  const undo = button(texts.reading.undo, () => record(previous, true), { class: "small quiet", id: "undo-position", title: texts.reading.undoTitle });
  parts = { range, number, label, strip: lane, preview, save, back, undo };
  return [
    make("div", { class: "position-head" }, make("h2", {}, texts.reading.position, make("small", {}, ` ${texts.reading.of({ reader: state.reader })}`)), label, preview),
    make("div", { class: "position-lane" }, lane, range),
    make("div", { class: "position-tools" },
      button(texts.reading.chapterBack, () => jump(-1), { class: "small quiet", title: texts.reading.chapterBackTitle }),
      number,
      button(texts.reading.chapterOn, () => jump(1), { class: "small quiet", title: texts.reading.chapterOnTitle }),
      make("span", { class: "position-save" }, undo, back, save)),
    make("span", { class: "legend" }, make("i", { class: "key given" }), texts.reading.given, make("i", { class: "key ahead" }), texts.reading.withheld),
  ];
}

function fixed() {
  parts = null;
  const sid = shown();
  const why = may("read") || may("write") ? texts.reading.fixed : texts.reading.fixedBound({ reader: state.reader });
  return [
    make("div", { class: "position-head" }, make("h2", {}, texts.reading.position, make("small", {}, ` ${texts.reading.of({ reader: state.reader })}`)), make("span", { class: "position-label", id: "position-label" }, sid < 0 ? texts.reading.nothingReadYet : texts.reading.sentence({ sid }))),
    make("p", { class: "hint", id: "position-fixed" }, why),
  ];
}

function build() {
  const box = byId("position");
  box.hidden = !asReader() || !state.document;
  // A control that is replaced soon would lose what is entered meanwhile.
  if (box.hidden || loading) {
    parts = null;
    fill(box);
    return;
  }
  fill(box, may("read") ? slider() : fixed());
  render();
}

/** Forget the position and take the slider away, until the next one is loaded. */
export function leave() {
  clearTimeout(timer);
  turn += 1;
  loading = true;
  marks = { given: [], ahead: [] };
  previous = undefined;
  state.saved = null;
  state.position = null;
  state.boundary = "";
  build();
}

/** Load and show the reader's position in the open document. */
export async function locate() {
  leave();
  const own = turn;
  if (asReader() && state.document) await loadPosition(own);
  if (own !== turn) return;
  loading = false;
  build();
}

/** Load the position and the last sentence read, unless another reader or book was chosen since. */
async function loadPosition(own) {
  // The list of books is used because having no position is not an error.
  const { books } = await get(`${readerPath()}/books`);
  if (own !== turn) return;
  const found = books.find((one) => one.document === state.document.number);
  if (!found) return;
  state.saved = found.sid;
  state.position = found.sid;
  state.boundary = found.last_sentence || "";
  if (!may("read")) {
    state.outline = found.chapters_reached.map(namedEntry);
  }
}

on("rights", build);
