// The documents of the world in a table: search, facets, sorting, and one page at a time.

import { get } from "../common/api.js";
import { button, complain, draw, fill, make } from "../common/dom.js";
import { go, hash, may, on, route, state, worldPath } from "../common/state.js";
import { language, languageName, texts } from "../common/texts.js";
import { whole } from "../common/words.js";
import * as bulk from "./bulk.js";
import { changeLabels, remove } from "./changes.js";
import { folderTree } from "./folders.js";

const own = texts.library;
const PAGE = 50;
const COLUMNS = [
  { name: "title", key: "title", words: own.columns.title },
  { name: "status", key: "status", words: own.columns.status, value: (one) => one.status, usual: "ready" },
  { name: "size", key: "characters", words: own.columns.size, number: true },
  { name: "chunks", key: "chunks", words: own.columns.chunks, number: true },
  { name: "language", key: "language", words: own.columns.language, value: (one) => one.language },
  { name: "version", key: "version", words: own.columns.version, value: (one) => one.version },
  { name: "labels", key: null, words: own.columns.labels, value: (one) => (one.tags.length || Object.keys(one.metadata).length || audienceOf(one).length ? one.number : ""), usual: "" },
];
const NEWEST = "-number";
const LABEL_FACETS = new Set(["tags", "language", "version", "kind"]);
const MAX_CHIPS = 4;
const MAX_VALUES = 8;

const box = make("input", { id: "find-documents", type: "search", maxlength: 200, autocomplete: "off", placeholder: own.findPlaceholder, "aria-label": own.findPlaceholder });
const order = make(
  "select",
  { id: "sort-documents", "aria-label": own.sortBy },
  [["", own.sorts.newest], ["number", own.sorts.number], ["title", own.sorts.title], ["path", own.sorts.path], ["status", own.sorts.status], ["-characters", own.sorts.largest], ["-chunks", own.sorts.chunks]].map(([value, words]) => make("option", { value }, words)),
);
const tools = make("div", { class: "shelf-tools" }, box, order);
const chosen = make("div", { class: "chosen", id: "chosen-filters" });
const facets = make("details", { class: "facets", id: "facets", open: true }, make("summary", {}, own.filters));
const groups = make("div", { class: "facet-groups" });
const rows = make("tbody");
const heads = make("tr");
const table = make("table", { class: "shelf", id: "shelf", "aria-label": own.documents }, make("thead", {}, heads), rows);
const none = make("div", { class: "none", id: "no-documents" });
const range = make("span", { class: "hint", id: "shelf-range", role: "status" });
const before = button(own.previous, () => turnTo(-1), { class: "small quiet", id: "page-before" });
const after = button(own.next, () => turnTo(1), { class: "small quiet", id: "page-after" });
facets.append(groups);

/** The part of the page that lists the documents. */
export const section = make(
  "section",
  { class: "documents-box", "aria-label": own.documents, hidden: true },
  facets,
  make(
    "div",
    { class: "shelf-main" },
    tools,
    chosen,
    bulk.bar,
    make("div", { class: "shelf-frame" }, table),
    none,
    make("div", { class: "pager" }, range, before, after),
  ),
);

let turn = 0;
let page = null;

/** Return what the route asks for. */
function wanted() {
  const { find = "", status = "", sort = "", folder = "", page: at = "1", filter = "" } = route();
  let filters = {};
  try {
    const read = JSON.parse(filter || "{}");
    if (read && typeof read === "object" && !Array.isArray(read)) filters = read;
  } catch {
    // An edited address; without filters it still works.
  }
  return { find, status, sort: sort || NEWEST, folder, at: Math.max(1, Number.parseInt(at, 10) || 1), filters };
}

