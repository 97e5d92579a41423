// Markdown of a model's answer as elements. Only the nodes made here reach the page: markup in the
// text stays text, images are never loaded, and a link needs an http or https address.

import { make } from "./dom.js";
import { cellsOf as storedCells, isTable as areRows, keepsLines } from "./lines.js";

const DEEPEST = 8;
const COLUMNS = 40;
const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(\S.*)$/;
const RULE = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const QUOTE = /^ {0,3}>/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?:[ \t]+(.*)|)$/;
const LINK = /!?\[([^[\]\n]{0,500})\]\([ \t]*<?([^\s<>()]{1,2000}(?:\([^\s<>()]{0,500}\)[^\s<>()]{0,500}){0,5})>?(?:[ \t]+"[^"\n]{0,500}")?[ \t]*\)/y;
const BARE = /<(https?:\/\/[^\s<>]{1,2000})>/y;
const WORD = /[\p{L}\p{N}]/u;

/** Return the address if a page may link to it, else null. */
export function safeAddress(text) {
  if (!/^https?:\/\//i.test(text)) return null;
  try {
    const url = new URL(text);
    // A name before the host makes one site look like another.
    return url.username || url.password ? null : url;
  } catch {
    return null;
  }
}

function link(url, children) {
  const text = children.map((child) => child.textContent ?? child).join("");
  return make(
    "a",
    { href: url.href, title: url.href, rel: "noopener noreferrer nofollow", target: "_blank", referrerpolicy: "no-referrer" },
    children,
    // Where a link leads is visible before it is followed.
    !text.includes(url.host) && make("small", {}, ` (${url.host})`),
  );
}

/** Return, for each run of backticks, where the next run of the same length starts. */
function codeEnds(text) {
  const ends = new Map();
  const later = new Map();
  const runs = [...text.matchAll(/`+/g)];
  for (const run of runs.reverse()) {
    const size = run[0].length;
    ends.set(run.index, later.get(size) ?? -1);
    later.set(size, run.index);
  }
  return ends;
}

const TAGS = { "*": "em", _: "em", "**": "strong", __: "strong", "~~": "s" };

/** Return what a run of * _ or ~ can do between two characters. */
function flanks(sign, size, before, after) {
  const opens = after !== "" && !/\s/.test(after);
  const closes = before !== "" && !/\s/.test(before);
  const inside = WORD.test(before) && WORD.test(after);
  // 2*3*4 and snake_case_names are not emphasis.
  if (inside && (sign === "_" || (sign === "*" && size === 1))) return { opens: false, closes: false };
  if (sign === "~" ? size !== 2 : size > 3) return { opens: false, closes: false };
  return { opens, closes };
}

/** Return the nodes of one line or paragraph. `words` turns plain text into nodes. */
function inline(text, words, depth = 0) {
  const ends = codeEnds(text);
  const frames = [{ sign: "", nodes: [] }];
  let plain = "";
  const flush = () => {
    if (plain) frames.at(-1).nodes.push(...[words(plain)].flat(Infinity));
    plain = "";
  };
  const put = (node) => {
    flush();
    frames.at(-1).nodes.push(node);
  };
  const drop = () => {
    const frame = frames.pop();
    frames.at(-1).nodes.push(frame.sign, ...frame.nodes);
  };
  let at = 0;
  while (at < text.length) {
    const sign = text[at];
    if (sign === "\\" && /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "")) {
      plain += text[at + 1];
      at += 2;
      continue;
    }
    if (sign === "`") {
      let size = 1;
      while (text[at + size] === "`") size += 1;
      const end = ends.get(at) ?? -1;
      if (end < 0) plain += text.slice(at, at + size);
      else put(make("code", {}, text.slice(at + size, end).replace(/\n/g, " ").replace(/^ (.*\S.*) $/, "$1")));
      at = end < 0 ? at + size : end + size;
      continue;
    }
    if (sign === "[" || (sign === "!" && text[at + 1] === "[")) {
      LINK.lastIndex = at;
      const found = LINK.exec(text);
      if (found) {
        const url = sign === "!" ? null : safeAddress(found[2]);
        const label = depth ? [found[1]] : inline(found[1], (part) => [part], depth + 1);
        if (url) put(link(url, label.length ? label : [url.host]));
        else for (const node of label) put(node);
        at += found[0].length;
        continue;
      }
    }
    if (sign === "<") {
      BARE.lastIndex = at;
      const found = BARE.exec(text);
      const url = found && safeAddress(found[1]);
      if (url) {
        put(link(url, [found[1]]));
        at += found[0].length;
        continue;
      }
    }
    if (sign === "*" || sign === "_" || sign === "~") {
      let size = 1;
      while (text[at + size] === sign) size += 1;
      const { opens, closes } = flanks(sign, size, text[at - 1] ?? "", text[at + size] ?? "");
      at += size;
      let left = size;
      while (closes && left) {
        const fits = (frame) => frame.sign[0] === sign && frame.sign.length <= left;
        const open = frames.findLastIndex(fits);
        if (open < 1) break;
        flush();
        while (frames.length - 1 > open) drop();
        const frame = frames.pop();
        if (frame.nodes.length) frames.at(-1).nodes.push(make(TAGS[frame.sign], {}, frame.nodes));
        else plain += frame.sign + frame.sign;
        left -= frame.sign.length;
      }
      while (opens && left && frames.length < DEEPEST * 2) {
        flush();
        frames.push({ sign: sign.repeat(Math.min(left, 2)), nodes: [] });
        left -= frames.at(-1).sign.length;
      }
      plain += sign.repeat(left);
      continue;
    }
    plain += sign;
    at += 1;
  }
  flush();
  while (frames.length > 1) drop();
  return frames[0].nodes;
}

/** Return the cells of a table row: \| is a bar inside a cell. */
function cellsOf(line) {
  const cells = [""];
  const row = line.trim();
  for (let at = row[0] === "|" ? 1 : 0; at < row.length; at += 1) {
    if (row[at] === "\\" && row[at + 1] === "|") {
      cells[cells.length - 1] += "|";
      at += 1;
    } else if (row[at] !== "|") cells[cells.length - 1] += row[at];
    else if (at + 1 < row.length) cells.push("");
  }
  return cells.slice(0, COLUMNS).map((cell) => cell.trim());
}

function isTable(lines, at) {
  if (!lines[at].includes("|") || at + 1 >= lines.length || !lines[at + 1].includes("-")) return false;
  const rule = cellsOf(lines[at + 1]);
  return rule.every((cell) => /^:?-+:?$/.test(cell)) && rule.length === cellsOf(lines[at]).length;
}

function table([head, ...rows], words, sides = []) {
  const row = (cells, tag) => make("tr", {}, head.map((_, at) => make(tag, { class: sides[at], scope: tag === "th" ? "col" : null }, inline(cells[at] ?? "", words))));
  return make("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": head.join(", ") }, make("table", {}, make("thead", {}, row(head, "th")), make("tbody", {}, rows.map((cells) => row(cells, "td")))));
}

/** Return the table of rows as a passage has them: without a line below the first, which may have fewer cells. */
function storedTable(lines, words) {
  const rows = lines.map((line) => storedCells(line).slice(0, COLUMNS).map((cell) => cell.text.trim()));
  const width = Math.max(...rows.map((row) => row.length));
  return table([Object.assign(Array(width).fill(""), rows[0]), ...rows.slice(1)], words);
}

const blank = (line) => line.trim() === "";
const indent = (line) => line.length - line.trimStart().length;

/** Return whether a line starts a block that ends a paragraph. */
function breaks(line) {
  if (FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line)) return true;
  const item = ITEM.exec(line);
  // A line of prose may begin with a year: only 1. starts a list in a paragraph.
  return Boolean(item && item[3] && (!/\d/.test(item[2]) || /^1[.)]$/.test(item[2])));
}

