// Several documents at once: selecting them in the table, adding tags, choosing who sees them, and deleting them.

import { write } from "../common/api.js";
import { button, complain, fill, make, say } from "../common/dom.js";
import { emit, may, on } from "../common/state.js";
import { texts } from "../common/texts.js";
import { field, heading, openDialog, splitTags, where } from "./changes.js";

const own = texts.library;
const chosen = new Map();

/** The bar that is shown while documents are selected. */
export const bar = make("div", { class: "bulk", id: "bulk", role: "group", "aria-label": own.bulk, hidden: true });

function show() {
  bar.hidden = !chosen.size;
  if (!chosen.size) return fill(bar);
  return fill(
    bar,
    make("strong", { role: "status" }, own.selected({ count: chosen.size })),
    button(own.addTags, tagAll, { class: "small", id: "bulk-tag" }),
    button(own.setAudience, setAudience, { class: "small", id: "bulk-audience" }),
    button(own.deleteSelected, deleteAll, { class: "small quiet danger", id: "bulk-delete" }),
    button(own.clearSelection, clear, { class: "small quiet", id: "bulk-clear" }),
  );
}

/** Select no document. */
export function clear() {
  chosen.clear();
  for (const box of document.querySelectorAll("#shelf input[type=checkbox]")) Object.assign(box, { checked: false, indeterminate: false });
  show();
}

function toggle(one, selected) {
  if (selected) chosen.set(one.number, one);
  else chosen.delete(one.number);
}

/** Return the cell that selects a document; null for callers who may not change any. */
export function selectCell(one) {
  if (!may("write")) return null;
  const change = (event) => {
    toggle(one, event.target.checked);
    headBox();
    show();
  };
  return make("td", { class: "select" }, make("label", {}, make("input", { type: "checkbox", checked: chosen.has(one.number), "aria-label": own.select({ title: one.title || one.name }), onchange: change })));
}

let listed = [];

/** Return the head of the column that selects documents, for those that are listed. */
export function selectHead(documents) {
  listed = documents;
  if (!may("write")) return null;
  const change = (event) => {
    for (const one of listed) toggle(one, event.target.checked);
    for (const box of document.querySelectorAll("#shelf td.select input")) box.checked = event.target.checked;
    show();
  };
  return make("th", { scope: "col", class: "select" }, make("label", {}, make("input", { type: "checkbox", id: "select-all", "aria-label": own.selectAll, onchange: change })));
}

/** Show in the head whether all listed documents are selected, or some. */
export function headBox() {
  const box = document.getElementById("select-all");
  if (!box) return;
  const count = listed.filter((one) => chosen.has(one.number)).length;
  box.checked = count > 0 && count === listed.length;
  box.indeterminate = count > 0 && count < listed.length;
}

/** Do something with each selected document, one after the other; return whether all succeeded. */
async function each(progress, act) {
  let done = 0;
  const all = [...chosen.values()];
  try {
    for (const one of all) {
      progress.textContent = own.bulkProgress({ done: (done += 1), count: all.length });
      await act(one, done === all.length);
      chosen.delete(one.number);
    }
    return true;
  } catch (problem) {
    complain(problem);
    return false;
  } finally {
    show();
    emit("ingested");
  }
}

function ask(id, title, parts, confirm, act) {
  const progress = make("p", { class: "hint", role: "status" });
  const form = make("form", {}, heading(id, title), parts, progress, make("div", { class: "row end" }, button(texts.common.cancel, () => dialog.close(), { class: "quiet" }), confirm));
  const dialog = openDialog(id, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    for (const control of form.elements) control.disabled = true;
    if (await act(progress)) say(own.bulkDone);
    dialog.close();
  });
}

function tagAll() {
  const tags = field("bulk-tags", own.tags, "", own.separated);
  ask("bulk-tagging", own.addTagsTitle({ count: chosen.size }), tags, make("button", { id: "confirm-tags" }, own.addTags), (progress) => {
    const added = splitTags(tags.querySelector("input").value);
    return each(progress, (one) => (added.some((tag) => !one.tags.includes(tag)) ? write("PATCH", where(one), { tags: [...new Set([...one.tags, ...added])] }) : null));
  });
}

function setAudience() {
  const labels = field("bulk-labels", own.audience, "", own.audienceExample);
  const parts = [labels, make("p", { class: "hint" }, own.audienceHint)];
  ask("bulk-audience-dialog", own.setAudienceTitle({ count: chosen.size }), parts, make("button", { id: "confirm-audience" }, own.setAudience), (progress) => {
    const audience = splitTags(labels.querySelector("input").value);
    return each(progress, (one) => write("PATCH", where(one), { audience }));
  });
}

function deleteAll() {
  const erase = make("input", { type: "checkbox", checked: true });
  const names = [...chosen.values()].map((one) => one.title || one.name);
  const parts = [
    make("ul", { class: "bulk-names", tabindex: "0", "aria-label": own.documents }, names.map((name) => make("li", {}, name))),
    make("p", {}, own.deleteSelectedHint),
    make("label", { class: "check" }, erase, own.eraseAll),
  ];
  // The files are rewritten once, after the last document.
  ask("bulk-removal", own.deleteSelectedTitle({ count: chosen.size }), parts, make("button", { id: "confirm-bulk-delete", class: "danger" }, own.delete), (progress) =>
    each(progress, (one, last) => write("DELETE", `${where(one)}?erase=${last && erase.checked}`, undefined)));
}

on("world", clear);
