// Signing in with the identity provider: authorization code with PKCE (RFC 7636). The token stays in memory.

import { holdToken, signInOptions } from "../common/api.js";
import { byId, make } from "../common/dom.js";
import { texts } from "../common/texts.js";

const KEY = "truespan.signin";
/** The page itself, to which the provider returns; without the route, which `KEY` remembers. */
const HERE = new URL("../../", import.meta.url).href;

const spell = (bytes) => btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const secret = () => spell(crypto.getRandomValues(new Uint8Array(32)));

/** Leave for the provider. The verifier and the state are worth nothing after the return. */
async function leave(options) {
  const begun = { state: secret(), verifier: secret(), route: location.hash };
  sessionStorage.setItem(KEY, JSON.stringify(begun));
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(begun.verifier));
  const address = new URL(options.authorize_url);
  const wanted = {
    response_type: "code",
    client_id: options.client_id,
    redirect_uri: HERE,
    scope: options.scope,
    state: begun.state,
    code_challenge: spell(new Uint8Array(digest)),
    code_challenge_method: "S256",
  };
  for (const [name, value] of Object.entries(wanted)) address.searchParams.set(name, value);
  location.assign(address);
}

/** Return what was stored before the page was left, once. */
function takeBegun() {
  try {
    const begun = JSON.parse(sessionStorage.getItem(KEY) || "null");
    sessionStorage.removeItem(KEY);
    return begun;
  } catch {
    return null;
  }
}

async function exchange(options, code, verifier) {
  const form = new URLSearchParams({ grant_type: "authorization_code", code, redirect_uri: HERE, client_id: options.client_id, code_verifier: verifier });
  const reply = await fetch(options.token_url, { method: "POST", body: form, credentials: "omit", cache: "no-store" });
  const found = reply.ok ? await reply.json() : {};
  // Some providers give an access token that only they can read; then the ID token says who it is.
  const signed = [found.access_token, found.id_token].find((one) => typeof one === "string" && one.split(".").length === 3);
  if (!signed) throw new Error(texts.start.signInFailed);
  holdToken(signed);
}

/** Finish a sign-in if the provider has just returned to the page, and offer to begin one. */
export async function prepareSignIn() {
  const given = new URLSearchParams(location.search);
  const returned = given.has("state") && (given.has("code") || given.has("error"));
  const begun = returned ? takeBegun() : null;
  // The code must not stay in the history.
  if (returned) history.replaceState(null, "", HERE + (begun?.route || ""));
  const options = await signInOptions();
  if (!options) return;
  const button = make("button", { type: "button", id: "signin-provider", class: "grow", onclick: () => leave(options).catch(failed) }, texts.start.signInProvider);
  byId("signin-form").querySelector(".lead").after(make("div", { class: "row" }, button), make("p", { class: "hint" }, texts.start.signInOr));
  if (!returned) return;
  const issuer = given.get("iss");
  try {
    const genuine = begun?.state === given.get("state") && (issuer === null || issuer === options.issuer);
    if (!genuine || given.has("error") || !given.get("code")) throw new Error(texts.start.signInFailed);
    await exchange(options, given.get("code"), begun.verifier);
  } catch {
    failed();
  }
}

let problem = "";

/** Return why the last sign-in failed, once. */
export function takeProblem() {
  const said = problem;
  problem = "";
  return said;
}

function failed() {
  problem = texts.start.signInFailed;
  byId("signin-problem").textContent = problem;
}
