// One document: what is known of it, and its chunks over the text.

import { get, path } from "../common/api.js";
import { button, complain, fill, make } from "../common/dom.js";
import { asReader, emit, go, hash, may, on, state, worldPath } from "../common/state.js";
import { language, languageName, texts } from "../common/texts.js";
import { when, whole } from "../common/words.js";
import { changeLabels, readAgain, remove, replaceFile } from "./changes.js";
import { Chunks } from "./chunks.js";
import { badge, chips } from "./documents.js";

const own = texts.library;

/** The part of the page that shows one document. */
export const section = make("section", { class: "detail", id: "document-detail", hidden: true, "aria-labelledby": "detail-title" });

let turn = 0;
let shown = null;

function back() {
  const leave = (event) => {
    event.preventDefault();
    go({ item: null }, { apply: true });
  };
  return make("a", { class: "back", id: "back-to-list", href: hash({ item: null }), onclick: leave }, own.allDocuments);
}

/** Show a document; one that is gone leads back to the list. */
export async function load(number) {
  const mine = (turn += 1);
  section.hidden = false;
  if (shown !== number) fill(section, back(), make("p", { class: "waiting" }, own.loading));
  shown = number;
  let found;
  try {
    found = await get(worldPath() + path`/documents/${number}`);
  } catch (problem) {
    if (mine !== turn) return;
    if (problem.status !== 404) throw problem;
    fill(section, back(), make("p", { class: "empty" }, own.documentGone));
    return;
  }
  if (mine !== turn) return;
  const one = found.document;
  const passages = new Chunks(one.number);
  const revision = make("dl", { class: "facts", id: "revision-facts" });
  fill(
    section,
    back(),
    make("header", { class: "detail-head" }, make("h3", { id: "detail-title" }, one.title || one.name), make("p", { class: "row wrap" }, badge(one), make("span", { class: "hint" }, own.statusHints[one.status]))),
    tools(one),
    make("div", { class: "detail-facts" }, labels(one), make("div", { class: "fact-box" }, make("h4", {}, own.revisionTitle), revision), derived(found)),
  );
  if (!one.visible) {
    section.append(make("p", { class: "empty" }, own.notVisible));
    return;
  }
  if (asReader()) {
    const reveal = button(own.showText, () => (spoiler.remove(), section.append(passages.shown), draw()), { class: "small", id: "show-chunks" });
    const spoiler = make("div", { class: "none" }, make("p", {}, own.mayBeUnread), reveal);
    section.append(spoiler);
  } else section.append(passages.shown);
  const draw = async () => {
    try {
      const page = await passages.begin();
      if (mine === turn) describe(revision, page);
    } catch (problem) {
      complain(problem);
    }
  };
  if (!asReader()) await draw();
}

function tools(one) {
  const read = () => {
    go({ view: null, item: null, pane: "reading" });
    emit("show", { document: one.number, first: 0, last: 0 });
  };
  return make(
    "div",
    { class: "row wrap detail-tools" },
    one.visible && button(own.read, read, { class: "small", id: "read-document" }),
    may("write") && button(own.edit, () => changeLabels(one), { class: "small quiet", id: "edit-document" }),
    may("write") && (one.uploaded ? button(own.replace, () => replaceFile(one), { class: "small quiet" }) : !one.manifest && may("administer") && button(own.readAgain, () => readAgain(one), { class: "small quiet", id: "read-again" })),
    may("write") && button(own.delete, () => remove(one), { class: "small quiet danger", id: "delete-document" }),
  );
}

const fact = (name, value) => value !== null && value !== undefined && value !== "" && [make("dt", {}, name), make("dd", {}, value)];

function labels(one) {
  const marks = chips(one);
  return make(
    "div",
    { class: "fact-box" },
    make("h4", {}, own.labelsTitle),
    make(
      "dl",
      { class: "facts" },
      fact(own.facts.path, one.path),
      fact(own.facts.origin, one.uploaded ? own.fromUpload : one.manifest ? own.fromManifest : own.fromFile),
      fact(own.kind, own.kinds[one.kind] || one.kind),
      fact(own.language, one.language && languageName(one.language, language)),
      fact(own.version, one.version),
      fact(own.sourceUrl, one.source_url),
      fact(own.columns.labels, one.tags.length || Object.keys(one.metadata).length ? make("span", { class: "chips" }, marks) : own.noLabels),
    ),
  );
}

function describe(node, page) {
  const code = (value) => make("code", {}, value);
  fill(
    node,
    fact(own.facts.revision, page.revision),
    fact(own.facts.ingested, when(page.created_at)),
    fact(own.facts.generation, page.generation),
    fact(own.facts.chunking, page.chunking),
    fact(own.columns.chunks, whole(page.total)),
    fact(own.facts.characters, whole(page.characters)),
    fact(own.facts.docId, code(page.doc_id)),
    fact(own.facts.sourceHash, code(page.source_hash)),
    fact(own.facts.textHash, code(page.text_hash)),
    fact(own.facts.recipe, code(page.recipe)),
  );
}

/** Return what was derived from the text; for a reader, titles of later chapters would be among it. */
function derived(found) {
  const facts = asReader() ? [] : Object.entries(found.metadata).filter(([key, value]) => key !== "outline" && value !== null && value !== "" && !(Array.isArray(value) && !value.length));
  if (!facts.length && !found.audit.length) return null;
  const words = (value) => (Array.isArray(value) ? value.map((each) => (typeof each === "string" ? each : JSON.stringify(each))).join(", ") : typeof value === "object" ? JSON.stringify(value) : String(value));
  return make(
    "details",
    { class: "fact-box", open: true },
    make("summary", {}, own.derivedTitle),
    make("dl", { class: "facts" }, facts.map(([key, value]) => fact(key, words(value))), found.audit.map((entry) => fact(entry.label, (entry.redacted ? own.auditRedacted : own.auditFound)({ count: entry.count })))),
  );
}

/** Leave the document. */
export function leave() {
  turn += 1;
  shown = null;
  section.hidden = true;
  fill(section);
}

on("changed", (number) => String(number) === String(shown) && load(shown).catch(complain));
on("removed", (number) => String(number) === String(shown) && go({ item: null }, { replace: true, apply: true }));
on("read-again", () => shown !== null && go({ item: null }, { apply: true }));
on("world", () => state.world && leave());
