// The list of conversations in the left pane, and the head of the open one: title, export, delete.

import { button, byId, complain, fill, make, say } from "../common/dom.js";
import { asReader, emit, go, on, state } from "../common/state.js";
import { remember, remembered } from "../common/storage.js";
import { texts } from "../common/texts.js";
import { clock, day, time, whole } from "../common/words.js";
import * as asking from "./asking.js";
import * as conversations from "./conversations.js";
import * as thread from "./thread.js";

const FIRST = 6;
const MAX_LISTED = 1000;
let limit = FIRST;
let listed = [];
let turn = 0;
/** The position for which the list was loaded: before it, titles could tell what comes. */
let loadedAt = -1;

/** Return how many to load: repeated questions are one entry. */
const mostAsked = () => Math.min(MAX_LISTED, 8 * limit);

const positionNow = () => state.position ?? -1;

function titleOf(number) {
  const found = state.documents.find((one) => one.number === number);
  return found ? found.title || found.name : "";
}

function entry(info) {
  const other = info.book !== null && state.document && info.book !== state.document.number ? titleOf(info.book) : "";
  const current = info.same.some((one) => one.id === conversations.open.id);
  const count = info.same.length > 1 ? texts.ask.askedTimes({ count: info.same.length }) : texts.counts.questions({ count: info.turns });
  return make(
    "li",
    {},
    make(
      "button",
      { type: "button", class: "conversation", "data-id": info.id, "aria-current": current ? "true" : null, onclick: () => choose(info).catch(complain) },
      make("span", { class: "conversation-title" }, info.damaged ? texts.ask.damaged : info.title),
      make("small", {}, [time(info.updated), count, other].filter(Boolean).join(" · ")),
    ),
    button("×", () => confirm(info), { class: "icon drop-conversation", "aria-label": texts.ask.deleteNamed({ title: info.title }), title: texts.ask.delete }),
  );
}

/** Return one entry, the latest, for conversations that are the same single question. */
function merged(list) {
  const groups = Map.groupBy(list, (info) => (info.damaged || info.turns > 1 ? info.id : `${info.book} ${info.title}`));
  return [...groups.values()].map((same) => ({ ...same[0], same }));
}

/** Return the entries below the day or month in which they were used last. */
function grouped(list) {
  const groups = Map.groupBy(list, (info) => day(info.updated));
  return [...groups].map(([name, infos], at) => make("li", { class: "conversation-day" }, make("h3", { id: `day-${at}` }, name), make("ul", { "aria-labelledby": `day-${at}` }, infos.map(entry))));
}

function render() {
  const visible = merged(asReader() && positionNow() < loadedAt ? [] : listed);
  const more = visible.length > limit || (listed.length === mostAsked() && listed.length < MAX_LISTED);
  const shown = visible.slice(0, limit);
  byId("history").hidden = !state.world || (!visible.length && conversations.areStored() && !asReader());
  fill(byId("conversations"), grouped(shown));
  byId("more-conversations").hidden = !more;
  const note = conversations.areStored() ? (asReader() ? texts.ask.upToPosition : "") : texts.ask.notStored;
  byId("history-note").textContent = note;
  byId("history-note").hidden = !note;
}

/** Load the list, unless another world, reader or position was chosen meanwhile. */
export async function refresh() {
  const own = (turn += 1);
  if (!state.world) return render();
  const at = state.saved ?? -1;
  try {
    const found = await conversations.list(mostAsked());
    if (own !== turn) return;
    listed = found;
    loadedAt = at;
  } catch (problem) {
    if (own !== turn) return;
    listed = [];
    if (problem.code !== "not_allowed") complain(problem, refresh);
  }
  render();
}

async function choose(info) {
  emit("pane", "ask");
  go({ conversation: info.id, q: null });
  await asking.open(info.id);
  asking.showSource();
  render();
}

function showHead() {
  const first = thread.shown()[0];
  byId("talk-head").hidden = !first;
  if (!first) return;
  byId("talk-title").textContent = first.question || texts.ask.aboutSelection;
  for (const id of ["export-conversation", "delete-conversation"]) byId(id).hidden = !conversations.open.id;
}

// Deleting: a question, then the receipt in the same dialog.

