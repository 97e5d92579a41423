// The reader pane: the text of the open document, loaded page by page, with the position marked.

import { get } from "../common/api.js";
import { button, byId, complain, fill, make } from "../common/dom.js";
import { figure, kindOf, marked, table, unmarked } from "./blocks.js";
import { cellsOf, isTable, widthOf } from "../common/lines.js";
import { asReader, boundReader, emit, may, namedPlaces, on, readerPath, state, worldPath } from "../common/state.js";
import { texts } from "../common/texts.js";

const PAGE = 120;
/** Number of sentences that are loaded before and after the target of a jump, to fill the pane. */
const BEFORE = 40;
const AFTER = 40;
const loaded = new Map();
const pictures = new Map();
let low = 0;
let high = -1;
let more = false;
let loading = null;
let turn = 0;
let lit = null;
let edges = null;
let waiting = null;
/** The sentence that the pane is scrolling to by itself, while it does. */
let travelling = null;
let jump = 0;

const text = byId("text");

function address(first, count) {
  const bounds = `offset=${first}&limit=${count}`;
  return boundReader() === null
    ? `${worldPath()}/documents/${state.document.number}/sentences?${bounds}`
    : `${readerPath()}/sentences?book=${state.document.number}&${bounds}`;
}

function isHeading(one) {
  const said = one.text.trim().replace(/\s+/g, " ");
  return said.length < 200 && (said === one.chapter || said === one.section || said === state.document.title);
}

/** Assign each figure to the sentence that cites it, or to the nearest one before it. */
function place(page) {
  const spots = new Map(page.sentences.flatMap((one) => marked(one.text).map((id) => [id, one.sid])));
  for (const one of page.sentences) pictures.delete(one.sid);
  for (const note of page.figures) {
    const sid = spots.get(note.figure_id) ?? note.sid;
    pictures.set(sid, [...(pictures.get(sid) || []), note]);
  }
}

/** Return whether a sentence goes on in the block of the one before it. An empty cell at the end of a row has a space of its own. */
function continues(before, one) {
  if (!before || isHeading(one) || isHeading(before)) return false;
  return one.start - before.end <= 1 + before.text.endsWith("|") + one.text.startsWith("|");
}

/** Return the page, slide or cell that begins with a sentence. Lines and rows would be too many. */
function begins(one) {
  const changed = one.location && one.location !== loaded.get(one.sid - 1)?.location;
  return changed && /^(?!line)[a-z]+ \d/.test(one.location) ? one.location : null;
}

const attributesOf = (one, kind) => ({ class: kind, "data-sid": one.sid, id: `s${one.sid}`, "data-location": begins(one) });

/** Return one block: a heading, the rows of a table, or a paragraph. */
function blockOf(group, width) {
  const [head] = group;
  const span = { "data-first": head.sid };
  if (isHeading(head)) {
    const section = head.text.trim().replace(/\s+/g, " ") === head.section && head.section !== head.chapter;
    return make(section ? "h4" : "h3", { class: "block lines", ...span }, make("span", attributesOf(head, "s"), unmarked(head.text)), figuresOf(head));
  }
  if (isTable(group.map((one) => one.text))) {
    const rows = group.map((one) => ({
      attributes: { ...attributesOf(one, "s"), title: one.location },
      cells: cellsOf(one.text).map((cell) => ({ ...cell, nodes: unmarked(cell.text) })),
    }));
    return make("div", { class: "block", ...span }, table(rows), group.map(figuresOf));
  }
  const separator = (one) => (one.starts_line ? "\n" : " ");
  const whole = group.map((one, at) => (at ? separator(one) : "") + one.text).join("");
  const kind = kindOf(whole, width);
  const parts = group.map((one, at) => {
    const only = marked(one.text).length && unmarked(one.text).trim() === texts.reading.figureMark;
    return [at > 0 && separator(one), make("span", attributesOf(one, only ? "s only-mark" : "s"), unmarked(one.text)), figuresOf(one)];
  });
  return make("p", { class: kind ? `block ${kind}` : "block", ...span }, parts);
}

