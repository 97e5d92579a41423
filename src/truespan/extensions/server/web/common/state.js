// The state of the page, events when it changes, and the route: what is shown, as parameters in the
// hash of the URL, so that it can be shared and the back button works. Parameters: view, pane, world,
// document, look, reader, q, conversation, top_k, mode, filters, and for comparing left and right. What has
// its default value is left out.

import { path } from "./api.js";

/** The shared state. All modules read it; each member is written by one module. */
export const state = {
  me: null,
  /** The chat model that writes answers, and whether the caller may connect one. */
  chat: null,
  worlds: [],
  world: null,
  documents: [],
  document: null,
  outline: [],
  lastSid: -1,
  mode: "owner",
  reader: "me",
  /** The last sentence read, as the page shows it; null without a position in the document. */
  position: null,
  /** The position that the server has recorded; another one than `position` is a preview. */
  saved: null,
  selection: "",
};

const bus = new EventTarget();

/** Call a function on each event. */
export function on(what, does) {
  bus.addEventListener(what, (event) => does(event.detail));
}

/** Send an event. */
export function emit(what, detail) {
  bus.dispatchEvent(new CustomEvent(what, { detail }));
}

/** Return whether the caller has a permission in the chosen world. */
export function may(verb, world = state.world) {
  const me = state.me;
  if (!me || !me.verbs.includes(verb)) return false;
  return me.worlds === "unlimited" || (world !== null && me.worlds.includes(world.id));
}

/** Return whether the page asks as a reader. */
export const asReader = () => state.mode === "reader";

/** Return the path of the chosen world. */
export const worldPath = () => path`/v1/worlds/${state.world.id}`;

/** Return the path of the reader in the chosen world. */
export const readerPath = () => worldPath() + path`/readers/${state.reader}`;

/** Return whether the position on the page is only a preview. */
export const isPreview = () => asReader() && state.position !== state.saved && may("read");

/** Return the query of a reader's request: the position, if it is not recorded, and other values. */
export function previewQuery(others = {}) {
  const values = new URLSearchParams({ ...(isPreview() ? { sid: state.position } : {}), ...others });
  return values.size ? `?${values}` : "";
}

/** Return the reader whose permission is used for text and images; null for the caller's own. */
export const boundReader = () => (asReader() && !may("read") ? state.reader : null);

/** Return the chapter or section of a sentence, as far as the outline is known. */
export function placeOf(sid) {
  let found = null;
  for (const entry of state.outline) {
    if (entry.first_sid > sid) break;
    found = entry;
  }
  return found;
}

const WITHIN = " › ";

/** Return the name of an entry of the outline: a section with its chapter. */
export const entryName = (entry) => [entry.chapter, entry.section].filter(Boolean).join(WITHIN);

/** Return the entry of the outline that a reader's reply names, without its place. */
export function namedEntry(name) {
  const [chapter, ...section] = name.split(WITHIN);
  return { chapter, section: section.join(WITHIN) || null, first_sid: 0 };
}

/** Return each chapter and section with its name and first sentence. */
export function places() {
  const named = state.outline.filter((entry) => entry.chapter);
  return named.map((entry) => ({ name: entryName(entry), chapter: entry.chapter, first: entry.first_sid }));
}

/** Return the chapters and sections that may be named: for a reader those that were reached. */
export function namedPlaces() {
  if (!asReader()) return places();
  const read = state.position === null ? -1 : state.position;
  return places().filter((one) => one.first <= read);
}

/** Return the parameters of the URL's hash. */
export function route() {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

/** Return the hash with some parameters changed; null, undefined and "" remove one. */
export function hash(changes) {
  const merged = Object.entries({ ...route(), ...changes });
  const kept = merged.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return `#${new URLSearchParams(kept)}`;
}

/**
 * Change parameters and add an entry to the history, or replace the present entry.
 * The caller has changed the page already; with `apply`, the page follows the new
 * parameters as it does on back and forward.
 */
export function go(changes, { replace = false, apply = false } = {}) {
  const next = hash(changes);
  if (next !== (location.hash || "#")) {
    if (replace) history.replaceState(null, "", next);
    else history.pushState(null, "", next);
  }
  emit("address", route());
  if (apply) emit("route", route());
}

// Covers back, forward, and an address that the user edits.
addEventListener("popstate", () => {
  emit("address", route());
  emit("route", route());
});
