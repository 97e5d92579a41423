// The chat model: which one writes answers, and a dialog in which the owner connects one.

import { get, post, write } from "../common/api.js";
import { button, byId, complain, fill, make, say } from "../common/dom.js";
import { emit, state } from "../common/state.js";
import { texts } from "../common/texts.js";

const t = texts.model;
const MODELS = "/v1/chat-model";
/** The servers that answered, by their address. */
let servers = [];

/** Load the name of the chat model, and whether the caller may connect another. */
export async function learnModel() {
  state.chat = await get(MODELS);
  showModel();
}

function showModel() {
  const { model, may_connect: mayConnect } = state.chat;
  byId("chat-model").textContent = model || t.none;
  byId("connect-model").hidden = !mayConnect;
  byId("connect-model").textContent = model ? t.change : t.connect;
  byId("disconnect-model").hidden = !(mayConnect && model);
}

/** Return a button that opens the dialog; null if a model writes answers or the caller may not connect one. */
export function offerModel() {
  if (!state.chat || state.chat.model || !state.chat.may_connect) return null;
  return button(t.connect, openDialog, { class: "link" });
}

const chosenServer = () => servers.find((one) => one.base_url === byId("model-server").value);

function showServers() {
  byId("model-found").hidden = !servers.length;
  fill(byId("model-server"), servers.map((one) => make("option", { value: one.base_url }, `${one.name} (${one.base_url})`)));
  showModels();
}

function showModels() {
  fill(byId("model-name"), (chosenServer()?.models || []).map((name) => make("option", { value: name }, name)));
  byId("keep-model").disabled = byId("test-model").disabled = !byId("model-name").value;
}

const tell = (words, kind = "") => fill(byId("model-note"), make("span", { class: kind }, words));

/** Run a step of the dialog: its buttons wait, and problems are shown in the dialog. */
async function run(words, step) {
  const buttons = byId("model-dialog").querySelectorAll("button:not([data-close])");
  for (const one of buttons) one.disabled = true;
  tell(words);
  try {
    await step();
  } catch (problem) {
    tell(problem.message, "problem");
  }
  for (const one of buttons) one.disabled = false;
  byId("keep-model").disabled = byId("test-model").disabled = !byId("model-name").value;
}

const find = (question, none) =>
  run(t.searching, async () => {
    ({ servers } = await post("/v1/chat-servers", question));
    showServers();
    tell(servers.length ? "" : none);
  });

const findHere = () => find({}, t.noneFound);
const findThere = () => find({ base_url: byId("model-url").value.trim(), key: byId("model-key").value || null }, t.noModels);

const connect = (keep) =>
  run(t.testing, async () => {
    const { provider, base_url: url } = chosenServer();
    const key = provider === "openai" && url === byId("model-url").value.trim().replace(/\/+$/, "") ? byId("model-key").value || null : null;
    const tested = await write("PUT", MODELS, { provider, base_url: url, model: byId("model-name").value, key, keep });
    tell(t.replied({ model: tested.model, seconds: tested.seconds.toFixed(1), reply: tested.reply }));
    if (!keep) return;
    await learnModel();
    byId("model-key").value = "";
    byId("model-dialog").close();
    say(t.connected({ model: tested.model }));
    emit("model");
  });

async function disconnect() {
  try {
    state.chat = await write("DELETE", MODELS);
    showModel();
    say(t.disconnected);
    emit("model");
  } catch (problem) {
    complain(problem);
  }
}

function openDialog() {
  byId("settings").close();
  servers = [];
  showServers();
  tell("");
  byId("model-dialog").showModal();
}

byId("connect-model").addEventListener("click", openDialog);
byId("disconnect-model").addEventListener("click", disconnect);
byId("find-models").addEventListener("click", findHere);
byId("model-server").addEventListener("change", showModels);
byId("model-address").addEventListener("submit", (event) => (event.preventDefault(), findThere()));
byId("test-model").addEventListener("click", () => connect(false));
byId("keep-model").addEventListener("click", () => connect(true));
