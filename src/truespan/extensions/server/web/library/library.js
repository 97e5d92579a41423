// The library: the list of worlds and documents, and the open ones.

import { get, path, write } from "../common/api.js";
import { audienceFields } from "../common/audience.js";
import { byId, complain, fill, make, say } from "../common/dom.js";
import { forgetImages } from "../reading/blocks.js";
import { emit, go, may, on, readerPath, route, state, worldPath } from "../common/state.js";
import { texts } from "../common/texts.js";

const own = texts.library;
/** Maximum number of listed documents; beyond it, a field finds them. */
const MAX_LISTED = 100;

/** Load the worlds and choose one. */
export async function loadWorlds(wanted = route().world) {
  state.worlds = (await get("/v1/worlds")).worlds;
  const list = byId("world");
  fill(list, state.worlds.map((one) => make("option", { value: one.id }, one.name)));
  list.disabled = !state.worlds.length;
  if (!state.worlds.length) fill(list, make("option", {}, texts.common.noWorlds));
  const find = (id) => state.worlds.find((one) => one.id === id);
  const chosen = find(wanted) || find(state.me.default_world) || state.worlds[0] || null;
  byId("new-world").hidden = !(state.me && state.me.verbs.includes("administer") && state.me.worlds === "unlimited");
  await choose(chosen, chosen?.id === route().world ? route().document : null);
}

/** Choose a world, and open the wanted document or the first. */
export async function choose(world, wanted = null) {
  state.world = world;
  if (world) byId("world").value = world.id;
  state.document = null;
  forgetImages();
  emit("world");
  await loadDocuments(wanted);
}

function fromBook(book) {
  return { number: book.document, title: book.title, name: book.source, path: book.path, kind: "book", sid: book.sid };
}

async function listed() {
  if (!state.world) return [];
  if (may("read")) return (await get(`${worldPath()}/documents`)).documents;
  return (await get(`${readerPath()}/books`)).books.map(fromBook);
}

/** The latest list and the latest document that were asked for: replies to earlier requests are dropped. */
let lists = 0;
let opens = 0;

/** Load the documents of the world; the open one stays open. */
export async function loadDocuments(wanted = state.document && state.document.number) {
  const own = ++lists;
  // A document that is still loading for the previous reader or world must not be shown.
  opens += 1;
  const documents = await listed();
  if (own !== lists) return;
  state.documents = documents;
  const open = state.documents.find((one) => String(one.number) === String(wanted));
  await openDocument(open || state.documents[0] || null);
}

async function learn() {
  state.documents = await listed();
}

/** Load the documents after an upload; reopen the open one only if it has changed. */
async function learnAdded() {
  const before = JSON.stringify(state.document);
  await learn();
  const open = state.documents.find((one) => JSON.stringify(one) === before);
  if (!open) return loadDocuments();
  state.document = open;
  return renderDocuments();
}

function stateOf(one) {
  if (one.sid !== undefined) return one.sid < 0 ? own.nothingRead : own.readUpTo({ sid: one.sid });
  if (!one.visible) return own.beingIngested;
  const waiting = one.chunks - one.embedded - one.quarantined;
  const size = texts.counts.sentences({ count: one.sentences });
  return waiting > 0 ? `${size}, ${own.notEmbedded({ count: waiting })}` : size;
}

function entry(one, twins) {
  // The path tells documents of the same title apart.
  const place = twins.get(one.title || one.name) > 1 ? `${one.path}, ` : "";
  const open = state.document && one.number === state.document.number;
  return make(
    "li",
    {},
    make(
      "button",
      { type: "button", class: "document", "aria-current": open ? "true" : null, "data-number": one.number, title: one.path, onclick: () => emit("pick", one) },
      make("span", { class: `kind kind-${one.kind}`, title: one.kind, "aria-hidden": "true" }),
      make("span", { class: "document-name" }, one.title || one.name, make("small", {}, place, one.kind === "book" ? `${own.book}, ` : "", stateOf(one))),
    ),
  );
}

function renderDocuments() {
  const { documents } = state;
  const twins = new Map();
  for (const one of documents) twins.set(one.title || one.name, (twins.get(one.title || one.name) || 0) + 1);
  const find = byId("find-document");
  find.hidden = documents.length <= 12;
  const wanted = find.hidden ? [] : find.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = documents.filter((one) => wanted.every((word) => `${one.title} ${one.path}`.toLowerCase().includes(word)));
  const listed = found.slice(0, MAX_LISTED);
  // The open one is always listed.
  if (state.document && !wanted.length && !listed.some((one) => one.number === state.document.number)) listed.unshift(state.document);
  const none = state.world ? (documents.length ? own.nothingFound : own.noDocumentsYet) : own.noWorldsYet;
  fill(byId("documents"), listed.length ? listed.map((one) => entry(one, twins)) : make("li", { class: "empty" }, none));
  byId("documents-rest").hidden = found.length <= MAX_LISTED;
  byId("documents-rest").textContent = own.moreInList({ count: found.length - MAX_LISTED });
  byId("manage").hidden = !state.world || !(may("write") || may("read"));
}

/** Open a document, with its outline if the caller may read all of it. */
export async function openDocument(one) {
  const own = ++opens;
  state.document = one;
  state.outline = [];
  state.lastSid = -1;
  if (one && may("read")) {
    const found = await get(worldPath() + path`/documents/${one.number}`);
    if (own !== opens) return;
    state.outline = found.outline;
    state.lastSid = found.last_sid;
  }
  renderDocuments();
  // Choosing was the step; this completes its address.
  go({ world: state.world?.id, document: one?.number }, { replace: true });
  emit("opened");
}

/** The fields for who sees the documents of the world to create. */
let audience = null;

function offerWorld() {
  audience = audienceFields("world-audience", texts.start.audience);
  fill(byId("world-audience-box"), audience.element);
  byId("world-dialog").showModal();
}

async function makeWorld(event) {
  event.preventDefault();
  const name = byId("world-name").value.trim();
  try {
    const made = await write("POST", "/v1/worlds", { name, model: byId("world-model").value || null, ...audience.changes() });
    byId("world-name").value = "";
    byId("world-dialog").close();
    await loadWorlds(made.id);
    say(texts.start.worldCreated({ name: made.name }));
  } catch (problem) {
    complain(problem);
  }
}

byId("world-form").addEventListener("submit", makeWorld);
byId("new-world").addEventListener("click", offerWorld);
byId("world").addEventListener("change", (event) => {
  const world = state.worlds.find((one) => one.id === event.target.value);
  go({ world: world.id, document: null, conversation: null, q: null, item: null, find: null, status: null, folder: null, filter: null, page: null });
  choose(world).catch(complain);
});
byId("find-document").addEventListener("input", renderDocuments);
byId("manage").addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  go({ view: "library", item: null }, { apply: true });
});
on("ingested", () => learnAdded().catch(complain));
