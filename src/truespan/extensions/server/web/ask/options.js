// The options of a question: the fields, what they mean in a request, and their place in the route.

import { byId } from "../common/dom.js";
import { state } from "../common/state.js";
import { texts } from "../common/texts.js";

/** By name in the route: the field, and the value that is left out there. */
const FIELDS = {
  way: ["way", "retrieve"],
  reach: ["reach", "world"],
  top_k: ["top-k", "5"],
  mode: ["search-mode", ""],
  chapter: ["chapter", ""],
  language: ["language", ""],
  version: ["version", ""],
  kinds: ["kinds", ""],
  tags: ["tags", ""],
  source: ["source", ""],
  metadata: ["metadata", ""],
  rerank: ["rerank", ""],
  neighbours: ["neighbours", "0"],
};
const COMPARISON = /^([^=<>!]+?)\s*(==|=|>=|<=|>|<)(.*)$/s;
const SIGNS = { ">": "gt", ">=": "gte", "<": "lt", "<=": "lte" };

const text = (id) => byId(id).value.trim();
const parts = (id) => text(id).split(",").map((one) => one.trim()).filter(Boolean);
const within = (id, least, most, usual) => Math.min(most, Math.max(least, Math.round(byId(id).valueAsNumber || usual)));

function valueOf(words) {
  const plain = words.trim();
  if (plain === "true" || plain === "false") return plain === "true";
  if (/^-?(0|[1-9]\d*)(\.\d+)?$/.test(plain)) return Number(plain);
  return plain.replace(/^"(.*)"$/s, "$1");
}

/** Return conditions on metadata such as `team=it, year>=2020` as an object; null if one is invalid. */
function conditions() {
  const found = {};
  for (const one of parts("metadata")) {
    const [, key, sign, value] = COMPARISON.exec(one) || [];
    const name = (key || one.replace(/^!/, "")).trim();
    found[name] ||= {};
    if (!key && (/[=<>!]/.test(name) || !name)) return null;
    if (!key) found[name].exists = !one.startsWith("!");
    else if (!value.trim()) return null;
    else if (SIGNS[sign]) found[name][SIGNS[sign]] = valueOf(value);
    else found[name].any_of = [...(found[name].any_of || []), valueOf(value)];
  }
  return found;
}

/** Return what is wrong with the options; an empty text if nothing is. */
export const problem = () => (conditions() === null ? texts.ask.metadataWrong : "");

/** Return the options: how many passages, and the members of a request of the owner and of a reader. */
export function chosen() {
  const rerank = { yes: true, no: false }[text("rerank")] ?? null;
  const ofReader = { mode: text("search-mode") || null, rerank, neighbours: within("neighbours", 0, 10, 0) };
  return {
    searching: text("way") === "search",
    top_k: within("top-k", 1, 20, 5),
    ofReader,
    filters: {
      ...ofReader,
      documents: text("reach") === "document" && state.document ? [String(state.document.number)] : null,
      chapter: text("chapter") || null,
      language: text("language") || null,
      version: text("version") || null,
      kinds: text("kinds") ? [text("kinds")] : [],
      tags: parts("tags"),
      source: text("source") || null,
      metadata: text("metadata") ? conditions() : null,
    },
  };
}

/** Return the options that differ from their defaults as parameters of the route. */
export function parameters() {
  const named = Object.entries(FIELDS).map(([name, [id, usual]]) => [name, text(id) === usual ? null : text(id)]);
  return Object.fromEntries(named);
}

/** Set the fields to what a route says, and count those that are not at their default. */
export function restore(wanted) {
  for (const [name, [id, usual]] of Object.entries(FIELDS)) byId(id).value = wanted[name] ?? usual;
  count();
}

function count() {
  const changed = Object.values(parameters()).filter((value) => value !== null).length;
  byId("options-count").textContent = changed ? String(changed) : "";
}

byId("options").addEventListener("input", count);
