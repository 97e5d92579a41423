// The library view: uploads, jobs and documents of the world, or one document.

import { byId, complain, fill, make } from "../common/dom.js";
import { go, may, on, route, state } from "../common/state.js";
import { texts } from "../common/texts.js";
import * as detail from "./detail.js";
import * as documents from "./documents.js";
import { area } from "./intake.js";
import * as jobs from "./jobs.js";

const own = texts.library;
const hint = make("p", { class: "empty", id: "library-hint" });
const list = make("div", { class: "library-list" }, area, jobs.box, hint, documents.section);
fill(byId("library-body"), list, detail.section);

function words() {
  if (!state.world) return own.noWorld;
  if (!may("read")) return may("write") ? own.onlyWrite : own.onlyFollow;
  return "";
}

/** Show the view; called each time it is entered. */
export function show() {
  if (!state.me) return;
  const { item } = route();
  hint.textContent = words();
  hint.hidden = !hint.textContent;
  const single = Boolean(item && state.world && may("read"));
  list.hidden = single;
  area.hidden = !state.world || !may("write");
  if (single) {
    detail.load(item).catch(complain);
    return;
  }
  detail.leave();
  if (!state.world) {
    documents.section.hidden = jobs.box.hidden = true;
    return;
  }
  jobs.load().catch(complain);
  documents.load().catch(complain);
}

// The link to this view leads from one document back to all of them.
byId("views").addEventListener("click", (event) => {
  if (event.target.closest("a")?.dataset.to === "library" && route().item) go({ item: null });
});
const shown = () => document.body.dataset.view === "library";
on("route", () => shown() && show());
on("world", () => shown() && show());
on("ingested", () => shown() && !route().item && documents.load().catch(complain));
