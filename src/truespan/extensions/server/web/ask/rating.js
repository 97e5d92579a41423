// Judging an answer: a good one becomes a golden query with its sources, a bad one is taken to the
// form where the right document can be named.

import { draw, make, say } from "../common/dom.js";
import { asReader, emit, may } from "../common/state.js";
import { texts } from "../common/texts.js";

const THUMB = "M7 11v9H4v-9zM7 11l4-8a2.2 2.2 0 0 1 2.2 2.6L12.6 9H18a2 2 0 0 1 2 2.4l-1.4 7A2 2 0 0 1 16.6 20H7";

function thumb(down, words, does) {
  const icon = draw("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, draw("path", { d: THUMB }));
  return make("button", { type: "button", class: down ? "icon thumb down" : "icon thumb", "aria-label": words, title: words, "aria-pressed": "false", onclick: does }, icon);
}

/** Return the question of a turn with the documents that its answer is based on. */
function goldenOf(turn) {
  const cited = turn.answer.citations.filter((one) => one.chunk_id);
  return { query: turn.standalone || turn.question, expected: [...new Set(cited.map((one) => one.source))], phrases: [] };
}

/** Return the buttons that judge an answer; null for callers who may not evaluate. */
export function rating(turn) {
  if (asReader() || !may("read") || !(turn.standalone || turn.question)) return null;
  const good = thumb(false, texts.ask.goodAnswer, () => {
    emit("rated", goldenOf(turn));
    good.setAttribute("aria-pressed", "true");
    good.disabled = true;
    say(texts.ask.rated);
  });
  const bad = thumb(true, texts.ask.badAnswer, () => emit("golden", { query: turn.standalone || turn.question }));
  return make("span", { class: "rating", role: "group", "aria-label": texts.ask.rating }, turn.answer.citations.length > 0 && good, bad);
}