function figuresOf(one) {
  return (pictures.get(one.sid) || []).map((note) => {
    const shown = figure(note);
    shown.dataset.sid = one.sid;
    return shown;
  });
}

/** Return the blocks of sentences in a row. */
function blocksOf(sentences) {
  const groups = [];
  for (const one of sentences) {
    if (groups.length && continues(groups.at(-1).at(-1), one)) groups.at(-1).push(one);
    else groups.push([one]);
  }
  const width = sentences.reduce((most, one) => Math.max(most, widthOf(one.text)), 0);
  return groups.map((group) => blockOf(group, width));
}

const edge = (words, does, id) => button(words, does, { class: "edge quiet", id });

function rebuildEdges() {
  byId("earlier")?.remove();
  byId("later")?.remove();
  edges?.disconnect();
  edges = new IntersectionObserver((seen) => {
    // Text that is added while the pane scrolls by itself would end the movement too early.
    for (const one of seen) if (one.isIntersecting && !travelling) one.target.click();
  }, { root: text, rootMargin: "300px" });
  if (low > 0) text.prepend(edge(texts.reading.earlier, earlier, "earlier"));
  if (more) text.append(edge(texts.reading.later, later, "later"));
  for (const id of ["earlier", "later"]) if (byId(id)) edges.observe(byId(id));
}

async function fetched(first, count) {
  const mine = turn;
  const page = await get(address(first, count));
  return mine === turn ? page : null;
}

async function once(does) {
  if (loading) return loading;
  loading = does().catch(complain).finally(() => (loading = null));
  return loading;
}

function later() {
  return once(async () => {
    const page = await fetched(high + 1, PAGE);
    if (!page) return;
    take(page, false);
  });
}

function earlier() {
  return once(async () => {
    const first = Math.max(0, low - PAGE);
    const page = await fetched(first, low - first);
    if (!page) return;
    take(page, true);
  });
}

/** Return the first sentence in view and where it is, to keep it there while text is added. */
function anchor() {
  const top = text.getBoundingClientRect().top;
  const span = [...text.querySelectorAll(".s")].find((one) => one.getBoundingClientRect().bottom > top);
  return span ? { sid: span.dataset.sid, top: span.getBoundingClientRect().top } : null;
}

function take(page, ahead) {
  const kept = anchor();
  place(page);
  for (const one of page.sentences) loaded.set(one.sid, one);
  let added = [...page.sentences];
  const edgeBlock = ahead ? text.querySelector(".block") : [...text.querySelectorAll(".block")].at(-1);
  const [before, after] = ahead ? [loaded.get(low - 1), loaded.get(low)] : [loaded.get(high), loaded.get(high + 1)];
  // A paragraph or table that goes on across the pages is made again as one.
  if (edgeBlock && before && after && continues(before, after)) {
    const first = Number(edgeBlock.dataset.first);
    const inside = [...edgeBlock.querySelectorAll(".s")].map((span) => loaded.get(Number(span.dataset.sid)));
    added = ahead ? [...added, ...inside] : [...inside, ...added];
    if (ahead ? first === low : inside.at(-1).sid === high) edgeBlock.remove();
  }
  byId("here")?.remove();
  byId("earlier")?.remove();
  byId("later")?.remove();
  if (ahead) {
    text.prepend(...blocksOf(added));
    low = page.first;
  } else {
    text.append(...blocksOf(added));
    high = Math.max(high, page.last);
    more = page.more;
  }
  rebuildEdges();
  relight();
  paint();
  const moved = kept && byId(`s${kept.sid}`);
  if (moved) text.scrollTop += moved.getBoundingClientRect().top - kept.top;
}

async function begin(first) {
  turn += 1;
  loading = null;
  travelling = null;
  loaded.clear();
  pictures.clear();
  fill(text);
  low = first;
  high = first - 1;
  more = false;
  await once(async () => {
    const page = await fetched(first, PAGE);
    if (!page) return;
    if (!page.sentences.length) fill(text, make("p", { class: "empty" }, emptyWords()));
    else {
      low = page.first;
      take(page, false);
    }
  });
}

