// The page: the caller, the views and tabs, and the order in which data is loaded.

import { byId, clearNotice, complain, fill, make, say } from "./common/dom.js";
import { get, keepToken, token, viewAs, viewedAs, write } from "./common/api.js";
import { audienceFields } from "./common/audience.js";
import * as asking from "./ask/asking.js";
import * as compareView from "./compare/view.js";
import "./ask/history.js";
import * as evaluateView from "./evaluate/view.js";
import "./library/intake.js";
import * as library from "./library/library.js";
import * as libraryView from "./library/view.js";
import "./proof/receipt.js";
import * as paneOfText from "./reading/pane.js";
import * as position from "./reading/position.js";
import "./reading/notes.js";
import "./reading/picture.js";
import "./reading/selecting.js";
import { asReader, emit, go, hash, may, namedPlaces, on, route, state, worldPath } from "./common/state.js";
import { remember, remembered } from "./common/storage.js";
import { learnModel } from "./start/model.js";
import { prepareSignIn } from "./start/provider.js";
import { leaveSignIn, onSignIn, showEmptiness, welcome } from "./start/welcome.js";
import { chosenLanguage, keepLanguage, languageName, LANGUAGES, texts } from "./common/texts.js";

/** The views other than the one for asking, which is always up to date. Those for tuning are parts of one. */
const VIEWS = { library: libraryView, compare: compareView, evaluate: evaluateView };
const PARTS = { tune: ["compare", "evaluate"] };
const PANES = ["documents", "ask", "reading"];
const narrow = matchMedia("(max-width: 1020px)");
const TABS = ["context", "answer", "why"];
const viewLinks = document.querySelectorAll("[data-to]");
const viewOf = ({ dataset: { to } }) => (to === "ask" ? null : (PARTS[to]?.[0] ?? to));
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

