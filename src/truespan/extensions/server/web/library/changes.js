// Changing documents: labels, another reading of the file, and deletion with its receipt.

import { path, write } from "../common/api.js";
import { button, complain, fill, make, say } from "../common/dom.js";
import { emit, worldPath } from "../common/state.js";
import { texts } from "../common/texts.js";
import { when, whole } from "../common/words.js";
import { send } from "./intake.js";

const own = texts.library;
/** Return the path of a document. */
export const where = (one) => worldPath() + path`/documents/${one.number}`;

/** Show a dialog that is removed when it is closed. */
export function openDialog(id, ...content) {
  const dialog = make("dialog", { id, "aria-labelledby": `${id}-title`, class: "library-dialog" }, content);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Return the heading of a dialog. */
export const heading = (id, words) => make("h2", { id: `${id}-title` }, words);

/** Return a field with its label. */
export function field(id, label, value, placeholder = "") {
  return make("div", { class: "field" }, make("label", { for: id }, label), make("input", { id, value, placeholder, autocomplete: "off" }));
}

/** Return a typed value as the API stores it: a number, true or false, or a text. */
function typed(words) {
  const said = words.trim();
  if (/^-?(0|[1-9]\d*)(\.\d+)?$/.test(said)) return Number(said);
  if (said === "true" || said === "false") return said === "true";
  if (/^["[{]/.test(said)) {
    try {
      return JSON.parse(said);
    } catch {
      return said;
    }
  }
  return said;
}

/** Return a stored value as it is typed. */
function shown(value) {
  if (typeof value !== "string") return JSON.stringify(value);
  return typed(value) === value ? value : JSON.stringify(value);
}

function metadataRow(key = "", value = "") {
  const row = make(
    "div",
    { class: "metadata-row" },
    make("input", { class: "metadata-key", value: key, "aria-label": own.metadataKey, placeholder: own.metadataKey, autocomplete: "off" }),
    make("input", { class: "metadata-value", value, "aria-label": own.metadataValue, placeholder: own.metadataValue, autocomplete: "off" }),
    button("×", () => row.remove(), { class: "small quiet", "aria-label": own.removeKey }),
  );
  return row;
}

/** Return the tags of a text, separated by commas. */
export const splitTags = (text) => [...new Set(text.split(",").map((tag) => tag.trim()).filter(Boolean))];

/** Return what the fields of the dialog change. */
function changes(one, value, pairs) {
  const found = {};
  const tags = splitTags(value("edit-tags"));
  if (JSON.stringify([...tags].sort()) !== JSON.stringify([...one.tags].sort())) found.tags = tags.length ? tags : null;
  const audience = splitTags(value("edit-audience"));
  if (JSON.stringify([...audience].sort()) !== JSON.stringify([...one.audience].sort())) found.audience = audience;
  if (value("edit-language") && value("edit-language") !== one.language) found.language = value("edit-language");
  if (value("edit-version") !== one.version) found.version = value("edit-version") || null;
  if (value("edit-url") !== (one.source_url || "")) found.source_url = value("edit-url") || null;
  const metadata = {};
  for (const [key, said] of pairs) if (JSON.stringify(one.metadata[key]) !== JSON.stringify(said)) metadata[key] = said;
  for (const key of Object.keys(one.metadata)) if (!pairs.some(([other]) => other === key)) metadata[key] = null;
  if (Object.keys(metadata).length) found.metadata = metadata;
  return found;
}

/** Edit the labels of a document. */
export function changeLabels(one) {
  const rows = make("div", { class: "metadata-rows" }, Object.entries(one.metadata).map(([key, value]) => metadataRow(key, shown(value))));
  const problem = make("p", { class: "bad", role: "alert" });
  const form = make(
    "form",
    {},
    heading("labels", own.editTitle),
    make("p", { class: "hint" }, one.title || one.name),
    field("edit-tags", own.tags, one.tags.join(", "), own.separated),
    field("edit-audience", own.audience, one.audience.join(", "), own.audienceExample),
    make("p", { class: "hint" }, own.audienceHint),
    make("div", { class: "two" }, field("edit-language", own.language, one.language), field("edit-version", own.version, one.version)),
    field("edit-url", own.sourceUrl, one.source_url || "", "https://"),
    make("fieldset", { class: "metadata" }, make("legend", {}, own.metadata), rows, button(own.addKey, () => rows.appendChild(metadataRow()).firstChild.focus(), { class: "small quiet", id: "add-key" }), make("p", { class: "hint" }, own.metadataHint)),
    make("p", { class: "hint" }, own.labelsHint),
    problem,
    make("div", { class: "row end" }, button(texts.common.cancel, () => dialog.close(), { class: "quiet" }), make("button", { id: "save-labels" }, texts.common.save)),
  );
  const dialog = openDialog("labels", form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const value = (id) => form.querySelector(`#${id}`).value.trim();
    const pairs = [...rows.children].map((row) => [row.children[0].value.trim(), typed(row.children[1].value)]).filter(([key]) => key);
    const wanted = changes(one, value, pairs);
    if (!Object.keys(wanted).length) return dialog.close();
    try {
      await write("PATCH", where(one), wanted);
    } catch (failure) {
      problem.textContent = failure.message;
      return;
    }
    dialog.close();
    say(own.labelsSaved);
    emit("ingested");
    emit("changed", one.number);
  });
}

/** Ask whether a document is to be deleted, delete it, and show the receipt. */
export function remove(one) {
  const title = one.title || one.name;
  const erase = make("input", { type: "checkbox", id: "erase", checked: true });
  const confirm = make("button", { id: "confirm-delete", class: "danger" }, own.delete);
  const cancel = button(texts.common.cancel, () => dialog.close(), { class: "quiet", autofocus: true });
  const progress = make("p", { class: "hint", role: "status" });
  const form = make(
    "form",
    {},
    heading("removal", own.deleteTitle),
    make("p", {}, own.deleteWhat({ title, count: one.chunks })),
    one.path !== title && make("p", { class: "hint" }, one.path),
    make("label", { class: "check" }, erase, own.erase),
    make("p", { class: "hint" }, own.eraseHint),
    progress,
    make("div", { class: "row end" }, cancel, confirm),
  );
  const dialog = openDialog("removal", form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    confirm.disabled = cancel.disabled = true;
    progress.textContent = own.deleting;
    try {
      const receipt = await write("DELETE", `${where(one)}?erase=${erase.checked}`, undefined);
      fill(dialog, receiptOf(receipt, () => dialog.close()));
      dialog.querySelector("button").focus();
      say(own.deleted({ title }));
      emit("ingested");
      emit("removed", one.number);
    } catch (problem) {
      dialog.close();
      complain(problem);
    }
  });
}

