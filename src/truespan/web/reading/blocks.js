// Verified text as paragraphs, tables and verse. Nothing is added or left out: the text of the
// elements together is the text of the passage, letter for letter, except for marks of figures.

import { make } from "../common/dom.js";
import { isTable, keepsLines, looksLikeCode, widthOf } from "../common/lines.js";
import { unmarked } from "./figures.js";

const BAR = " | ";
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
    }, cell.nodes, place < cells.length - 1 && between(BAR), place === cells.length - 1 && after));
    return make("tr", attributes || {}, filled);
  };
  return make("div", { class: "table-box" }, make("table", {}, make("tbody", {}, rows.map(row))));
}

/** Return the cells of a row with the place of each in the text. */
export function cellsOf(line) {
  let at = 0;
  return line.split(BAR).map((text) => {
    const cell = { text, start: at, end: at + text.length };
    at += text.length + BAR.length;
    return cell;
  });
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
        const cells = cellsOf(line).map((cell) => ({ text: cell.text, nodes: show(from + cell.start, from + cell.end) }));
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
