// Talking to the server: one way to ask, one kind of failure, and streams of events.

const KEY = "truespan.token";

/** A failure in words: what happened, what to do, and its code. */
export class Problem extends Error {
  constructor(said) {
    super(said.detail || said.title || "Something went wrong.");
    this.name = "Problem";
    this.title = said.title || "";
    this.advice = said.advice || "";
    this.code = said.code || "unknown";
    this.status = said.status || 0;
    this.retryable = Boolean(said.retryable);
    this.bundle = said.bundle || null;
  }
}

/** Return the token that was typed in, or nothing. It lives as long as the tab. */
export function token() {
  try {
    return sessionStorage.getItem(KEY) || "";
  } catch {
    return "";
  }
}

/** Keep a token until the tab is closed; nothing lets go of it. */
export function keepToken(text) {
  try {
    if (text) sessionStorage.setItem(KEY, text);
    else sessionStorage.removeItem(KEY);
  } catch {
    // A browser that keeps nothing asks again after a reload.
  }
}

/** Build a path; what is filled in is encoded, so that a name cannot become another path. */
export function path(parts, ...values) {
  return parts.reduce((built, part, at) => built + encodeURIComponent(values[at - 1]) + part);
}

/** Return the path of an image: its reference has a folder and a name. */
export function imagePath(world, reader, reference) {
  const tail = reference.split("/").map(encodeURIComponent).join("/");
  const root = path`/v1/worlds/${world}`;
  return reader === null ? `${root}/images/${tail}` : root + path`/readers/${reader}/images/` + tail;
}

/** Return words that no other request of anybody has, for writes that may be sent again. */
export function freshKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (one) =>
    one.toString(16).padStart(2, "0"),
  ).join("");
}

/** Return the headers that each request has. */
export function headers(more = {}) {
  const held = token();
  return held ? { Authorization: `Bearer ${held}`, ...more } : more;
}

const GONE = {
  code: "unreachable",
  title: "No answer",
  detail: "Truespan does not answer.",
  advice: "It may have been stopped. Start it again with “truespan serve”, then try once more.",
  retryable: true,
};

/** Return why a reply is a failure, whatever its body is. */
export async function problemOf(reply) {
  let said = {};
  try {
    said = await reply.json();
  } catch {
    // What stands between may answer with a page of its own; the status is all there is then.
  }
  const known = said && typeof said === "object" ? said : {};
  return new Problem({
    ...known,
    detail: known.detail || `The server answered with status ${reply.status}.`,
    status: reply.status,
  });
}

async function send(method, where, { body, signal, more } = {}) {
  const told = body === undefined ? {} : { "Content-Type": "application/json" };
  let reply;
  try {
    reply = await fetch(where, {
      method,
      signal,
      headers: headers({ ...told, ...more }),
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

/** Return what a path gives. */
export const get = async (where, signal) => (await send("GET", where, { signal })).json();

/** Ask with a body. Questions change nothing, and need no key. */
export const post = async (where, body, signal) =>
  (await send("POST", where, { body, signal })).json();

/** Change something; sent twice it is done once. */
export const write = async (method, where, body) =>
  (await send(method, where, { body, more: { "Idempotency-Key": freshKey() } })).json();

/** Return the address of an image that was fetched with the caller's right. */
export async function image(where, signal) {
  return URL.createObjectURL(await (await send("GET", where, { signal })).blob());
}

function eventOf(lines) {
  let event = "message";
  const held = [];
  for (const line of lines) {
    if (line.startsWith("event:")) event = line.slice(6).trim();
    else if (line.startsWith("data:")) held.push(line.slice(5).replace(/^ /, ""));
  }
  if (!held.length) return null;
  try {
    return { event, said: JSON.parse(held.join("\n")) };
  } catch {
    throw new Problem({ detail: "The server sent something that cannot be read.", code: "bad_event" });
  }
}

/** Give the events of a stream as they come. */
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
          const found = eventOf(lines);
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

/** Send files with progress, which `fetch` cannot tell; return the job. */
export function upload(where, form, onSent) {
  return new Promise((settle, fail) => {
    const request = new XMLHttpRequest();
    request.open("POST", where);
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
