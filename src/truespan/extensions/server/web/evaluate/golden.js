// Golden queries as text: kept in this browser, read from a file, and written to one.

import { state } from "../common/state.js";
import { remember, remembered } from "../common/storage.js";

const KEY = "truespan.golden.";
const NAME = "truespan.golden-name.";

/** Return the text of the chosen world, or an empty string. */
export function kept() {
  return read(KEY);
}

/** Return the name of the file that the text came from. */
export function fileName() {
  return read(NAME) || (isLines(kept()) ? "golden.jsonl" : "golden.yaml");
}

const read = (key) => remembered(key + state.world.id);

/** Keep the text in this browser, for all of its tabs. */
export function keep(text, name = "") {
  remember(KEY + state.world.id, text);
  if (name || !text) remember(NAME + state.world.id, name);
}

const isLines = (text) => text.trimStart().startsWith("{");

/** Return about how many queries a text has. */
export function count(text) {
  return (text.match(isLines(text) ? /^\s*\{/gm : /^- ?/gm) || []).length;
}

/** Return the text with one more query, in the same format. */
export function withQuery(text, { query, expected, phrases }) {
  const fields = { query, ...(expected.length ? { expected } : {}), ...(phrases.length ? { phrases } : {}) };
  const glue = text && !text.endsWith("\n") ? "\n" : "";
  if (isLines(text)) return `${text}${glue}${JSON.stringify(fields)}\n`;
  // A string of JSON, and a list of them, is YAML as well.
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${spelled(value)}`);
  return `${text}${glue}- ${lines.join("\n  ")}\n`;
}

function spelled(value) {
  const text = Array.isArray(value) ? `[${value.map((one) => JSON.stringify(one)).join(", ")}]` : JSON.stringify(value);
  return text.replace(/[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Return where the entry of a result stands in the text: start and end; null if it is not found. */
export function placeOf(text, { id, query }) {
  const forms = [id, JSON.stringify(query), query];
  const at = forms.map((form) => text.indexOf(form)).find((place) => place >= 0);
  if (at === undefined) return null;
  const starts = [...text.matchAll(isLines(text) ? /^.*$/gm : /^- /gm)].map((found) => found.index);
  const start = starts.filter((one) => one <= at).at(-1) ?? at;
  const end = starts.find((one) => one > at) ?? text.length;
  return { start, end };
}

/** Return where a line stands in the text: start and end; null if there is none of this number. */
export function lineOf(text, number) {
  const lines = text.split("\n");
  if (!(number >= 1 && number <= lines.length)) return null;
  const start = lines.slice(0, number - 1).reduce((sum, line) => sum + line.length + 1, 0);
  return { start, end: start + lines[number - 1].length };
}

/** Let the browser save a text as a file. */
export function save(name, text, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
