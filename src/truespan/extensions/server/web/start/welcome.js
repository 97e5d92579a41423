// Beginnings: signing in, an empty library or world, the sample book, and a world before anything was asked.

import { events, get, keepToken, path, token, write } from "../common/api.js";
import { audienceFields } from "../common/audience.js";
import { bar, button, byId, complain, fill, make, say } from "../common/dom.js";
import { asReader, emit, go, may, on, state } from "../common/state.js";
import { texts } from "../common/texts.js";
import { takeProblem } from "./provider.js";
import { suggestions } from "./suggestions.js";

const t = texts.start;

const head = (title, lead) => [make("h2", {}, title), make("p", { class: "lead" }, lead)];
const reload = (world) => emit("worlds", world.id);

/** The fields for who sees the documents of the first world. */
let audience = null;

async function createWorld(event) {
  event.preventDefault();
  try {
    const made = await write("POST", "/v1/worlds", {
      name: byId("start-world-name").value.trim(),
      model: byId("start-world-model").value || null,
      ...audience.changes(),
    });
    say(t.worldCreated({ name: made.name }));
    reload(made);
  } catch (problem) {
    complain(problem);
  }
}

function emptyLibrary() {
  const { me } = state;
  if (!(me.verbs.includes("administer") && me.worlds === "unlimited")) return head(t.noneVisible, t.noneVisibleLead);
  audience = audienceFields("start-world-audience", t.audience);
  return [
    ...head(t.libraryTitle, t.libraryLead),
    make("div", { class: "choices" },
      make("section", { class: "choice" }, make("h3", {}, t.sampleTitle), make("p", {}, t.sampleText), sampleButton(reload)),
      make("form", { class: "choice", onsubmit: createWorld },
        make("h3", {}, t.ownTitle),
        make("p", {}, t.ownText),
        make("div", { class: "field" }, make("label", { for: "start-world-name" }, t.ownName), make("input", { id: "start-world-name", maxlength: 200, autocomplete: "off", required: true })),
        make("div", { class: "field" }, make("label", { for: "start-world-model" }, t.model), make("select", { id: "start-world-model" }, make("option", { value: "" }, t.modelDefault), make("option", { value: "multilingual" }, t.modelMultilingual))),
        audience.element,
        make("button", { id: "start-create", class: "second" }, t.ownCreate))),
  ];
}

function emptyWorld() {
  if (asReader() && !may("read")) return head(t.booksTitle({ reader: state.reader }), t.booksLead);
  if (!may("write")) return head(t.worldTitle({ name: state.world.name }), t.worldReadOnly);
  return [
    ...head(t.worldTitle({ name: state.world.name }), t.worldLead),
    make("div", { class: "choices" },
      make("section", { class: "choice" }, make("h3", {}, t.ownTitle), make("p", {}, t.ownText), button(t.chooseFiles, () => (go({ view: "library" }, { apply: true }), byId("files").click()))),
      make("section", { class: "choice" }, make("h3", {}, t.sampleTitle), make("p", {}, t.sampleText), sampleButton(reload, { class: "second" }))),
  ];
}

/** Show what to do where there is nothing to ask, in place of the question. */
export function showEmptiness() {
  const what = !state.world ? "library" : state.documents.length ? "" : "world";
  byId("start").hidden = !what;
  if (what) document.body.dataset.empty = what;
  else delete document.body.dataset.empty;
  fill(byId("start"), what === "library" && emptyLibrary(), what === "world" && emptyWorld());
}

function ready() {
  const lead = asReader() ? (state.document ? t.readyReaderLead : t.readyNoBook) : t.readyOwnerLead;
  const tip = ([name, words]) => make("li", {}, make("b", {}, name), words);
  return make(
    "div",
    { class: "welcome" },
    ...head(asReader() ? t.readyReader : t.readyOwner({ world: state.world.name }), lead),
    suggestions(),
    make("ul", { class: "tips" }, tip(t.tipContext), tip(t.tipAnswer), tip(t.tipWhy), !asReader() && may("follow") && tip(t.tipReader)),
  );
}

/** Show how to begin. */
export function welcome() {
  showEmptiness();
  fill(byId("panel-context"), state.world && ready());
  fill(byId("panel-why"), make("p", { class: "empty" }, t.nothingAsked));
}

/** Return a button that adds the sample book to the chosen world, or to a new one if there is none. */
export function sampleButton(whenAdded, attributes = {}) {
  const progress = make("div", { class: "sample-progress", hidden: true });
  const add = button(texts.start.sampleAdd, () => run(), { id: "add-sample", ...attributes });
  const run = async () => {
    add.disabled = true;
    try {
      const world = state.world || (await sampleWorld());
      await addTo(world, (fraction) => {
        progress.hidden = false;
        fill(progress, make("span", {}, texts.start.sampleAdding), bar(fraction));
      });
      say(texts.start.sampleWorld);
      await whenAdded(world);
    } catch (problem) {
      complain(problem, run);
    } finally {
      add.disabled = false;
      progress.hidden = true;
    }
  };
  return [add, progress];
}

/** Create the world of the sample book; one that an earlier attempt made is used again. */
async function sampleWorld() {
  const { worlds } = await get("/v1/worlds");
  const name = texts.start.sampleWorld;
  return worlds.find((one) => one.name === name) || write("POST", "/v1/worlds", { name });
}

async function addTo(world, onProgress) {
  const where = path`/v1/worlds/${world.id}`;
  onProgress(0);
  const { job } = await write("POST", `${where}/sources`, { sample: true });
  let last = job;
  for await (const { event, data } of events("GET", where + path`/jobs/${job.id}`)) {
    if (event !== "job") continue;
    last = data;
    onProgress(data.counts.fraction);
  }
  if (last.state !== "done") throw new Error(last.error || texts.start.sampleFailed);
}

let enter = () => {};

/** Show the screen; a token that was refused is not tried again. */
function showSignIn() {
  // Several requests may be refused at once; the first took the token away.
  if (!byId("view-signin").hidden && !token()) return;
  byId("signin-problem").textContent = takeProblem() || (token() ? texts.start.signInWrong : "");
  // A server on this machine may need no token; one that does has said so.
  byId("signin-skip").hidden = !token();
  keepToken("");
  document.body.dataset.view = "signin";
  byId("view-signin").hidden = false;
  byId("signin-token").value = "";
  byId("signin-token").focus();
}

/** Leave the screen after the server has accepted the caller. */
export function leaveSignIn() {
  byId("view-signin").hidden = true;
  byId("signin-problem").textContent = "";
}

/** Call a function when a token was entered. */
export function onSignIn(does) {
  enter = does;
}

byId("signin-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken(byId("signin-token").value.trim());
  enter();
});
byId("signin-skip").addEventListener("click", () => {
  byId("signin-skip").hidden = true;
  byId("signin-problem").textContent = texts.start.signInLead;
  enter();
});
on("signin", showSignIn);
