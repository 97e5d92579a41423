// Creating elements, messages at the top of the page, and the texts of index.html. Text is inserted
// as text nodes, never as markup: a document cannot run code.

import { emit } from "./state.js";
import { texts } from "./texts.js";

const SVG = "http://www.w3.org/2000/svg";

/** Return the element with this id. */
export const byId = (id) => document.getElementById(id);

function dress(node, attributes) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  return node;
}

function add(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

/** Return an element; attributes that begin with "on" are listeners, children may be text. */
export function make(tag, attributes, ...children) {
  return add(dress(document.createElement(tag), attributes), children);
}

/** Return an SVG element. */
export function draw(tag, attributes, ...children) {
  return add(dress(document.createElementNS(SVG, tag), attributes), children);
}

/** Replace the children of a node. */
export function fill(node, ...children) {
  node.replaceChildren();
  return add(node, children);
}

/** Announce a change to screen readers. */
export function say(words) {
  byId("said").textContent = words;
}

/** Return a button with a click handler. */
export function button(words, does, attributes = {}) {
  return make("button", { type: "button", onclick: does, ...attributes }, words);
}

/** Return a quotation; where the text begins or ends with a quotation mark, none is added. */
export function quoted(text, attributes = {}) {
  const own = [/^\s*["“”„‟«»‘’‚'「『]/.test(text) && "own-open", /["“”„‟«»’‘'」』]\s*$/.test(text) && "own-close"].filter(Boolean);
  return make("q", { ...attributes, class: own.join(" ") || null }, text);
}

/** Return a bar for a number from 0 to 1; its text must be next to it. */
export function bar(value, kind = "") {
  const inner = make("i");
  inner.style.width = `${Math.round(Math.min(1, Math.max(0, value)) * 1000) / 10}%`;
  return make("span", { class: `bar ${kind}`.trim(), "aria-hidden": "true" }, inner);
}

/** Return a tick or a cross. */
export function tick(passed) {
  const line = passed ? "m4.5 10.5 3.5 3.5 7.5-8.5" : "m5.5 5.5 9 9m0-9-9 9";
  return draw(
    "svg",
    { viewBox: "0 0 20 20", class: passed ? "tick yes" : "tick no", "aria-hidden": "true" },
    draw("path", { d: line }),
  );
}

/** Show an error; `again` is what “Try again” does. */
export function complain(problem, again = null) {
  if (problem.name === "AbortError") return;
  if (problem.status === 401) return void emit("signin", problem);
  if (problem.name !== "Problem") console.error(problem);
  const words = problem.name === "Problem" ? problem.message : texts.common.pageFailed;
  const { advice = "" } = problem;
  fill(
    byId("alerts"),
    make(
      "div",
      { class: "notice", "data-code": problem.code || "page" },
      make("p", {}, make("strong", {}, words), advice && !words.includes(advice) && ` ${advice}`),
      make(
        "p",
        { class: "notice-tools" },
        make("code", {}, problem.code || "page"),
        again && button(texts.common.tryAgain, () => (clearNotice(), again()), { class: "small" }),
        button(texts.common.close, clearNotice, { class: "small quiet" }),
      ),
    ),
  );
}

/** Take the last failure away; what was asked since went well. */
export function clearNotice() {
  fill(byId("alerts"));
}

const ATTRIBUTES = ["placeholder", "title", "aria-label"];

function lookUp(name) {
  const found = name.split(".").reduce((section, key) => section?.[key], texts);
  if (typeof found !== "string") throw new Error(`there is no text ${name}`);
  return found;
}

for (const node of document.querySelectorAll("[data-text]")) node.textContent = lookUp(node.dataset.text);
for (const attribute of ATTRIBUTES) {
  const source = `data-text-${attribute}`;
  for (const node of document.querySelectorAll(`[${source}]`)) {
    node.setAttribute(attribute, lookUp(node.getAttribute(source)));
  }
}