/** Show the view and the pane that the route names; `enter` also if the view was shown before. */
function showRoute({ enter = false, focus = false } = {}) {
  const wanted = route();
  // Without a world there is nothing that another view could show.
  const named = PARTS[wanted.view]?.[0] ?? wanted.view;
  const view = Object.hasOwn(VIEWS, named) && state.world ? named : "ask";
  const pane = PANES.includes(wanted.pane) ? wanted.pane : "ask";
  const changed = view !== document.body.dataset.view;
  const arrived = pane !== document.body.dataset.pane || changed;
  document.body.dataset.view = view;
  document.body.dataset.pane = pane;
  for (const link of viewLinks) {
    const { to } = link.dataset;
    const shown = to === view || Boolean(PARTS[to]?.includes(view));
    byId(`view-${to}`).hidden = !shown;
    if (shown) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  for (const one of byId("pane-switch").children) one.setAttribute("aria-pressed", String(one.dataset.toPane === pane));
  const title = { library: texts.common.viewLibrary, compare: texts.compare.title, evaluate: texts.evaluate.title }[view];
  document.title = title ? `${title} · Truespan` : "Truespan";
  if (changed && focus) focusView();
  if ((changed || enter) && VIEWS[view]) VIEWS[view].show();
  if (view === "ask" && pane === "reading" && arrived) paneOfText.arrive();
}

/** Move the focus into the view, so that a keyboard and a screen reader go on from there. */
function focusView() {
  const { view } = document.body.dataset;
  byId(view === "ask" ? "ask" : `view-${view}`).focus();
}

/** Show a pane of the view for asking, and change the route with it. On a wide screen all three are visible. */
function showPane(name, changes = {}) {
  go({ view: null, pane: narrow.matches && name !== "ask" ? name : null, ...changes });
  showRoute({ focus: true });
}

const tokenOf = (readers) => (readers.length ? texts.common.tokenFor({ readers: readers.join(", ") }) : texts.common.tokenForNone);

function showCaller() {
  const me = state.me;
  const owner = me.token === null;
  const bound = me.readers !== "unlimited";
  const words = owner ? texts.common.owner : bound ? tokenOf(me.readers) : texts.common.tokenNamed({ start: me.token.slice(0, 6) });
  byId("caller").textContent = words;
  byId("me").textContent = texts.common.signedInAs({ caller: words, verbs: me.verbs.map((verb) => texts.common.verbs[verb] || verb).join(", ") || texts.common.verbsNone });
  byId("sign-out").hidden = owner;
  byId("view-as-box").hidden = me.audience !== "unlimited" && viewedAs() === null;
  byId("viewing").hidden = viewedAs() === null;
  byId("viewing-labels").textContent = viewedAs() === null ? "" : texts.common.viewing({ labels: viewedAs().join(", ") });
  byId("mode-owner").disabled = !me.verbs.includes("read");
  byId("mode-reader").disabled = !me.verbs.includes("follow");
  if (!me.verbs.includes("read") && me.verbs.includes("follow")) state.mode = "reader";
  else if (!me.verbs.includes("follow")) state.mode = "owner";
  if (bound) {
    offerReaders(me.readers);
    if (!me.readers.includes(state.reader)) state.reader = me.readers[0] || "me";
    byId("reader").readOnly = me.readers.length < 2;
  } else byId("reader").readOnly = false;
  showMode();
}

const offerReaders = (names) => fill(byId("reader-names"), names.map((name) => make("option", { value: name })));

/** Offer the names of the readers who have a position in the world. */
async function learnReaders() {
  if (state.me?.readers !== "unlimited" || !state.world || !may("read")) return;
  const { id } = state.world;
  const { readers } = await get(`${worldPath()}/readers`);
  if (id === state.world?.id) offerReaders(readers);
}

function showMode() {
  byId(asReader() ? "mode-reader" : "mode-owner").checked = true;
  byId("reader-box").hidden = !asReader();
  byId("reader").value = state.reader;
  document.body.dataset.mode = state.mode;
  byId("question").placeholder = asReader() ? texts.ask.placeholderReader : texts.ask.placeholder;
}

/** Take the reader of the route, or the whole world; return whether that is a change. */
function takeReader(name) {
  const before = asReader() ? state.reader : null;
  state.mode = name ? "reader" : "owner";
  if (name) state.reader = name;
  return before !== (name || null);
}

/** Make the page show what the route names, after back or forward. */
async function followRoute() {
  if (document.body.dataset.view === "signin") return;
  showRoute({ focus: true });
  const wanted = route();
  const world = state.worlds.find((one) => one.id === wanted.world);
  const otherReader = takeReader(wanted.reader);
  if (otherReader) {
    position.leave();
    showCaller();
    asking.forget();
  }
  if (world && world !== state.world) await library.choose(world, wanted.document);
  else if (otherReader || (wanted.document && String(state.document?.number) !== wanted.document)) await library.loadDocuments(wanted.document);
  await opening;
  await asking.restore();
}

async function start() {
  try {
    state.me = await get("/v1/me");
    leaveSignIn();
    learnModel().catch(complain);
    takeReader(route().reader);
    showCaller();
    go({ reader: asReader() ? state.reader : null }, { replace: true });
    document.body.dataset.caller = "known";
    showRoute();
    await library.loadWorlds();
    clearNotice();
    await opening;
    showEmptiness();
    showRoute({ enter: true });
    await asking.restore();
  } catch (problem) {
    byId("caller").textContent = "";
    document.body.dataset.caller = "unknown";
    complain(problem, start);
  }
  document.body.dataset.ready = "true";
}

function listChapters() {
  const list = byId("chapter");
  const chosen = list.value;
  fill(list, make("option", { value: "" }, texts.ask.anyChapter), [...new Set(namedPlaces().map((one) => one.chapter))].map((chapter) => make("option", { value: chapter }, chapter)));
  if ([...list.options].some((one) => one.value === chosen)) list.value = chosen;
}

async function opened() {
  listChapters();
  try {
    await position.locate();
    emit("located");
    listChapters();
    await paneOfText.open();
  } catch (problem) {
    complain(problem, opened);
  }
  showEmptiness();
  if (!byId("result").classList.contains("asked")) welcome();
  else if (asReader()) asking.ask({ quietly: true });
}

let modeChanges = 0;
/** The question to ask again once the reader or owner that was chosen last is loaded. */
let again = "";

async function modeChanged() {
  state.mode = byId("mode-reader").checked ? "reader" : "owner";
  state.reader = byId("reader").value.trim() || "me";
  // Otherwise a number entered now would be sent for the reader before.
  position.leave();
  showMode();
  again = asking.asked() || again;
  asking.forget();
  go({ reader: asReader() ? state.reader : null, conversation: null, q: null });
  const own = ++modeChanges;
  try {
    await library.loadDocuments();
    await opening;
    if (own !== modeChanges) return;
    const query = again;
    again = "";
    if (query) asking.askAgain(query);
  } catch (problem) {
    complain(problem);
  }
}

/** Show sentences in the text pane; `aside` leaves the user in the present pane. */
async function showPassage({ document: number, first, last, best = null, aside = false }) {
  if (!aside) showPane("reading", { document: number });
  try {
    if (!state.document || state.document.number !== number) {
      const wanted = state.documents.find((one) => one.number === number);
      if (!wanted) return;
      await library.openDocument(wanted);
      await opening;
    }
    await paneOfText.show(first, last, best);
  } catch (problem) {
    complain(problem);
  }
}

function theme(chosen) {
  if (chosen) document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
  remember("truespan.theme", chosen);
}

function openSettings() {
  byId("token").value = token();
  byId("theme").value = document.documentElement.dataset.theme || "";
  byId("page-language").value = chosenLanguage();
  byId("view-as").value = (viewedAs() || []).join(", ");
  for (const one of byId("settings").querySelectorAll("[data-press]")) one.hidden = byId(one.dataset.press).hidden;
  fill(byId("settings-audience-box"));
  audience = null;
  byId("settings").showModal();
  offerAudience().catch(complain);
}

/** The fields for who sees new documents of the world, once they are shown. */
let audience = null;

async function offerAudience() {
  const { world, me } = state;
  if (!world || me.audience !== "unlimited" || !may("administer")) return;
  const present = (await get(worldPath())).audience;
  if (!byId("settings").open || world !== state.world) return;
  audience = audienceFields("settings-audience", texts.start.audienceOf({ world: world.name }), present);
  fill(byId("settings-audience-box"), audience.element);
}

async function saveAudience() {
  const changes = audience ? audience.changes() : {};
  if (!Object.keys(changes).length) return;
  await write("PUT", `${worldPath()}/defaults`, changes);
  say(texts.start.audienceSaved);
}

/** Load everything again as another caller. */
function startAgain() {
  asking.forget();
  start();
}

async function saveSettings(event) {
  event.preventDefault();
  theme(byId("theme").value);
  byId("settings").close();
  await saveAudience().catch(complain);
  const typed = byId("token").value.trim();
  const tongue = byId("page-language").value;
  const viewed = byId("view-as").value.split(",").map((label) => label.trim()).filter(Boolean);
  const changed = typed !== token() || viewed.join() !== (viewedAs() || []).join();
  if (typed !== token()) keepToken(typed);
  viewAs(viewed.length ? viewed : null);
  byId("token").value = "";
  if (tongue !== chosenLanguage()) {
    keepLanguage(tongue);
    location.reload();
    return;
  }
  if (changed) startAgain();
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
for (const link of viewLinks) {
  link.addEventListener("click", (event) => {
    // A link that is opened in a new tab is left to the browser.
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go({ view: viewOf(link) });
    showRoute({ enter: true, focus: true });
  });
}
byId("pane-switch").addEventListener("click", (event) => {
  const chosen = event.target.closest("button");
  if (chosen) showPane(chosen.dataset.toPane);
});
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  if (document.body.dataset.view === "ask") byId("question").focus();
  else focusView();
});
for (const id of ["mode-owner", "mode-reader", "reader"]) byId(id).addEventListener("change", modeChanged);
onSignIn(startAgain);
byId("sign-out").addEventListener("click", () => {
  byId("settings").close();
  keepToken("");
  viewAs(null);
  // This leads to signing in if a token is needed.
  startAgain();
});
byId("stop-viewing").addEventListener("click", () => {
  viewAs(null);
  startAgain();
});
for (const one of document.querySelectorAll("[data-to-start]")) {
  one.addEventListener("click", () => {
    showPane("ask");
    byId("start").querySelector("button")?.focus();
  });
}
byId("open-settings").addEventListener("click", openSettings);
byId("open-keys").addEventListener("click", () => byId("keys").showModal());
byId("settings-form").addEventListener("submit", saveSettings);
for (const one of document.querySelectorAll("[data-press]")) {
  one.addEventListener("click", () => {
    byId("settings").close();
    byId(one.dataset.press).click();
  });
}
for (const one of document.querySelectorAll("[data-close]")) one.addEventListener("click", () => one.closest("dialog").close());
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, dialog");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    event.preventDefault();
    showPane("ask");
    byId("question").focus();
  } else if (event.key === "?") byId("keys").showModal();
});
on("tab", (name) => showTab(name));
on("pane", showPane);
on("address", () => {
  for (const link of viewLinks) link.href = hash({ view: viewOf(link) });
});
on("route", () => followRoute().catch(complain));
on("settings", openSettings);
on("welcome", welcome);
on("moved", () => {
  listChapters();
  // Questions to begin with are about what was read.
  if (!byId("result").classList.contains("asked")) welcome();
});
on("opened", () => {
  opening = opened();
});
on("pick", (one) => {
  showPane("reading", { document: one.number });
  library.openDocument(one).catch(complain);
});
on("worlds", (id) => library.loadWorlds(id).catch(complain));
on("show", showPassage);
on("read-to", position.readTo);
on("world", () => {
  asking.forget();
  emit("rights");
  learnReaders().catch(complain);
});
on("saved", () => learnReaders().catch(complain));

byId("page-language").append(...LANGUAGES.map((name) => make("option", { value: name, lang: name }, languageName(name))));
theme(remembered("truespan.theme"));
prepareSignIn().finally(start);