function confirm(info) {
  const dialog = byId("conversation-dialog");
  fill(
    dialog,
    make("h2", { id: "conversation-dialog-title" }, texts.ask.deleteTitle),
    make("p", {}, make("q", {}, info.title)),
    make("p", { class: "hint" }, info.same.length > 1 && `${texts.ask.deleteAll({ count: info.same.length })} `, texts.ask.deleteHint),
    make("div", { class: "row end" },
      button(texts.common.cancel, () => dialog.close(), { class: "quiet" }),
      button(texts.ask.delete, () => remove(info), { class: "danger", id: "confirm-delete" })),
  );
  dialog.showModal();
}

async function remove(info) {
  const dialog = byId("conversation-dialog");
  try {
    const receipts = [];
    for (const { id } of info.same) {
      receipts.push(await conversations.remove(id));
      if (id === conversations.open.id) asking.begin();
    }
    showReceipt(dialog, receipts);
    say(texts.ask.deleted);
    await refresh();
  } catch (problem) {
    dialog.close();
    complain(problem);
    if (problem.code === "conversation_not_found") refresh();
  }
}

/** Return receipts in words: the deleted document, the time, and whether it is erased from every file. */
function rows(receipts) {
  const counts = new Map();
  for (const [name, count] of receipts.flatMap((one) => Object.entries(one.rows))) counts.set(name, (counts.get(name) || 0) + count);
  const left = new Set(receipts.flatMap((one) => Object.values(one.waiting)));
  return [
    [texts.ask.receipt.deletedAt, clock(Date.parse(receipts.at(-1).deleted_at) / 1000)],
    ...[...counts].filter(([, count]) => count).map(([name, count]) => [texts.ask.receipt[name] ?? name, whole(count)]),
    [texts.ask.receipt.erased, receipts.every((one) => one.erased) ? texts.ask.receipt.yes : texts.ask.receipt.notYet],
    ...[...left].map((reason) => [texts.ask.receipt.waiting, reason]),
  ].flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]);
}

function showReceipt(dialog, receipts) {
  const done = button(texts.common.close, () => dialog.close(), { id: "close-receipt" });
  fill(
    dialog,
    make("h2", { id: "conversation-dialog-title" }, texts.ask.deleted),
    make("p", { class: "hint" }, texts.ask.receiptHint),
    make("dl", { class: "receipt" }, rows(receipts)),
    make("div", { class: "row end" }, done),
  );
  done.focus();
}

// Exporting

function save(content, kind, name) {
  const link = make("a", { href: URL.createObjectURL(new Blob([content], { type: kind })), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}

async function exportAs(format) {
  const { id } = conversations.open;
  byId("export-conversation").open = false;
  try {
    if (format === "json") save(await conversations.jsonOf(id), "application/json", `conversation-${id.slice(0, 8)}.json`);
    else save(await conversations.markdownOf(id), "text/markdown", `conversation-${id.slice(0, 8)}.md`);
    say(texts.ask.exported);
  } catch (problem) {
    complain(problem);
  }
}

for (const one of document.querySelectorAll("[data-new-conversation]")) one.addEventListener("click", () => asking.begin());
byId("more-conversations").addEventListener("click", () => {
  limit = Math.min(MAX_LISTED, limit * 4);
  refresh();
});
byId("export-conversation").addEventListener("click", (event) => {
  const { format } = event.target.dataset;
  if (format) exportAs(format);
});
document.addEventListener("click", (event) => {
  if (!event.target.closest("#export-conversation")) byId("export-conversation").open = false;
});
byId("export-conversation").addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  byId("export-conversation").open = false;
  event.currentTarget.querySelector("summary").focus();
});
byId("delete-conversation").addEventListener("click", () => {
  const { id } = conversations.open;
  const info = listed.find((one) => one.id === id) || { id, title: byId("talk-title").textContent };
  confirm({ ...info, same: [info] });
});
// A closed list stays closed.
byId("history-box").open = remembered("truespan.history") !== "closed";
byId("history-box").addEventListener("toggle", () => remember("truespan.history", byId("history-box").open ? "" : "closed"));
on("world", () => {
  limit = FIRST;
  listed = [];
  refresh();
});
on("located", refresh);
on("thread", () => {
  showHead();
  render();
});
on("stored", () => {
  showHead();
  refresh();
});
// Titles are questions: those asked past the position leave at once, and come from the server again.
on("moved", render);
on("settled", refresh);