/** Take the lines of one list item from `at`; returns them without their indentation. */
function takeItem(lines, at, found) {
  const marker = found[1].length;
  const offset = marker + found[2].length + 1;
  const inside = [found[3] ?? ""];
  let next = at + 1;
  for (; next < lines.length; next += 1) {
    const line = lines[next];
    if (blank(line)) {
      const after = lines[next + 1];
      if (after === undefined || blank(after) || indent(after) < marker + 2) break;
      inside.push("");
    } else if (indent(line) >= marker + 2) inside.push(line.slice(Math.min(offset, indent(line))));
    else if (breaks(line) || ITEM.test(line) || blank(lines[next - 1])) break;
    else inside.push(line.trimStart());
  }
  return { inside, next };
}

const ordered = (found) => /\d/.test(found[2]);

function list(lines, start, words, depth) {
  const first = ITEM.exec(lines[start]);
  const items = [];
  let at = start;
  while (at < lines.length) {
    let from = at;
    // A blank line between items does not end the list.
    if (blank(lines[from]) && from + 1 < lines.length) from += 1;
    const found = ITEM.exec(lines[from]);
    if (!found || ordered(found) !== ordered(first) || found[1].length > first[1].length + 1 || RULE.test(lines[from])) break;
    const { inside, next } = takeItem(lines, from, found);
    const nodes = blocks(inside, words, depth + 1);
    const [head, ...rest] = nodes;
    const tight = head?.tagName === "P" && !rest.some((node) => node.tagName === "P");
    items.push(make("li", {}, tight ? [[...head.childNodes], rest] : nodes));
    at = next;
  }
  const number = ordered(first) ? Number.parseInt(first[2], 10) : 1;
  const shown = make(ordered(first) ? "ol" : "ul", { start: ordered(first) && number !== 1 ? number : null }, items);
  return { shown, next: at };
}

