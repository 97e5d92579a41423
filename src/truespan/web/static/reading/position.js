// The reading position: a slider over the sentences with chapters and passages.

import { get, write } from "../common/api.js";
import { button, byId, draw, fill, make, say } from "../common/dom.js";
import { clear, complain } from "../common/notices.js";
import { asReader, chapters, emit, may, on, placeOf, readerPath, state } from "../common/state.js";

const PAUSE = 140;
let parts = null;
let confirmed = null;
let timer = 0;
let writing = false;
let wanted = null;
let turn = 0;
let loading = false;
let marks = { given: [], ahead: [] };

const shown = () => (state.position === null ? -1 : state.position);

function words() {
  const sid = shown();
  if (sid < 0) return "Nothing read yet";
  const place = placeOf(sid);
  const where = place && place.chapter ? `, ${place.chapter}` : "";
  return `Sentence ${sid} of ${state.lastSid}${where}`;
}

function strip() {
  const span = state.lastSid + 1;
  const x = (sid) => (1000 * (sid + 1)) / Math.max(1, span);
  const box = (one, kind) =>
    draw("rect", { x: x(one.first - 1), width: Math.max(5, x(one.last) - x(one.first - 1)), y: 4, height: 16, rx: 1.5, class: kind });
  fill(
    parts.strip,
    draw("rect", { x: 0, y: 9, width: 1000, height: 6, class: "unread" }),
    draw("rect", { x: 0, y: 9, width: x(shown()), height: 6, class: "read" }),
    chapters().map((one) => draw("path", { d: `M${x(one.first - 1)} 6V18`, class: "chapter-tick" }, one.first <= shown() && draw("title", {}, one.chapter))),
    marks.ahead.map((one) => box(one, "mark-ahead")),
    marks.given.map((one) => box(one, "mark-given")),
  );
}

function render() {
  if (!parts) return;
  const sid = shown();
  parts.range.value = String(sid);
  parts.range.setAttribute("aria-valuetext", words());
  if (document.activeElement !== parts.number) parts.number.value = String(sid);
  parts.label.textContent = words();
  strip();
}

/** Draw the places of the given and withheld passages. */
export function mark(given, ahead) {
  marks = { given, ahead };
  if (parts) strip();
}

/** Move the position on the page; it is sent to the server after a pause. */
export function move(sid) {
  const next = Math.min(state.lastSid, Math.max(-1, Math.round(sid)));
  if (loading || !may("write") || next === state.position || Number.isNaN(next)) return;
  state.position = next;
  render();
  emit("moved", next);
  clearTimeout(timer);
  timer = setTimeout(settle, PAUSE);
}

async function settle() {
  wanted = state.position;
  if (writing) return;
  // One after the other: two concurrent writes could arrive in the wrong order.
  writing = true;
  const here = { where: readerPath(), book: String(state.document.number), turn };
  try {
    while (wanted !== confirmed) {
      const sid = wanted;
      await write("PUT", `${here.where}/position`, { book: here.book, sid });
      if (here.turn !== turn) return;
      confirmed = sid;
    }
    clear();
    emit("settled", confirmed);
    say(words());
    await boundary(here);
  } catch (problem) {
    if (here.turn !== turn) return;
    state.position = confirmed;
    wanted = confirmed;
    complain(problem);
    render();
    emit("moved", shown());
  } finally {
    writing = false;
  }
}

async function boundary(here) {
  const found = await get(`${here.where}/position?book=${here.book}`);
  if (here.turn !== turn || found.sid !== state.position) return;
  state.boundary = found.last_sentence || "";
  emit("boundary");
}

function jump(step) {
  const starts = chapters().map((one) => one.first - 1).filter((sid) => sid >= 0);
  const stops = [-1, ...starts, state.lastSid];
  const next = step > 0 ? stops.find((sid) => sid > shown()) : stops.findLast((sid) => sid < shown());
  if (next !== undefined) move(next);
}

function slider() {
  const range = make("input", { type: "range", id: "slider", min: -1, max: state.lastSid, step: 1, "aria-label": "Reading position", oninput: (event) => move(event.target.valueAsNumber) });
  const number = make("input", { type: "number", id: "position-number", min: -1, max: state.lastSid, inputmode: "numeric", "aria-label": "Sentence number", onchange: (event) => move(event.target.valueAsNumber) });
  const label = make("span", { class: "position-label", id: "position-label" });
  const lane = draw("svg", { viewBox: "0 0 1000 24", preserveAspectRatio: "none", class: "strip", "aria-hidden": "true" });
  parts = { range, number, label, strip: lane };
  return [
    make("div", { class: "position-head" }, make("h2", {}, "Reading position", make("small", {}, ` of ${state.reader}`)), label),
    make("div", { class: "position-lane" }, lane, range),
    make("div", { class: "position-tools" },
      button("‹ Chapter", () => jump(-1), { class: "small quiet", title: "To the end of the previous chapter" }),
      number,
      button("Chapter ›", () => jump(1), { class: "small quiet", title: "To the end of this chapter" }),
      make("span", { class: "legend" }, make("i", { class: "key given" }), "given", make("i", { class: "key ahead" }), "withheld")),
  ];
}

function fixed() {
  parts = null;
  const sid = shown();
  const why = may("read") || may("write")
    ? "This token may not change the position."
    : `This token is bound to ${state.reader}; only the owner of the library can change the position.`;
  return [
    make("div", { class: "position-head" }, make("h2", {}, "Reading position", make("small", {}, ` of ${state.reader}`)), make("span", { class: "position-label", id: "position-label" }, sid < 0 ? "Nothing read yet" : `Sentence ${sid}`)),
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
  fill(box, may("write") && may("read") ? slider() : fixed());
  render();
}

/** Forget the position and take the slider away, until the next one is loaded. */
export function leave() {
  clearTimeout(timer);
  turn += 1;
  loading = true;
  marks = { given: [], ahead: [] };
  confirmed = null;
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
  confirmed = found.sid;
  state.position = found.sid;
  state.boundary = found.last_sentence || "";
  if (!may("read")) {
    state.outline = found.chapters_reached.map((chapter) => ({ chapter, section: null, first_sid: 0 }));
  }
}

on("rights", build);
