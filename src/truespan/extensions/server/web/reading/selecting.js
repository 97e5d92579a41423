// Selecting text in the reader pane by mouse or keyboard, and the toolbar of the selection.

import { byId } from "../common/dom.js";
import { asReader, emit, may, on } from "../common/state.js";

const text = byId("text");
const toolbar = byId("toolbar");
let cursor = null;
let anchor = null;

function selected() {
  const chosen = getSelection();
  if (!chosen || chosen.isCollapsed || !chosen.rangeCount) return null;
  const range = chosen.getRangeAt(0);
  const words = chosen.toString().trim();
  return words && text.contains(range.commonAncestorContainer) ? { range, words } : null;
}

function sidAt(node) {
  const element = node.nodeType === Node.TEXT_NODE ? node.parentElement : node;
  const span = element.closest?.(".s");
  return span ? Number(span.dataset.sid) : null;
}

function place() {
  const found = selected();
  toolbar.hidden = !found;
  if (!found) return;
  const box = found.range.getBoundingClientRect();
  const frame = text.parentElement.getBoundingClientRect();
  const above = box.top - frame.top - 50;
  const top = above > 4 ? above : Math.min(box.bottom - frame.top + 8, frame.height - 54);
  toolbar.style.top = `${Math.max(4, top)}px`;
  toolbar.style.left = `${Math.max(8, Math.min(box.left - frame.left, frame.width - toolbar.offsetWidth - 8))}px`;
  byId("note-selection").hidden = byId("open-notes").hidden;
  byId("read-here").hidden = !(asReader() && may("write") && may("read"));
}

function ask() {
  const found = selected();
  if (found) emit("ask-selection", found.words);
  clearSelection();
}

function readHere() {
  const found = selected();
  if (!found) return;
  const sid = sidAt(found.range.endContainer) ?? sidAt(found.range.startContainer);
  if (sid !== null) emit("read-to", sid);
  clearSelection();
}

function note() {
  const found = selected();
  if (!found) return;
  const sids = [sidAt(found.range.startContainer), sidAt(found.range.endContainer)].filter((sid) => sid !== null);
  if (sids.length) emit("note", { first: Math.min(...sids), last: Math.max(...sids), words: found.words });
  clearSelection();
}

function clearSelection() {
  getSelection()?.removeAllRanges();
  toolbar.hidden = true;
}

function visibleFirst() {
  const top = text.getBoundingClientRect().top;
  return [...text.querySelectorAll(".s")].find((span) => span.getBoundingClientRect().bottom > top + 8);
}

function step(way, extend) {
  const spans = [...text.querySelectorAll(".s")];
  const at = spans.indexOf(cursor);
  const next = at < 0 ? visibleFirst() : spans[Math.min(spans.length - 1, Math.max(0, at + way))];
  if (!next) return;
  if (!extend || !anchor || !anchor.isConnected) anchor = next;
  cursor = next;
  const [from, to] = anchor.compareDocumentPosition(next) & Node.DOCUMENT_POSITION_PRECEDING ? [next, anchor] : [anchor, next];
  getSelection().setBaseAndExtent(from, 0, to, to.childNodes.length);
  next.scrollIntoView({ block: "nearest" });
}

text.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const does = {
    ArrowDown: () => step(1, event.shiftKey),
    ArrowUp: () => step(-1, event.shiftKey),
    a: ask,
    h: readHere,
    Escape: clearSelection,
  }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!does) return;
  event.preventDefault();
  does();
});
document.addEventListener("selectionchange", place);
text.addEventListener("scroll", place, { passive: true });
toolbar.addEventListener("mousedown", (event) => event.preventDefault());
byId("ask-selection").addEventListener("click", ask);
byId("note-selection").addEventListener("click", note);
byId("read-here").addEventListener("click", readHere);
on("opened", () => {
  cursor = null;
  anchor = null;
});