const emptyWords = () => (boundReader() === null ? texts.reading.noSentences : texts.reading.nothingRead);

/** Mark the read and unread sentences and the position. */
export function paint() {
  const bound = asReader() && may("read");
  const at = state.position === null ? -1 : state.position;
  const veil = byId("veil").checked;
  text.classList.toggle("bounded", bound);
  byId("here")?.remove();
  for (const span of text.querySelectorAll(".s")) {
    const unread = bound && Number(span.dataset.sid) > at;
    span.classList.toggle("unread", unread);
    if (unread && veil) span.setAttribute("aria-hidden", "true");
    else span.removeAttribute("aria-hidden");
  }
  // A heading without words would be announced as one.
  for (const heading of text.querySelectorAll("h3, h4")) {
    if (heading.querySelector(".s:not([aria-hidden])")) heading.removeAttribute("aria-hidden");
    else heading.setAttribute("aria-hidden", "true");
  }
  // The description of a figure is text of the book too.
  for (const shown of text.querySelectorAll(".figure")) {
    const unread = bound && Number(shown.dataset.sid) > at;
    shown.classList.toggle("unread", unread);
    shown.inert = unread && veil;
  }
  text.classList.toggle("veiled", bound && veil);
  if (!asReader() || boundReader() !== null) return;
  const words = state.position === state.saved ? texts.reading.here : texts.reading.herePreview;
  const span = byId(`s${at}`);
  if (span?.matches("tr")) span.after(make("tr", { id: "here" }, make("td", { colspan: 99 }, make("span", { class: "here", role: "note" }, words))));
  else span?.after(here(words));
  if (at < 0 && low === 0) text.prepend(here(texts.reading.hereNothing));
}

function here(words) {
  return make("span", { class: state.position === state.saved ? "here" : "here preview", id: "here", role: "note" }, words);
}

function titles() {
  const open = state.document;
  byId("reading-title").textContent = open ? open.title || open.name : texts.reading.nothingOpen;
  byId("reading-tools").hidden = !open;
  byId("veil-box").hidden = !asReader() || !may("read");
  outline();
}

function outline() {
  const list = byId("outline");
  const chosen = list.value;
  const starts = boundReader() === null ? namedPlaces() : [];
  list.hidden = starts.length < 2;
  fill(list, starts.map((one) => make("option", { value: one.first }, one.name)));
  if (starts.some((one) => String(one.first) === chosen)) list.value = chosen;
}

/** Show the open document from its beginning, or from the reader's position. */
export async function open() {
  titles();
  unlight();
  turn += 1;
  emit("turned");
  if (!state.document) {
    fill(text, make("p", { class: "empty" }, texts.reading.chooseDocument));
    return;
  }
  const at = asReader() ? Math.max(0, state.position) : 0;
  await begin(Math.max(0, at - BEFORE));
  if (at) reveal(at);
}

/** Return the text of a sentence if it is loaded. */
export const wordsOf = (sid) => loaded.get(sid)?.text ?? null;

/** Return the page of the source on which a sentence begins; null if it is not known. */
export const pageOf = (sid) => loaded.get(sid)?.page ?? null;

/** Return the page of the first sentence in view. */
export const pageInView = () => pageOf(Number(anchor()?.sid ?? low));

/** Return whether a sentence is in view. */
function inView(span) {
  const box = text.getBoundingClientRect();
  const own = span.getBoundingClientRect();
  return own.top >= box.top && Math.min(own.bottom, own.top + 40) <= box.bottom;
}

/** Return the part of a sentence to scroll to: a row may be wider than the pane, and would move all of the page. */
const visiblePart = (span) => span?.cells?.[0] ?? span;

