// The page: the caller, the views and tabs, and the order in which data is loaded.

import { get, keepToken, token } from "./common/api.js";
import * as asking from "./ask/asking.js";
import { byId, fill, make } from "./common/dom.js";
import "./library/intake.js";
import * as library from "./library/library.js";
import { clear, complain } from "./common/notices.js";
import * as pane from "./reading/pane.js";
import * as position from "./reading/position.js";
import "./reading/selecting.js";
import { asReader, emit, namedChapters, on, state } from "./common/state.js";
import { welcome } from "./start/welcome.js";

const TABS = ["context", "answer", "why"];
/** Resolves when the document that was opened last is shown. */
let opening = Promise.resolve();

function showTab(name, focus = false) {
  for (const one of TABS) {
    const chosen = one === name;
    byId(`tab-${one}`).setAttribute("aria-selected", String(chosen));
    byId(`tab-${one}`).tabIndex = chosen ? 0 : -1;
    byId(`panel-${one}`).hidden = !chosen;
    if (chosen && focus) byId(`tab-${one}`).focus();
  }
}

function showView(name) {
  document.body.dataset.view = name;
  for (const one of byId("views").children) {
    if (one.dataset.to === name) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
  if (name === "reading") pane.arrive();
}

function showCaller() {
  const me = state.me;
  const owner = me.token === null;
  const bound = me.readers !== "unlimited";
  const words = owner ? "Owner" : bound ? `Token for ${me.readers.join(", ") || "no reader"}` : `Token ${me.token.slice(0, 6)}…`;
  byId("caller").textContent = words;
  byId("me").textContent = `You are signed in as: ${words}. Allowed: ${me.verbs.join(", ") || "nothing"}.`;
  byId("mode-owner").disabled = !me.verbs.includes("read");
  byId("mode-reader").disabled = !me.verbs.includes("follow");
  if (!me.verbs.includes("read") && me.verbs.includes("follow")) state.mode = "reader";
  else if (!me.verbs.includes("follow")) state.mode = "owner";
  if (bound) {
    fill(byId("reader-names"), me.readers.map((name) => make("option", { value: name })));
    if (!me.readers.includes(state.reader)) state.reader = me.readers[0] || "me";
    byId("reader").readOnly = me.readers.length < 2;
  } else byId("reader").readOnly = false;
  showMode();
}

function showMode() {
  byId(asReader() ? "mode-reader" : "mode-owner").checked = true;
  byId("reader-box").hidden = !asReader();
  byId("reader").value = state.reader;
  document.body.dataset.mode = state.mode;
  const box = byId("question");
  box.placeholder = asReader() ? "Ask about what you have read so far" : "Ask a question about the documents";
}

async function start() {
  try {
    state.me = await get("/v1/me");
    showCaller();
    await library.loadWorlds();
    clear();
    await opening;
  } catch (problem) {
    byId("caller").textContent = "";
    complain(problem, start);
  }
  document.body.dataset.ready = "true";
}

function listChapters() {
  const list = byId("chapter");
  const chosen = list.value;
  fill(list, make("option", { value: "" }, "Any"), namedChapters().map((one) => make("option", { value: one.chapter }, one.chapter)));
  if ([...list.options].some((one) => one.value === chosen)) list.value = chosen;
}

async function opened() {
  listChapters();
  try {
    await position.locate();
    listChapters();
    await pane.open();
  } catch (problem) {
    complain(problem, opened);
  }
  if (!byId("result").classList.contains("asked")) welcome();
  else if (asReader()) asking.ask({ quietly: true });
}

async function modeChanged() {
  state.mode = byId("mode-reader").checked ? "reader" : "owner";
  state.reader = byId("reader").value.trim() || "me";
  // Otherwise a number entered now would be sent for the reader before.
  position.leave();
  showMode();
  const again = byId("question").value.trim();
  asking.forget();
  try {
    await library.loadDocuments();
    await opening;
    if (again) await asking.ask({ quietly: true });
  } catch (problem) {
    complain(problem);
  }
}

async function showPassage({ document: number, first, last }) {
  showView("reading");
  try {
    if (!state.document || state.document.number !== number) {
      const wanted = state.documents.find((one) => one.number === number);
      if (!wanted) return;
      await library.openDocument(wanted);
      await opening;
    }
    await pane.show(first, last);
  } catch (problem) {
    complain(problem);
  }
}

function theme(chosen) {
  if (chosen) document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
  try {
    localStorage.setItem("truespan.theme", chosen);
  } catch {
    // Without storage, the system setting applies after a reload.
  }
}

function openSettings() {
  byId("token").value = token();
  byId("theme").value = document.documentElement.dataset.theme || "";
  byId("settings").showModal();
}

function saveSettings(event) {
  event.preventDefault();
  theme(byId("theme").value);
  byId("settings").close();
  const typed = byId("token").value.trim();
  if (typed === token()) return;
  keepToken(typed);
  byId("token").value = "";
  asking.forget();
  start();
}

byId("tablist").addEventListener("click", (event) => {
  const tab = event.target.closest("[role=tab]");
  if (tab) showTab(tab.id.slice(4));
});
byId("tablist").addEventListener("keydown", (event) => {
  const at = TABS.findIndex((one) => byId(`tab-${one}`).getAttribute("aria-selected") === "true");
  const next = { ArrowRight: at + 1, ArrowLeft: at + TABS.length - 1, Home: 0, End: TABS.length - 1 }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  showTab(TABS[next % TABS.length], true);
});
byId("views").addEventListener("click", (event) => {
  const chosen = event.target.closest("button");
  if (chosen) showView(chosen.dataset.to);
});
for (const id of ["mode-owner", "mode-reader", "reader"]) byId(id).addEventListener("change", modeChanged);
byId("open-settings").addEventListener("click", openSettings);
byId("open-keys").addEventListener("click", () => byId("keys").showModal());
byId("settings-form").addEventListener("submit", saveSettings);
for (const one of document.querySelectorAll("[data-close]")) one.addEventListener("click", () => one.closest("dialog").close());
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, dialog");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    event.preventDefault();
    showView("ask");
    byId("question").focus();
  } else if (event.key === "?") byId("keys").showModal();
});
on("tab", (name) => showTab(name));
on("view", showView);
on("settings", openSettings);
on("moved", listChapters);
on("opened", () => {
  opening = opened();
});
on("picked", () => showView("reading"));
on("show", showPassage);
on("read-to", position.move);
on("world", () => {
  asking.forget();
  emit("rights");
});

try {
  theme(localStorage.getItem("truespan.theme") || "");
} catch {
  // Without storage, the system setting applies.
}
start();