/** Return the filters as arguments of the API. */
function argumentsOf(filters) {
  const found = {};
  const conditions = {};
  for (const [key, values] of Object.entries(filters)) {
    if (!Array.isArray(values) || !values.length) continue;
    if (key === "tags") found.tags = JSON.stringify(values);
    else if (key === "kind") found.kinds = JSON.stringify(values);
    else if (key === "language") found.language = String(values[0]);
    else if (key === "version") found.version = String(values[0]);
    else conditions[key.replace(/^metadata\./, "")] = { any_of: values };
  }
  if (Object.keys(conditions).length) found.metadata = JSON.stringify(conditions);
  return found;
}

/** Load the documents and facets that the route asks for. */
export async function load() {
  const mine = (turn += 1);
  section.hidden = !state.world || !may("read");
  if (section.hidden) return;
  const asked = wanted();
  if (document.activeElement !== box) box.value = asked.find;
  order.value = [...order.options].some((one) => one.value === asked.sort) ? asked.sort : "";
  const filters = { ...argumentsOf(asked.filters), ...(asked.folder ? { source: `${asked.folder}*` } : {}) };
  const query = new URLSearchParams({ ...filters, offset: (asked.at - 1) * PAGE, limit: PAGE });
  if (asked.find.trim()) query.set("search", asked.find.trim());
  if (asked.status) query.set("status", asked.status);
  query.set("sort", asked.sort.replace(/^-/, ""));
  if (asked.sort.startsWith("-")) query.set("descending", "true");
  table.setAttribute("aria-busy", "true");
  const [found, counted] = await Promise.all([
    get(`${worldPath()}/documents?${query}`),
    get(`${worldPath()}/facets?${new URLSearchParams({ ...filters, limit: 50 })}`),
  ]);
  if (mine !== turn) return;
  table.removeAttribute("aria-busy");
  if (!found.documents.length && found.total && asked.at > 1) {
    change({ page: null }, { replace: true });
    return;
  }
  page = found;
  render(asked, counted);
}

function change(changes, { replace = false } = {}) {
  go(changes, { replace });
  load().catch(complain);
}

function turnTo(step) {
  change({ page: wanted().at + step > 1 ? wanted().at + step : null });
  table.closest(".view").scrollTop = 0;
}

function render(asked, counted) {
  columns = COLUMNS.filter((one) => tells(one, asked));
  renderHeads(asked);
  const filtered = Boolean(asked.find.trim() || asked.status || asked.folder || Object.keys(argumentsOf(asked.filters)).length);
  fill(rows, page.documents.map(row));
  bulk.headBox();
  table.hidden = !page.documents.length;
  tools.hidden = !page.documents.length && !filtered;
  none.hidden = page.documents.length > 0;
  fill(none, make("p", {}, filtered ? own.nothingFound : own.noDocuments), filtered && button(own.clearFilters, () => ((box.value = ""), change({ find: null, status: null, folder: null, filter: null, page: null })), { class: "small quiet" }));
  const first = page.offset + 1;
  range.textContent = page.documents.length ? own.range({ first, last: page.offset + page.documents.length, count: page.total }) : "";
  before.hidden = after.hidden = page.total <= PAGE;
  before.disabled = page.offset === 0;
  after.disabled = page.offset + page.documents.length >= page.total;
  renderFacets(asked, counted);
  renderChosen(asked);
}

/** The columns that are shown. */
let columns = COLUMNS;

/** Return whether a column tells documents apart; one that has the same value everywhere does not. */
function tells(column, asked) {
  const { value, usual } = column;
  if (!value || asked.sort.replace(/^-/, "") === column.key) return true;
  const values = new Set(page.documents.map(value));
  // A document alone is equal to nothing; what is usual is hidden even then.
  return values.size > 1 || (usual === undefined ? page.documents.length === 1 : !values.has(usual));
}

