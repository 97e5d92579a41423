// The answer: its text as it arrives, citations that link into the document, and checked quotes.

import { events, Problem } from "../common/api.js";
import { button, byId, fill, make, say, tick } from "../common/dom.js";
import { markdown } from "../common/markdown.js";
import { showIn } from "./passage.js";
import { emit } from "../common/state.js";
import * as words from "../common/words.js";

const CITED = /\[(\d{1,15}(?:\s*[,–-]\s*\d{1,15})*)\]/g;

function linkCitations(text, citations) {
  const known = new Map(citations.filter((one) => one.chunk_id).map((one) => [String(one.number), one]));
  const parts = [];
  let from = 0;
  for (const found of text.matchAll(CITED)) {
    parts.push(text.slice(from, found.index));
    from = found.index + found[0].length;
    parts.push("[", found[1].split(/(\d+)/).map((piece) => mark(piece, known.get(piece))), "]");
  }
  return [...parts, text.slice(from)];
}

function mark(piece, citation) {
  if (!citation) return piece;
  const link = showIn(citation.document, citation.first_sid, citation.last_sid, piece);
  link.classList.add("cite");
  link.setAttribute("aria-label", `Source ${piece}: ${words.trail(citation.title, citation.chapter).join(", ")}`);
  return link;
}

function renderText(text, citations) {
  return markdown(text, (part) => linkCitations(part, citations));
}

function sources(citations) {
  if (!citations.length) return null;
  return [
    make("h3", {}, "Sources"),
    make("ol", { class: "sources" }, citations.map((one) =>
      make("li", { value: one.number > 0 && one.number < 1e9 ? one.number : null }, one.chunk_id
        ? [words.trail(one.title, one.chapter, one.section).join(" › "), " ", showIn(one.document, one.first_sid, one.last_sid, words.sentences(one.first_sid, one.last_sid)), make("small", {}, ` ${one.source_url}`, one.page !== null && `, page ${one.page}`)]
        : make("span", { class: "bad" }, tick(false), `[${one.number}] is cited, but there is no such source`)))),
  ];
}

function quotes(list) {
  if (!list.length) return null;
  return [
    make("h3", {}, "Quotes, checked against the text"),
    make("ul", { class: "quotes" }, list.map((one) =>
      make("li", { class: one.verified ? "held" : "bad" }, tick(one.verified), make("q", {}, one.text), " ", one.verified
        ? [make("span", { class: "verified" }, "verbatim in "), showIn(one.document, one.first_sid, one.last_sid, words.sentences(one.first_sid, one.last_sid))]
        : "not found verbatim in the sources"))),
  ];
}

function badge(mode) {
  return make("p", { class: "decided" }, make("b", { class: `mode ${mode}` }, mode), ` ${words.mode(mode)}`);
}

function renderAnswer(answer) {
  return make(
    "article",
    { class: "answer", "aria-busy": "false" },
    badge(answer.mode),
    make("div", { class: "spoken md" }, renderText(answer.answer, answer.citations)),
    quotes(answer.quotes),
    sources(answer.citations),
    answer.warnings.length > 0 && make("ul", { class: "notes" }, answer.warnings.map((notice) => make("li", { "data-code": notice.code }, notice.message))),
    make("p", { class: "hint" }, `${words.speaker(answer.decision_explain.used_llm)}; ${answer.processing_time_ms} ms. `, button("Why this mode?", () => emit("tab", "why"), { class: "link" })),
  );
}

/** Request an answer, show its text as it arrives, and return the complete answer. */
export async function ask(where, body, signal) {
  const panel = byId("panel-answer");
  const started = make("div", {}, make("p", { class: "waiting" }, "Looking for sources to answer from …"));
  const text = make("div", { class: "spoken md" });
  fill(panel, make("article", { class: "answer", "aria-busy": "true" }, started, text));
  let received = "";
  for await (const { event, data } of events("POST", where, { body: { ...body, stream: true }, signal })) {
    if (event === "problem") throw new Problem(data);
    if (event === "started") fill(started, badge(data.mode));
    else if (event === "piece") fill(text, renderText((received += data.text), []));
    else if (event === "finished") {
      const answer = typeof data.answer === "object" ? data.answer : data;
      fill(panel, renderAnswer(answer));
      say(`Answered: ${words.mode(answer.mode)}.`);
      return answer;
    }
  }
  throw new Problem({ detail: "The answer was interrupted.", code: "broken_off", retryable: true });
}

/** Show that there is no answer to the current question yet. */
export function invite(does, stale = false) {
  fill(
    byId("panel-answer"),
    make("div", { class: "empty" }, make("p", {}, stale ? "The reading position has changed since the last answer." : "No answer yet. Without a chat model, the answer quotes and cites the best passages."), button("Answer the question", does, { class: "small" })),
  );
}