/** Scroll to a sentence that is loaded: smoothly if it is near and the user likes motion. */
function reveal(sid, { smooth = false } = {}) {
  // A hidden pane cannot scroll; it scrolls when it is shown.
  waiting = text.offsetParent === null ? sid : null;
  const span = visiblePart(byId(`s${sid}`));
  if (!span || waiting !== null) return;
  travelling = null;
  const distance = Math.abs(span.getBoundingClientRect().top - text.getBoundingClientRect().top);
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (!smooth || calm || distance > 2 * text.clientHeight || !("onscrollend" in text)) {
    span.scrollIntoView({ block: "center", behavior: "instant" });
    return;
  }
  const trip = { sid, from: text.scrollTop };
  travelling = trip;
  span.scrollIntoView({ block: "center", behavior: "smooth" });
  // Without a distance to go there is no end to wait for.
  requestAnimationFrame(() => requestAnimationFrame(() => {
    if (travelling === trip && text.scrollTop === trip.from) arrived(trip);
  }));
}

/** End a movement: load what it kept from loading, and go to the sentence if it is not in view. */
function arrived(trip) {
  if (travelling !== trip) return;
  travelling = null;
  const span = visiblePart(byId(`s${trip.sid}`));
  if (span && !trip.interrupted && !inView(span)) span.scrollIntoView({ block: "center", behavior: "instant" });
  rebuildEdges();
}

/** Scroll to the pending sentence when the pane is shown. */
export function arrive() {
  if (waiting !== null) reveal(waiting);
}

function unlight() {
  lit = null;
  for (const span of text.querySelectorAll(".s.lit, .s.near")) span.classList.remove("lit", "near");
}

/** Highlight the chosen sentences among those that are loaded: the best ones, and faintly those around them. */
function relight() {
  if (!lit) return;
  const { first, last, best } = lit;
  for (let sid = first; sid <= last; sid += 1) byId(`s${sid}`)?.classList.add(sid >= best.first && sid <= best.last ? "lit" : "near");
}

/** Load sentences and what stands around them; return false if another jump began meanwhile. */
async function loadAround(first, last) {
  jump += 1;
  const mine = jump;
  if (first < low || first > high + PAGE) await begin(Math.max(0, first - BEFORE));
  while (mine === jump && more && high < Math.min(last, first + PAGE) + AFTER) {
    const had = high;
    await later();
    // A page that could not be loaded was reported; trying again at once would not help.
    if (high === had) break;
  }
  return mine === jump;
}

/** Scroll to sentences and highlight them, most of all `best` among them. */
export async function show(first, last, best = null) {
  unlight();
  if (!(await loadAround(first, last))) return;
  const within = best && best.first >= first && best.first <= last ? best : { first, last };
  lit = { first, last, best: within };
  relight();
  nameChapter(within.first);
  emit("lit", lit);
  reveal(within.first, { smooth: true });
}

/** Scroll to the position after it has changed. */
export async function follow(sid) {
  if (sid >= 0 && !(await loadAround(sid, sid))) return;
  paint();
  reveal(Math.max(0, sid));
}

/** Choose the chapter of a sentence in the list. */
function nameChapter(sid) {
  const start = namedPlaces().findLast((one) => one.first <= sid);
  if (start) byId("outline").value = String(start.first);
}

let painted = 0;
text.addEventListener("scroll", () => {
  cancelAnimationFrame(painted);
  painted = requestAnimationFrame(() => {
    const box = text.getBoundingClientRect();
    const span = document.elementFromPoint(box.left + box.width / 2, box.top + 30)?.closest?.(".s");
    if (span) nameChapter(Number(span.dataset.sid));
  });
}, { passive: true });
byId("outline").addEventListener("change", (event) => show(Number(event.target.value), Number(event.target.value)));
byId("veil").addEventListener("change", paint);
text.addEventListener("scrollend", () => travelling && arrived(travelling));
for (const event of ["wheel", "touchstart", "pointerdown", "keydown"]) {
  text.addEventListener(event, () => {
    if (travelling) travelling.interrupted = true;
  }, { passive: true });
}
on("moved", (sid) => {
  outline();
  state.boundary = wordsOf(sid) ?? "";
  paint();
  if (byId(`s${sid}`)) reveal(sid);
});
on("saved", paint);
on("settled", (sid) => {
  if (!byId(`s${sid}`)) follow(sid).catch(complain);
});
