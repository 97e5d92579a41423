// The sources of an answer as numbered cards, and the closest passages where there is no answer.

import { fill, make, tick } from "../common/dom.js";
import { texts } from "../common/texts.js";
import * as words from "../common/words.js";
import { plain } from "./letters.js";
import { ordered, topOf } from "./found.js";
import { card, languageOf, showIn } from "./passage.js";

const MAX_CLOSEST = 3;

/** Return the sentences to highlight for a source: a quote of a part of it, else its best sentence. */
export function bestOf(citation, quotes = []) {
  const size = citation.last_sid - citation.first_sid;
  const parts = quotes.filter((one) => one.verified && one.chunk_id === citation.chunk_id && one.last_sid - one.first_sid < size);
  if (parts.length === 1) return { first: parts[0].first_sid, last: parts[0].last_sid };
  const best = citation.best_sentence;
  return best ? { first: best.sid, last: best.sid } : null;
}

/** Return the passage of a source and the beginning of its text, as far as they are loaded. */
function known(turn, citation) {
  const note = turn.answer.retrieved_chunks_metadata?.find((one) => one.chunk_id === citation.chunk_id);
  return turn.result?.found.passages.find((one) => one.id === citation.chunk_id) || note || null;
}

function excerpt({ text, match }) {
  const best = match && match.start !== null ? Array.from(text).slice(match.start, match.end).join("") : text;
  return best.replace(/\s+/g, " ").trim();
}

/** Return whether an answer names the place of a source itself, as one that consists of quotes does. */
const isNamed = (answer, one) => Boolean(one.chunk_id) && answer.split("\n").some((line) => line.startsWith(`[${one.number}] `) && line.includes(`(${one.source_url}`));

function source(turn, one) {
  if (!one.chunk_id) return make("li", { class: "source bad" }, make("b", { class: "source-number" }, one.number), make("p", {}, tick(false), texts.ask.noSource({ number: one.number })));
  const passage = known(turn, one);
  const text = passage && excerpt(passage);
  return make("li", { class: "source" },
    make("b", { class: "source-number" }, one.number),
    make("div", { class: "source-body" },
      make("p", { class: "source-place" }, make("span", {}, words.place(one)), words.best(one) && make("small", {}, words.best(one)), passage && languageOf(passage.language)),
      text && !plain(turn.answer.answer).includes(plain(text)) && make("p", { class: "source-text", lang: passage.language || null }, text),
      make("p", { class: "source-foot" },
        showIn(one.document, one.first_sid, one.last_sid, words.sentences(one.first_sid, one.last_sid), bestOf(one, turn.answer.quotes)),
        make("small", {}, one.source_url),
        one.other_places.map((other) => make("small", {}, texts.ask.alsoAt({ place: words.place(other) }))))));
}

/** Show the sources of an answer that it does not name itself, without excerpts that it quotes. */
export function showSources(box, turn) {
  const citations = turn.answer.citations.filter((one) => !isNamed(turn.answer.answer, one));
  fill(box, citations.length > 0 && [make("h3", {}, texts.ask.sources), make("ol", { class: "sources" }, citations.map((one) => source(turn, one)))]);
}

function notes(list) {
  return make("ul", { class: "closest" }, list.map((one) =>
    make("li", {}, words.place(one, [one.source_url, one.chapter, one.section]), make("small", {}, ` ${words.score(one.similarity)}`), make("p", {}, one.text))));
}

/** Show the closest passages of a question that was not answered. */
export function showClosest(box, turn) {
  const { answer, result } = turn;
  const passages = answer.decision_explain?.refusal || answer.near_misses?.length ? result?.found.passages ?? [] : [];
  const closest = ordered(passages, true).slice(0, MAX_CLOSEST);
  fill(box, closest.length
    ? [make("h3", {}, texts.ask.closest), closest.map((one) => card(one, { top: topOf(closest), signal: result.signal }))]
    : answer.near_misses?.length > 0 && [make("h3", {}, texts.ask.closest), notes(answer.near_misses)]);
}
