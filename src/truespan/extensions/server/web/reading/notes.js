// Notes of the reader: write them about selected text, list those up to the position, export them.

import { get, markdown, path, write } from "../common/api.js";
import { button, byId, complain, fill, make, say } from "../common/dom.js";
import { show } from "./pane.js";
import { asReader, isPreview, on, readerPath, state } from "../common/state.js";
import { texts } from "../common/texts.js";

const dialog = byId("notes");
/** The sentences that the next note marks, with their words; null for none. */
let marked = null;

const place = () => `${readerPath()}/notes`;
const book = () => path`?book=${state.document.number}`;

/** Notes belong to a recorded position: not to one that is only tried, nor to a book not begun. */
const canWrite = () => Boolean(asReader() && state.document && state.position !== null && state.position >= 0 && !isPreview());

function entry(note) {
  const where = note.last ?? note.sid;
  const remove = async () => {
    await write("DELETE", place() + path`/${note.id}`);
    await list();
  };
  const reveal = () => {
    dialog.close();
    show(note.first, note.last).catch(complain);
  };
  return make(
    "li",
    {},
    note.quote && make("blockquote", { class: "hint" }, note.quote),
    make("p", { class: "lines" }, note.damaged ? texts.reading.noteDamaged : note.text),
    make(
      "div",
      { class: "row" },
      make("span", { class: "hint" }, texts.reading.notePlace({ sid: where })),
      note.first !== null && button(texts.reading.showNote, reveal, { class: "small quiet" }),
      button(texts.reading.deleteNote, () => remove().catch(complain), { class: "small quiet" }),
    ),
  );
}

async function list() {
  const { notes } = await get(place() + book());
  byId("export-notes").disabled = !notes.length;
  fill(byId("note-list"), notes.length ? notes.map(entry) : make("li", { class: "hint" }, texts.reading.noNotes));
}

/** Open the dialog, for a note about these sentences or about none. */
async function open(about) {
  marked = about;
  const quote = byId("note-quote");
  quote.hidden = !about;
  quote.textContent = about?.words ?? "";
  byId("note-text").value = "";
  await list();
  dialog.showModal();
  byId("note-text").focus();
}

async function add() {
  const { first, last } = marked ?? { first: null, last: null };
  await write("POST", place(), { text: byId("note-text").value, book: String(state.document.number), first, last });
  say(texts.reading.noteAdded);
  byId("note-text").value = "";
  byId("note-quote").hidden = true;
  marked = null;
  await list();
}

async function save() {
  const content = await markdown(place() + book());
  make("a", { href: URL.createObjectURL(new Blob([content], { type: "text/markdown" })), download: "notes.md" }).click();
}

function offer() {
  byId("open-notes").hidden = !canWrite();
}

byId("open-notes").addEventListener("click", () => open(null).catch(complain));
byId("export-notes").addEventListener("click", () => save().catch(complain));
byId("note-form").addEventListener("submit", (event) => {
  event.preventDefault();
  add().catch(complain);
});
on("note", (about) => open(about).catch(complain));
for (const change of ["turned", "moved", "saved", "settled"]) on(change, offer);
