// Quotes of an answer: behind each a mark that leads to its sentences, or says that it was not found.

import { button, make, tick } from "../common/dom.js";
import { emit } from "../common/state.js";
import { texts } from "../common/texts.js";
import * as words from "../common/words.js";
import { lettersOf, plain, putBehind, split } from "./letters.js";
import { doubt } from "./support.js";

/** Return the sentences of a passage to show, and those of the quote among them. */
function target(quote, citations) {
  const passage = citations.find((one) => one.chunk_id === quote.chunk_id) || quote;
  return { document: quote.document, first: passage.first_sid, last: passage.last_sid, best: { first: quote.first_sid, last: quote.last_sid } };
}

const placeOf = (one) => [words.sentences(one.first_sid, one.last_sid), one.place?.location].filter(Boolean).join(", ");

const TAGS = { "": "span", quote: "del", source: "ins" };

/** Return what is wrong with a quote: the difference from its source, or the places it is joined from. */
export function failure(quote) {
  if (quote.verdict === "changed") {
    const parts = quote.difference.map((one) => [make(TAGS[one.only_in], {}, one.text), " "]);
    return [texts.ask.quoteChanged({ place: placeOf(quote) }), " ", ...parts.flat()];
  }
  if (quote.verdict === "stitched") return [texts.ask.quoteStitched({ places: quote.parts.map(placeOf).join("; ") })];
  if (quote.verdict === "misattributed") return [texts.ask.quoteMisattributed({ place: placeOf(quote) })];
  return [texts.ask.notVerbatim];
}

function mark(quote, citations) {
  if (!quote.verified || quote.verdict === "misattributed") return doubt(failure(quote), [], { sign: tick(false), name: texts.ask.notVerbatim, kind: "quote-bad" });
  const label = texts.ask.verbatim({ place: placeOf(quote) });
  return button(tick(true), () => emit("show", target(quote, citations)), { class: "quote-mark", "aria-label": label, title: label });
}

/** Put a mark behind a quote: before the source that follows a block quote, which has only the words of the source. */
function putBehindQuote(letters, last, sign) {
  const block = letters[last].node.parentElement.closest("blockquote");
  const next = block?.nextElementSibling;
  if (!block) putBehind(letters, last, sign);
  else if (next?.matches("p") && next.querySelector(".cite")) next.prepend(sign, " ");
  else if (next?.matches(".quote-marks")) next.append(sign);
  else block.after(make("p", { class: "quote-marks" }, sign));
}

/** Put a mark behind each quote; return the quotes that are not found in the text. */
export function markQuotes(spoken, quotes, citations) {
  let from = 0;
  const lost = [];
  for (const quote of quotes) {
    const letters = lettersOf(spoken);
    const line = letters.map((one) => one.sign).join("");
    const wanted = plain(quote.text);
    const after = line.indexOf(wanted, from);
    const at = after < 0 ? line.indexOf(wanted) : after;
    if (!wanted || at < 0) lost.push(quote);
    else {
      from = at + wanted.length;
      const { node, at: end } = letters[from - 1];
      if (end + 1 < node.length) split(letters, node, end + 1);
      putBehindQuote(letters, from - 1, mark(quote, citations));
    }
  }
  return lost;
}
