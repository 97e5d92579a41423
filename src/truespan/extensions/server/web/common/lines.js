// Line breaks: those of prose come from the width of the file's lines, those of verse, code, lists
// and tables mean something. A document does not say which is which, so its lines must.

const NARROWEST = 45;
const LISTED = /^\s*(?:[-*+•·–—]|\(?\d{1,3}[.)]|\(?[a-z][.)])\s/;
const CAPITAL = /^[\s"'“”‘’«»„(\[]*\p{Lu}/u;
const CODE = /[{};]\s*$|^\s*(?:[@#$]|\/\/|def |class |import |return |for |if |else)|\w\(.*\)\s*$|[=!]=|=>|::/;

/** Return whether a line ends where its words did not fit: in a font of one width or of several. */
function wraps(line, next, width) {
  const word = next.trimStart().split(/\s/, 1)[0];
  return line.length + 1 + word.length > 0.82 * width || /^\p{Ll}/u.test(next.trimStart());
}

const BAR = / ?(?<!\S)\|(?!\S) ?/g;

/** Return the cells of a row as the store writes it, each with its place in the line and the bar behind it.
 * At the end of a line, and between empty cells, a bar may lack its spaces. */
export function cellsOf(line) {
  let start = 0;
  const cells = Array.from(line.matchAll(BAR), ({ 0: bar, index: end }) => {
    const cell = { text: line.slice(start, end), start, end, bar };
    start = end + bar.length;
    return cell;
  });
  return [...cells, { text: line.slice(start), start, end: line.length, bar: "" }];
}

/** Return whether a line is a row of a table as the store writes it: cells between bars. */
export const isRow = (line) => cellsOf(line).length > 1;

/** Return whether lines are rows of a table: most of them have several cells. */
export const isTable = (lines) => lines.length > 1 && lines.filter(isRow).length * 2 > lines.length;

/** Return whether lines look like code: indented, or with its signs. */
export function looksLikeCode(text) {
  const lines = text.split("\n").filter((line) => line.trim());
  if (lines.length < 2) return false;
  const indented = lines.filter((line) => /^(?: {2}|\t)/.test(line)).length;
  const signed = lines.filter((line) => CODE.test(line)).length;
  return signed * 2 > lines.length || (indented > 0 && signed * 3 > lines.length);
}

/** Return whether the line breaks of a paragraph must stay: not those of wrapped prose.
 * `width` is the longest line around it, where that is known. */
export function keepsLines(text, width = 0) {
  const lines = text.split("\n").filter((line) => line.trim());
  if (lines.length < 2) return false;
  if (lines.some((line) => isRow(line)) || lines.slice(1).some((line) => LISTED.test(line))) return true;
  const longest = Math.max(width, ...lines.map((line) => line.trimEnd().length));
  if (longest < NARROWEST) return true;
  const breaks = lines.length - 1;
  let wrapped = 0;
  let capitals = 0;
  for (let at = 0; at < breaks; at += 1) {
    // A passage may begin in the middle of its first line.
    if (wraps(lines[at].trimEnd(), lines[at + 1], Math.min(longest, 100)) || (at === 0 && breaks > 2)) wrapped += 1;
    if (CAPITAL.test(lines[at + 1])) capitals += 1;
  }
  // Verse begins each line with a capital; prose rarely does that on several lines in a row.
  if (capitals === breaks && longest < (breaks >= 3 ? 66 : 60)) return true;
  return wrapped < breaks - Math.floor(breaks / 6);
}

/** Return the length of the longest line of a text. */
export const widthOf = (text) => text.split("\n").reduce((most, line) => Math.max(most, line.length), 0);