function save(receipt) {
  const address = URL.createObjectURL(new Blob([JSON.stringify(receipt, null, 2)], { type: "application/json" }));
  make("a", { href: address, download: `receipt-${receipt.doc_id}.json` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

function receiptOf(receipt, close) {
  const rows = Object.entries(receipt.rows).filter(([, count]) => count);
  const fact = (name, value) => [make("dt", {}, name), make("dd", {}, value)];
  const points = receipt.points.reduce((sum, one) => sum + (one.points ?? one.count ?? 0), 0);
  const left = Object.entries({ ...receipt.waiting, ...receipt.outside });
  return make(
    "div",
    { class: "receipt", id: "receipt" },
    heading("removal", own.receiptTitle),
    make("p", { class: receipt.erased ? "good" : "hint" }, receipt.erased ? own.erased : own.notErased),
    left.length > 0 && make("ul", { class: "plain hint" }, left.map(([what, why]) => make("li", {}, `${what}: ${why}`))),
    make(
      "dl",
      { class: "facts" },
      fact(own.columns.title, receipt.name),
      fact(own.receiptAt, when(receipt.deleted_at)),
      fact(own.receiptRows, rows.map(([table, count]) => `${table} ${whole(count)}`).join(", ") || "0"),
      fact(own.receiptPoints, whole(points)),
      fact(own.receiptFiles, texts.counts.files({ count: receipt.assets.files + receipt.uploads.files })),
      fact(own.receiptDigest, make("code", {}, receipt.digest)),
    ),
    make("div", { class: "row end" }, button(own.saveReceipt, () => save(receipt), { class: "quiet" }), button(texts.common.close, close)),
  );
}

/** Read the file of a document again on the server. */
export async function readAgain(one) {
  try {
    await write("POST", `${where(one)}/ingest`, undefined);
    say(own.readingAgain);
    emit("jobs");
    emit("read-again");
  } catch (problem) {
    complain(problem);
  }
}

/** Upload another file as a new revision of a document, with the labels that it has. */
export function replaceFile(one) {
  const picker = make("input", { type: "file" });
  picker.addEventListener("change", () => {
    const [file] = picker.files;
    if (!file) return;
    file.as = one.name;
    send([file], []);
    emit("read-again");
  });
  picker.click();
}
