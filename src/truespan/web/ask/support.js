// Support: marks on sentences that the passages do not support, and the figure for the whole answer.

import { bar, button, make } from "../common/dom.js";
import { texts } from "../common/texts.js";

// Markdown signs and line breaks of an answer are not in what is shown; its letters and digits are.
const LETTER = /[\p{L}\p{N}]/u;
const ITEM = /^\s*(?:[-*+>]|\d{1,9}[.)])\s+/;
let counter = 0;

const plain = (text) => text.split("").filter((sign) => LETTER.test(sign)).join("");

/** Return every letter and digit below a node, with its text node and its place in that. */
function lettersOf(root) {
  const found = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    for (let at = 0; at < node.data.length; at += 1) {
      if (LETTER.test(node.data[at])) found.push({ node, at, sign: node.data[at] });
    }
  }
  return found;
}

/** Split a text node; letters of what follows point at the new node. */
function split(letters, node, end) {
  const rest = node.splitText(end);
  for (const one of letters) {
    if (one.node === node && one.at >= end) Object.assign(one, { node: rest, at: one.at - end });
  }
  return rest;
}

/** Wrap the text from one letter to another, node by node; links to sources stay as they are. */
function wrap(letters, first, last) {
  const spans = [];
  for (let at = first; at <= last; at += 1) {
    const { node, at: start } = letters[at];
    while (at < last && letters[at + 1].node === node) at += 1;
    if (node.parentElement.closest(".cite")) continue;
    const end = letters[at].at + 1;
    if (end < node.length) split(letters, node, end);
    const inside = start > 0 ? split(letters, node, start) : node;
    const span = make("span", { class: "unsupported" });
    inside.replaceWith(span);
    span.append(inside);
    spans.push(span);
  }
  return spans;
}

/** Put a mark behind the last letter of a sentence, its link and its punctuation. */
function putBehind(letters, last, mark) {
  const { node } = letters[last];
  let before = node.parentElement.closest(".cite, .unsupported") ?? node;
  for (let next = before.nextSibling; next?.nodeType === Node.TEXT_NODE; next = before.nextSibling) {
    const signs = next.data.match(/^[\])}.,;:!?…”’"']*/)[0].length;
    if (!signs) break;
    if (signs < next.length) split(letters, next, signs);
    before = next;
  }
  before.after(mark);
}

/** Return why a sentence is not supported: what is in no passage, and what else is wrong. */
function reasonOf({ reasons, missing }) {
  const found = new Map();
  for (const one of missing) if (!found.has(one.toLowerCase())) found.set(one.toLowerCase(), texts.common.quoted({ text: one }));
  const named = found.size ? [texts.ask.missing({ words: [...found.values()].join(", ") })] : [];
  const others = reasons.map((code) => texts.ask.reasons[code] ?? code);
  return [...named, ...others].filter(Boolean).join(" ") || texts.ask.unsupported;
}

/** Return a mark that tells its reason on hover, on focus, and when it is pressed. */
function doubt(reason, spans) {
  const id = `doubt-${(counter += 1)}`;
  const press = button("?", () => open(), { class: "doubt-mark", "aria-label": texts.ask.unsupported, "aria-describedby": id });
  const tip = make("span", { class: "tip", role: "tooltip", id }, reason);
  const mark = make("span", { class: "doubt" }, press, tip);
  const open = () => {
    mark.classList.add("open");
    tip.style.marginLeft = "0";
    mark.classList.remove("below");
    const room = mark.closest(".talk, main").getBoundingClientRect();
    const box = tip.getBoundingClientRect();
    const shift = Math.max(0, room.left + 8 - box.left) - Math.max(0, box.right - room.right + 8);
    tip.style.marginLeft = `${2 * shift}px`;
    mark.classList.toggle("below", box.top < room.top);
  };
  const close = () => mark.classList.remove("open");
  for (const one of [...spans, mark]) {
    one.addEventListener("mouseenter", open);
    one.addEventListener("mouseleave", close);
  }
  press.addEventListener("focus", open);
  press.addEventListener("blur", close);
  press.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
  });
  return mark;
}

/** Mark the sentences of an answer that are not supported; those that are not found are listed. */
export function markUnsupported(spoken, support, answer) {
  const signs = [...answer];
  const letters = lettersOf(spoken);
  const line = letters.map((one) => one.sign).join("");
  let from = 0;
  for (const sentence of support.sentences) {
    const text = signs.slice(sentence.start, sentence.end).join("").replace(ITEM, "");
    const wanted = plain(text);
    const at = wanted ? line.indexOf(wanted, from) : -1;
    if (at >= 0) from = at + wanted.length;
    if (sentence.supported) continue;
    if (at >= 0) {
      const spans = wrap(letters, at, from - 1);
      putBehind(letters, from - 1, doubt(reasonOf(sentence), spans));
    } else {
      const span = make("span", { class: "unsupported" }, text.trim());
      spoken.append(make("p", {}, span, " ", doubt(reasonOf(sentence), [span])));
    }
  }
}

/** Return the figure for the whole answer; null if nothing in it is a claim. */
export function figure(support) {
  if (support.score === null) return null;
  const full = support.supported === support.claims;
  return make(
    "p",
    { class: `support ${full ? "full" : "part"}`, title: texts.ask.supportTitle },
    bar(support.score, full ? "" : "part"),
    make("span", {}, texts.ask.support({ supported: support.supported, count: support.claims })),
  );
}