function renderHeads(asked) {
  const key = asked.sort.replace(/^-/, "");
  const down = asked.sort.startsWith("-");
  fill(
    heads,
    bulk.selectHead(page.documents),
    columns.map((one) => {
      if (!one.key) return make("th", { scope: "col" }, one.words);
      const active = one.key === key;
      const next = active ? (down === Boolean(one.number) ? `${down ? "" : "-"}${one.key}` : null) : `${one.number ? "-" : ""}${one.key}`;
      return make(
        "th",
        { scope: "col", class: one.number ? "number" : null, "aria-sort": active ? (down ? "descending" : "ascending") : null },
        button([one.words, active && make("span", { class: "arrow", "aria-hidden": "true" }, down ? " ↓" : " ↑")], () => change({ sort: next, page: null }), { class: "head" }),
      );
    }),
    make("th", { scope: "col" }, make("span", { class: "sr" }, own.columns.actions)),
  );
}

const CELLS = {
  status: (one, cell) => cell(badge(one)),
  size: (one, cell) => cell(whole(one.characters)),
  chunks: (one, cell) => cell(whole(one.chunks)),
  language: (one, cell) => cell(languageName(one.language, language)),
  version: (one, cell) => cell(one.version),
  labels: (one, cell) => cell(make("span", { class: "chips" }, chips(one, MAX_CHIPS))),
};

const PEN = "M4 20l1-4.2L16.4 4.4a1.8 1.8 0 0 1 2.6 0l.6.6a1.8 1.8 0 0 1 0 2.6L8.2 19zM14.5 6.5l3 3";
const BIN = "M5 7h14M10 7V4.8h4V7M7 7l.8 12.2h8.4L17 7M10.3 10.5v5.5M13.7 10.5v5.5";

