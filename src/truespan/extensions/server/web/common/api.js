// Requests to the server: JSON, problems, event streams and uploads.

import { texts, translated } from "./texts.js";

const KEY = "truespan.token";
/** The server, which may be below a path of its host. */
const ROOT = new URL("../../", import.meta.url);

const within = (where) => new URL(where.slice(1), ROOT);

/** A failure: what happened, what to do, and its code. */
export class Problem extends Error {
  constructor(details) {
    super(translated(texts.codes.problems, details.code, details.detail || details.title) || texts.common.requestFailed);
    this.name = "Problem";
    this.title = details.title || "";
    // Advice is in the words of the server, so it follows those only.
    this.advice = this.message === details.detail ? details.advice || "" : "";
    this.code = details.code || "unknown";
    this.status = details.status || 0;
    this.retryable = Boolean(details.retryable);
    this.bundle = details.bundle || null;
  }
}

/** The token of the identity provider, in memory only. */
let signedIn = "";
/** The labels that the owner views the library with; null for all documents. */
let labels = null;

/** Use a token of the identity provider until the page is left. */
export function holdToken(text) {
  signedIn = text;
}

/** Return the labels that the owner views the library with; null for all documents. */
export const viewedAs = () => labels;

/** View the library as a caller with these labels; null ends it. */
export function viewAs(chosen) {
  labels = chosen;
}

/** Return how to sign in with the identity provider; null without one. */
export async function signInOptions() {
  try {
    const reply = await fetch(within("/page/sign-in.json"), { credentials: "omit" });
    return reply.ok ? await reply.json() : null;
  } catch {
    return null;
  }
}

/** Return the token from the settings, or an empty string. It is stored as long as the tab is open. */
export function token() {
  if (signedIn) return signedIn;
  try {
    return sessionStorage.getItem(KEY) || "";
  } catch {
    return "";
  }
}

/** Store a token until the tab is closed; an empty one removes it. */
export function keepToken(text) {
  signedIn = "";
  try {
    if (text) sessionStorage.setItem(KEY, text);
    else sessionStorage.removeItem(KEY);
  } catch {
    // Without storage, the token must be entered again after a reload.
  }
}

/** Build a path; values are encoded, so that a name cannot change the path. */
export function path(parts, ...values) {
  return parts.reduce((built, part, at) => built + encodeURIComponent(values[at - 1]) + part);
}

/** Return the path of an image: its reference has a folder and a name. */
export function imagePath(world, reader, reference) {
  const tail = reference.split("/").map(encodeURIComponent).join("/");
  const root = path`/v1/worlds/${world}`;
  return reader === null ? `${root}/images/${tail}` : root + path`/readers/${reader}/images/` + tail;
}

/** Return a unique key for writes that may be repeated. */
export function freshKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (one) =>
    one.toString(16).padStart(2, "0"),
  ).join("");
}

/** Return the headers of every request. */
export function headers(more = {}) {
  const secret = token();
  const audience = labels === null ? {} : { "X-Truespan-Audience": labels.map(encodeURIComponent).join(",") };
  return { ...(secret ? { Authorization: `Bearer ${secret}` } : {}), ...audience, ...more };
}

const GONE = {
  code: "unreachable",
  title: texts.common.noResponse,
  detail: texts.common.unreachable,
  advice: texts.common.unreachableAdvice,
  retryable: true,
};

/** Return the problem of a failed reply, also if its body is not a problem. */
export async function problemOf(reply) {
  let details = {};
  try {
    details = await reply.json();
  } catch {
    // A proxy may send its own page; then only the status is known.
  }
  const known = details && typeof details === "object" ? details : {};
  return new Problem({
    ...known,
    detail: known.detail || texts.common.failedStatus({ status: reply.status }),
    status: reply.status,
  });
}

async function send(method, where, { body, signal, more } = {}) {
  const type = body === undefined ? {} : { "Content-Type": "application/json" };
  let reply;
  try {
    reply = await fetch(within(where), {
      method,
      signal,
      headers: headers({ ...type, ...more }),
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      credentials: "omit",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(GONE);
  }
  if (!reply.ok) throw await problemOf(reply);
  return reply;
}

/** Send a GET request and return its JSON. */
export const get = async (where, signal) => (await send("GET", where, { signal })).json();

/** Send a GET request for Markdown and return its text. */
export const markdown = async (where) =>
  (await send("GET", where, { more: { Accept: "text/markdown" } })).text();

/** Send a POST request that changes nothing, and return its JSON. */
export const post = async (where, body, signal) =>
  (await send("POST", where, { body, signal })).json();

/** Send a request that changes something, with an idempotency key. */
export const write = async (method, where, body) =>
  (await send(method, where, { body, more: { "Idempotency-Key": freshKey() } })).json();

/** Fetch an image with the caller's token, and return its object URL. */
export async function image(where, signal) {
  return URL.createObjectURL(await (await send("GET", where, { signal })).blob());
}

function parseEvent(lines) {
  let event = "message";
  const data = [];
  for (const line of lines) {
    if (line.startsWith("event:")) event = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
  }
  if (!data.length) return null;
  try {
    return { event, data: JSON.parse(data.join("\n")) };
  } catch {
    throw new Problem({ detail: texts.common.badEvent, code: "bad_event" });
  }
}

/** Yield the events of a stream as they arrive. */
export async function* events(method, where, { body, signal } = {}) {
  const reply = await send(method, where, { body, signal, more: { Accept: "text/event-stream" } });
  const pieces = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let lines = [];
  let ended = false;
  try {
    for (;;) {
      const { value, done } = await pieces.read();
      ended = done;
      if (done) return;
      const cut = (rest + value).split(/\r\n|\n/);
      rest = cut.pop();
      for (const line of cut) {
        if (line !== "") lines.push(line);
        else {
          const found = parseEvent(lines);
          lines = [];
          if (found) yield found;
        }
      }
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof Problem) throw error;
    throw new Problem(GONE);
  } finally {
    if (!ended) pieces.cancel().catch(() => {});
  }
}

/** Upload files with progress, which `fetch` cannot report; return the job. */
export function upload(where, form, onSent) {
  return new Promise((settle, fail) => {
    const request = new XMLHttpRequest();
    request.open("POST", within(where));
    const named = headers({ "Idempotency-Key": freshKey() });
    for (const [name, value] of Object.entries(named)) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => {
      if (event.lengthComputable) onSent(event.loaded / event.total);
    };
    request.onerror = () => fail(new Problem(GONE));
    request.onload = async () => {
      const reply = new Response(request.responseText, { status: request.status });
      if (reply.ok) settle(JSON.parse(request.responseText).job);
      else fail(await problemOf(reply));
    };
    request.send(form);
  });
}
