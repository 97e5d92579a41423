// Support: marks on sentences that the passages do not support, and the figure for the whole answer.

import { bar, button, make } from "../common/dom.js";
import { texts } from "../common/texts.js";
import { lettersOf, plain, putBehind, split } from "./letters.js";

const ITEM = /^\s*(?:[-*+>]|\d{1,9}[.)])\s+/;
let counter = 0;

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

/** Return why a sentence is not supported: what is in no passage, and what else is wrong. */
function reasonOf({ reasons, missing }) {
  const found = new Map();
  for (const one of missing) if (!found.has(one.toLowerCase())) found.set(one.toLowerCase(), texts.common.quoted({ text: one }));
  const named = found.size ? [texts.ask.missing({ words: [...found.values()].join(", ") })] : [];
  const others = reasons.map((code) => texts.ask.reasons[code] ?? code);
  return [...named, ...others].filter(Boolean).join(" ") || texts.ask.unsupported;
}

/** Return a mark that tells its reason on hover, on focus, and when it is pressed. */
export function doubt(reason, spans, { sign = "?", name = texts.ask.unsupported, kind = "" } = {}) {
  const id = `doubt-${(counter += 1)}`;
  const press = button(sign, () => open(), { class: `doubt-mark ${kind}`.trim(), "aria-label": name, "aria-describedby": id });
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