function icon(line, words, does) {
  return make("button", { type: "button", class: "icon", "aria-label": words, title: words, onclick: does }, draw("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, draw("path", { d: line })));
}

/** Return the status of a document as a badge. */
export function badge(one) {
  return make("span", { class: "badge", "data-status": one.status, title: own.statusHints[one.status] }, own.statuses[one.status] || one.status);
}

/** Return who sees a document, unless that is everyone. */
const audienceOf = (one) => (one.audience.includes("everyone") ? [] : one.audience.length ? one.audience : [own.ownerAlone]);

/** Return audience, tags and metadata as chips. */
export function chips(one, most = Infinity) {
  const all = [
    ...audienceOf(one).map((label) => make("span", { class: "chip audience", title: own.audience }, label)),
    ...one.tags.map((tag) => make("span", { class: "chip" }, tag)),
    ...Object.entries(one.metadata).map(([key, value]) => make("span", { class: "chip fact" }, make("b", {}, key), " ", shortened(value))),
  ];
  return [...all.slice(0, most), all.length > most && make("span", { class: "hint" }, own.moreLabels({ count: all.length - most }))];
}

function shortened(value) {
  const words = typeof value === "string" ? value : JSON.stringify(value);
  const letters = Array.from(words);
  return letters.length > 40 ? `${letters.slice(0, 40).join("")}…` : words;
}

function row(one) {
  const title = one.title || one.name;
  const cells = columns.filter((column) => CELLS[column.name]).map((column) =>
    CELLS[column.name](one, (content) => make("td", { "data-label": column.words, class: column.number ? "number" : column.name }, content)));
  return make(
    "tr",
    { "data-number": one.number },
    bulk.selectCell(one),
    make(
      "th",
      { scope: "row" },
      make("span", { class: `kind kind-${one.kind}`, title: own.kinds[one.kind], "aria-hidden": "true" }),
      make("span", { class: "document-name" }, make("a", { href: hash({ view: "library", item: one.number }), onclick: follow }, title), one.path !== title && make("small", {}, one.path)),
    ),
    cells,
    make("td", { class: "acts" }, may("write") && [icon(PEN, own.editOf({ title }), () => changeLabels(one)), icon(BIN, own.deleteOf({ title }), () => remove(one))]),
  );
}

/** Follow a link within the view without loading anything else. */
function follow(event) {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  go({ item: event.currentTarget.closest("tr").dataset.number }, { apply: true });
}

/** Return the filters with a value added or removed. */
function toggled(filters, key, value) {
  const values = filters[key] || [];
  const has = values.some((one) => one === value);
  // A document has one language and one version: another choice replaces the first.
  const single = key === "language" || key === "version";
  const next = has ? values.filter((one) => one !== value) : single ? [value] : [...values, value];
  const changed = { ...filters, [key]: next };
  if (!next.length) delete changed[key];
  return Object.keys(changed).length ? JSON.stringify(changed) : null;
}

function nameOf(key, value) {
  if (key === "kind") return own.kinds[value] || value;
  return key === "language" ? languageName(value, language) : shortened(value);
}

function renderFacets(asked, counted) {
  const counts = !asked.find.trim() && !asked.status && !asked.folder;
  const open = new Set([...groups.querySelectorAll("[data-more]")].map((one) => one.dataset.more));
  const statuses = Object.entries(page.statuses);
  const group = (title, ...children) => make("fieldset", { class: "facet" }, make("legend", {}, title), children);
  const option = (words, count, checked, does) => make("label", { class: "check" }, make("input", { type: "checkbox", checked, onchange: does }), make("span", { class: "facet-value" }, words), count !== null && make("span", { class: "facet-count" }, whole(count)));
  fill(
    groups,
    folderTree(asked.folder, (folder) => change({ folder, page: null })),
    (statuses.length > 1 || asked.status) && group(own.columns.status, [...new Set([...statuses.map(([name]) => name), ...(asked.status ? [asked.status] : [])])].map((name) => option(own.statuses[name] || name, page.statuses[name] || 0, asked.status === name, () => change({ status: asked.status === name ? null : name, page: null })))),
    counted.facets.map((facet) => {
      const key = facet.metadata && LABEL_FACETS.has(facet.key) ? `metadata.${facet.key}` : facet.key;
      const picked = asked.filters[key] || [];
      // One value that all documents have would choose nothing.
      if (!facet.values.length || (facet.values.length === 1 && !picked.length && facet.values[0].documents === counted.documents)) return null;
      const known = facet.values.map((one) => one.value);
      const values = [...picked.filter((one) => !known.includes(one)).map((value) => ({ value, documents: 0 })), ...facet.values];
      const all = open.has(key);
      const listed = all ? values : values.filter((one, at) => at < MAX_VALUES || picked.includes(one.value));
      const words = (value) => nameOf(key, value);
      const more = values.length - listed.length;
      return group(
        facet.metadata ? facet.key : own.facetNames[facet.key],
        listed.map((one) => option(words(one.value), counts ? one.documents : null, picked.includes(one.value), () => change({ filter: toggled(asked.filters, key, one.value), page: null }))),
        all && make("span", { "data-more": key, hidden: true }),
        more > 0 && button(own.moreValues({ count: more }), () => (groups.append(make("span", { "data-more": key, hidden: true })), renderFacets(asked, counted)), { class: "link" }),
        facet.more > 0 && !more && make("span", { class: "hint" }, own.rareValues({ count: facet.more })),
      );
    }),
  );
  facets.hidden = !groups.childElementCount;
}

function renderChosen(asked) {
  const drop = (words, changes) => button([words, make("span", { "aria-hidden": "true" }, " ×")], () => change({ ...changes, page: null }), { class: "small quiet", "aria-label": own.dropFilter({ name: words }) });
  fill(
    chosen,
    asked.folder && drop(asked.folder, { folder: null }),
    asked.status && drop(own.statuses[asked.status] || asked.status, { status: null }),
    Object.entries(asked.filters).flatMap(([key, values]) => (Array.isArray(values) ? values : []).map((value) => drop(`${own.facetNames[key] || key}: ${nameOf(key, value)}`, { filter: toggled(asked.filters, key, value) }))),
  );
  chosen.hidden = !chosen.childElementCount;
}

let typing = 0;
box.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => change({ find: box.value.trim() || null, page: null }, { replace: true }), 250);
});
order.addEventListener("change", () => change({ sort: order.value || null, page: null }));
on("world", () => {
  turn += 1;
  page = null;
  section.hidden = true;
});
if (matchMedia("(max-width: 1020px)").matches) facets.open = false;
