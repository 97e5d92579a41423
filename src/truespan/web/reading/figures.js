// Figures: fetched with the caller's token, and shown next to the text that cites them.

import { get, image, imagePath } from "../common/api.js";
import { byId, fill, make } from "../common/dom.js";
import { boundReader, readerPath, state, worldPath } from "../common/state.js";
import { texts } from "../common/texts.js";

const MARK = /\[FIGURE:([^\]\s]+)\]/g;
const fetched = new Map();

/** Drop the images of the previous world, reader or token. */
export function forget() {
  for (const address of fetched.values()) address.then(URL.revokeObjectURL, () => {});
  fetched.clear();
}

function addressOf(reference) {
  const reader = state.mode === "reader" ? state.reader : null;
  const where = imagePath(state.world.id, boundReader() === null ? null : reader, reference);
  if (!fetched.has(where)) fetched.set(where, image(where));
  return fetched.get(where);
}

function enlarge(address, words) {
  fill(byId("enlarged"), make("img", { src: address, alt: words }), make("figcaption", {}, words));
  byId("picture").showModal();
}

/** Return a figure with its description; its image is added when it is loaded. */
export function figure(note) {
  const words = note.description || texts.reading.figureNamed(note.figure_id);
  const frame = make("div", { class: "figure-frame" }, make("span", { class: "hint" }, "…"));
  const shown = make(
    "figure",
    { class: "figure", "data-figure": note.figure_id },
    frame,
    make("figcaption", {}, words),
  );
  if (!note.image_ref) {
    frame.append(make("span", { class: "hint" }, texts.reading.imageMissing));
    return shown;
  }
  addressOf(note.image_ref).then(
    (address) => {
      const picture = make("img", { alt: words, src: address });
      picture.onerror = () => fill(frame, make("span", { class: "hint" }, texts.reading.imageUnknown));
      fill(frame, make("button", { type: "button", class: "enlarge", title: texts.reading.enlarge, onclick: () => enlarge(address, words) }, picture));
    },
    () => fill(frame, make("span", { class: "hint" }, texts.reading.imageFailed)),
  );
  return shown;
}

/** Return the ids of the figures cited in a text. */
export function marked(text) {
  return Array.from(text.matchAll(MARK), (found) => found[1]);
}

/** Return whether a part of a text lies in a figure mark. */
export function insideMark(text, start, end) {
  return Array.from(text.matchAll(MARK)).some((found) => start < found.index + found[0].length && end > found.index);
}

/** Return a text with readable figure marks. */
export function unmarked(text) {
  return text.replace(MARK, texts.reading.figureMark);
}

/** Fetch the figures that a passage cites and the result does not include. */
export async function citedBy(passage, signal) {
  const count = passage.last - passage.first + 1;
  const where = boundReader() === null
    ? `${worldPath()}/documents/${passage.document}/sentences?offset=${passage.first}&limit=${count}`
    : `${readerPath()}/sentences?book=${passage.document}&offset=${passage.first}&limit=${count}`;
  const page = await get(where, signal);
  const wanted = new Set(marked(passage.text));
  return page.figures.filter((note) => wanted.has(note.figure_id));
}