function paragraph(lines, words) {
  const broken = lines.slice(0, -1).some((line) => /(?: {2}|\\)$/.test(line));
  const text = lines.map((line) => line.trim().replace(/\\$/, "")).join("\n");
  return make("p", { class: broken || keepsLines(text) ? "lines" : null }, inline(text, words));
}

function blocks(lines, words, depth) {
  if (depth > DEEPEST) return [paragraph(lines, words)];
  const nodes = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    const fence = FENCE.exec(line);
    const heading = HEADING.exec(line);
    if (blank(line)) at += 1;
    else if (fence) {
      let end = at + 1;
      const closes = (text) => text.trim().startsWith(fence[1]) && text.trim().replaceAll(fence[1][0], "") === "";
      while (end < lines.length && !closes(lines[end])) end += 1;
      nodes.push(make("pre", { tabindex: "0" }, make("code", {}, lines.slice(at + 1, end).join("\n"))));
      at = end + 1;
    } else if (heading) {
      const said = heading[2].trimEnd().replace(/(^|[ \t])#{1,6}$/, "");
      nodes.push(make(`h${Math.min(6, heading[1].length + 3)}`, {}, inline(said.trim(), words)));
      at += 1;
    } else if (RULE.test(line)) {
      nodes.push(make("hr", {}));
      at += 1;
    } else if (QUOTE.test(line)) {
      let end = at;
      while (end < lines.length && QUOTE.test(lines[end])) end += 1;
      const inside = lines.slice(at, end).map((quoted) => quoted.replace(/^ {0,3}> ?/, ""));
      nodes.push(make("blockquote", {}, blocks(inside, words, depth + 1)));
      at = end;
    } else if (ITEM.test(line)) {
      const { shown, next } = list(lines, at, words, depth);
      nodes.push(shown);
      at = next;
    } else if (isTable(lines, at)) {
      let end = at + 2;
      while (end < lines.length && lines[end].includes("|") && !blank(lines[end])) end += 1;
      const [head, rule, ...rows] = lines.slice(at, end).map(cellsOf);
      const sides = rule.map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "end") : null));
      nodes.push(table([head, ...rows], words, sides));
      at = end;
    } else {
      let end = at + 1;
      while (end < lines.length && !blank(lines[end]) && !breaks(lines[end]) && !isTable(lines, end)) end += 1;
      const inside = lines.slice(at, end);
      nodes.push(areRows(inside) ? storedTable(inside, words) : paragraph(inside, words));
      at = end;
    }
  }
  return nodes;
}

/** Return the elements of a Markdown text, also of one that has not arrived completely.
 * `words` turns plain text into nodes, for example to link citations. */
export function markdown(text, words = (part) => [part]) {
  return blocks(text.replace(/\r\n?/g, "\n").replace(/\t/g, "    ").split("\n"), words, 0);
}
