// The route: what is shown, as parameters in the hash of the URL, so that it can be shared and the
// back button works. Parameters: view, pane, world, document, reader, q, conversation, top_k, mode,
// filters, and for comparing left and right. What has its default value is left out.

import { emit } from "./state.js";

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
