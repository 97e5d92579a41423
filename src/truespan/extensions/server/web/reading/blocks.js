// Verified text as paragraphs, tables and verse, and its figures. Nothing is added or left out: the
// text of the elements together is the text of the passage, letter for letter, except for marks of
// figures. Images are fetched with the caller's token.

import { get, image, imagePath } from "../common/api.js";
import { byId, fill, make } from "../common/dom.js";
import { boundReader, readerPath, state, worldPath } from "../common/state.js";
import { texts } from "../common/texts.js";
import { cellsOf, isTable, keepsLines, looksLikeCode, widthOf } from "../common/lines.js";

const MARK = /\[FIGURE:([^\]\s]+)\]/g;
const fetched = new Map();

/** Drop the images of the previous world, reader or token. */
export function forgetImages() {
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
  const words = note.description || texts.reading.figureNamed({ id: note.figure_id });
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

const NUMBER = /^[\s\d.,%€$£+()–-]+$/;

/** Return text that is part of a passage and not shown: what lies between its blocks and cells. */
const between = (text) => make("span", { hidden: true }, text);

/** Return whether the first row of a table names its columns. */
function hasHead(rows) {
  const [head, ...rest] = rows;
  const plain = head.length > 1 && head.every((cell) => cell.trim() && cell.length < 60 && !NUMBER.test(cell));
  return plain && rest.length > 0;
}

/** Return a table; each row is the attributes of its element and the nodes and text of its cells. */
export function table(rows) {
  const head = hasHead(rows.map((row) => row.cells.map((cell) => cell.text)));
  const columns = Math.max(...rows.map((row) => row.cells.length));
  const row = ({ attributes, cells, after }, at) => {
    const tag = head && at === 0 ? "th" : "td";
    const filled = cells.map((cell, place) => make(tag, {
      scope: tag === "th" ? "col" : null,
      class: NUMBER.test(cell.text) ? "end" : null,
      colspan: place === cells.length - 1 && columns > cells.length ? columns - place : null,
    }, cell.nodes, cell.bar && between(cell.bar), place === cells.length - 1 && after));
    return make("tr", attributes || {}, filled);
  };
  return make("div", { class: "table-box" }, make("table", {}, make("tbody", {}, rows.map(row))));
}

/** Return the class of a paragraph: code, lines that must stay, or none. */
export function kindOf(text, width) {
  if (looksLikeCode(text)) return "code-lines";
  return keepsLines(text, width) ? "lines" : null;
}

/** Return what makes nodes of a part of a text, with its marks: `{start, end, tag, class}`, where
 * marks are either apart or one within the other. */
export function marker(text, marks) {
  const sorted = [...marks].sort((a, b) => a.start - b.start || b.end - a.end);
  const nodes = (from, to, inside) => {
    const made = [];
    let at = from;
    for (const mark of inside) {
      const start = Math.max(mark.start, at);
      const end = Math.min(mark.end, to);
      if (start >= end) continue;
      if (start > at) made.push(unmarked(text.slice(at, start)));
      const inner = inside.filter((one) => one !== mark && one.start >= mark.start && one.end <= mark.end && one.start < end);
      made.push(make(mark.tag, { class: mark.class, title: mark.title }, nodes(start, end, inner)));
      at = end;
    }
    if (at < to) made.push(unmarked(text.slice(at, to)));
    return made;
  };
  return (from, to) => nodes(from, to, sorted);
}

/** Return how many rows at the beginning of a part of a table only repeat the header: none if it is another table. */
function repeatedRows(before, lines) {
  const at = lines.findIndex((line, place) => line !== before[place]);
  return Math.max(at, 0);
}

/** Return the blocks of a passage. `labels` are names of its place: a line with one is a heading. */
export function passageBlocks(text, { marks = [], labels = [] } = {}) {
  const show = marker(text, marks);
  const width = widthOf(text);
  const blocks = [];
  let open = null;
  for (const found of text.matchAll(/((?:[^\n]|\n(?!\n))+)(\n*)|\n+/g)) {
    const [whole, body = "", gap = ""] = found;
    const start = found.index;
    const lines = body.split("\n");
    if (!isTable(lines)) open = null;
    if (!body.trim()) blocks.push(between(whole));
    else if (isTable(lines)) {
      const repeated = open ? repeatedRows(open.lines, lines) : 0;
      let at = start;
      const rows = lines.map((line, place) => {
        const from = at;
        at += line.length + 1;
        const cells = cellsOf(line).map((cell) => ({ ...cell, nodes: show(from + cell.start, from + cell.end) }));
        return { attributes: { hidden: place < repeated }, cells, after: between(place < lines.length - 1 ? "\n" : gap) };
      });
      if (repeated) blocks.pop();
      open = { lines, rows: repeated ? [...open.rows, ...rows] : rows };
      blocks.push(table(open.rows));
    } else {
      const heading = lines.length < 4 && labels.includes(body.trim().replace(/\s+/g, " "));
      blocks.push(make("p", { class: heading ? "passage-head lines" : kindOf(body, width) }, show(start, start + body.length), gap && between(gap)));
    }
  }
  return blocks;
}
