// The reader pane: the text of the open document, loaded page by page, with the position marked.

import { get } from "../common/api.js";
import { button, byId, fill, make } from "../common/dom.js";
import { figure, marked, unmarked } from "./figures.js";
import { complain } from "../common/notices.js";
import { asReader, boundReader, may, namedChapters, on, readerPath, state, worldPath } from "../common/state.js";

const PAGE = 120;
const loaded = new Map();
let low = 0;
let high = -1;
let more = false;
let loading = null;
let turn = 0;
let highlighted = [];
let edges = null;
let waiting = null;

const text = byId("text");

function address(first, count) {
  const bounds = `first=${first}&count=${count}`;
  return boundReader() === null
    ? `${worldPath()}/documents/${state.document.number}/sentences?${bounds}`
    : `${readerPath()}/sentences?book=${state.document.number}&${bounds}`;
}

function isHeading(one) {
  const said = one.text.trim();
  return said.length < 200 && (said === one.chapter || said === one.section || said === state.document.title);
}

/** Assign each figure to the sentence that cites it, or to the nearest one before it. */
function placed(page) {
  const at = new Map();
  const spots = new Map(page.sentences.flatMap((one) => marked(one.text).map((id) => [id, one.sid])));
  for (const note of page.figures) {
    const sid = spots.get(note.figure_id) ?? note.sid;
    at.set(sid, [...(at.get(sid) || []), note]);
  }
  return at;
}

function sentence(one, figures) {
  const only = marked(one.text).length && unmarked(one.text).trim() === "▣ figure";
  const span = make("span", { class: only ? "s only-mark" : "s", "data-sid": one.sid, id: `s${one.sid}` }, unmarked(one.text));
  return [span, ...figures.map(figure)];
}

function paragraphs(page) {
  const figures = placed(page);
  const blocks = [];
  let block = null;
  let before = null;
  for (const one of page.sentences) {
    loaded.set(one.sid, one);
    const heading = isHeading(one);
    if (!block || heading || before.heading || one.start - before.end > 1) {
      const tag = heading ? (one.text.trim() === one.section && one.section !== one.chapter ? "h4" : "h3") : "p";
      block = make(tag, {});
      blocks.push(block);
    } else block.append(" ");
    block.append(...sentence(one, figures.get(one.sid) || []));
    before = { end: one.end, heading };
  }
  return blocks;
}

const edge = (words, does, id) => button(words, does, { class: "edge quiet", id });

function rebuildEdges() {
  byId("earlier")?.remove();
  byId("later")?.remove();
  edges?.disconnect();
  edges = new IntersectionObserver((seen) => {
    for (const one of seen) if (one.isIntersecting) one.target.click();
  }, { root: text, rootMargin: "300px" });
  if (low > 0) text.prepend(edge("Earlier sentences", earlier, "earlier"));
  if (more) text.append(edge("Later sentences", later, "later"));
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

function take(page, ahead) {
  const blocks = paragraphs(page);
  const before = text.scrollHeight - text.scrollTop;
  if (ahead) {
    byId("earlier")?.remove();
    text.prepend(...blocks);
    low = page.first;
  } else {
    byId("later")?.remove();
    text.append(...blocks);
    high = Math.max(high, page.last);
    more = page.more;
  }
  rebuildEdges();
  if (ahead) text.scrollTop = text.scrollHeight - before;
  paint();
}

async function begin(first) {
  turn += 1;
  loading = null;
  loaded.clear();
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

const emptyWords = () => (boundReader() === null
  ? "This document has no sentences."
  : "Nothing of this book has been read yet.");

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
    // The description of a figure is text of the book too.
    for (let next = span.nextElementSibling; next?.matches(".figure"); next = next.nextElementSibling) {
      next.classList.toggle("unread", unread);
      next.inert = unread && veil;
    }
  }
  text.classList.toggle("veiled", bound && veil);
  if (!asReader() || boundReader() !== null) return;
  byId(`s${at}`)?.after(here("You are here"));
  if (at < 0 && low === 0) text.prepend(here("You are here: nothing read yet"));
}

function here(words) {
  return make("span", { class: "here", id: "here", role: "note" }, words);
}

function titles() {
  const open = state.document;
  byId("reading-title").textContent = open ? open.title || open.name : "Nothing open";
  byId("reading-tools").hidden = !open;
  byId("veil-box").hidden = !asReader() || !may("read");
  outline();
}

function outline() {
  const list = byId("outline");
  const chosen = list.value;
  const starts = boundReader() === null ? namedChapters() : [];
  list.hidden = starts.length < 2;
  fill(list, starts.map((one) => make("option", { value: one.first }, one.chapter)));
  if (starts.some((one) => String(one.first) === chosen)) list.value = chosen;
}

/** Show the open document from its beginning, or from the reader's position. */
export async function open() {
  titles();
  unlight();
  turn += 1;
  if (!state.document) {
    fill(text, make("p", { class: "empty" }, "Choose a document on the left to read it here. Citations link into it, and you can ask about selected text."));
    return;
  }
  const at = asReader() && boundReader() === null ? Math.max(0, state.position) : 0;
  await begin(Math.max(0, at - 20));
  if (at) reveal(at, "auto");
}

/** Return the text of a sentence if it is loaded. */
export const wordsOf = (sid) => loaded.get(sid)?.text ?? null;

function reveal(sid, how) {
  // A hidden pane cannot scroll; it scrolls when it is shown.
  waiting = text.offsetParent === null ? sid : null;
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  byId(`s${sid}`)?.scrollIntoView({ block: "center", behavior: calm ? "auto" : how || "smooth" });
}

/** Scroll to the pending sentence when the pane is shown. */
export function arrive() {
  if (waiting !== null) reveal(waiting, "auto");
}

function unlight() {
  for (const span of highlighted) span.classList.remove("lit");
  highlighted = [];
}

/** Scroll to sentences and highlight them. */
export async function show(first, last) {
  unlight();
  if (first < low || first > high + PAGE) await begin(Math.max(0, first - 20));
  while (more && high < Math.min(last, first + PAGE)) await later();
  for (let sid = first; sid <= last; sid += 1) {
    const span = byId(`s${sid}`);
    if (span) highlighted.push(span);
  }
  for (const span of highlighted) span.classList.add("lit");
  reveal(first);
}

/** Scroll to the position after it has changed. */
export async function follow(sid) {
  if (sid >= 0 && (sid < low || sid > high)) await begin(Math.max(0, sid - 20));
  paint();
  reveal(Math.max(0, sid), "auto");
}

let painted = 0;
text.addEventListener("scroll", () => {
  cancelAnimationFrame(painted);
  painted = requestAnimationFrame(() => {
    const box = text.getBoundingClientRect();
    const span = document.elementFromPoint(box.left + box.width / 2, box.top + 30)?.closest?.(".s");
    const start = span && namedChapters().findLast((one) => one.first <= Number(span.dataset.sid));
    if (start) byId("outline").value = String(start.first);
  });
}, { passive: true });
byId("outline").addEventListener("change", (event) => show(Number(event.target.value), Number(event.target.value)));
byId("veil").addEventListener("change", paint);
on("moved", (sid) => {
  outline();
  state.boundary = wordsOf(sid) ?? "";
  paint();
  if (byId(`s${sid}`)) reveal(sid, "auto");
});
on("settled", (sid) => {
  if (!byId(`s${sid}`)) follow(sid).catch(complain);
});

