// Copying an answer with its citations: the text with [n], then the sources with their places.

import { say } from "../common/dom.js";
import { texts } from "../common/texts.js";
import * as words from "../common/words.js";

function sourceLine(one) {
  if (!one.chunk_id) return texts.ask.noSource(one.number);
  return `[${one.number}] ${[words.place(one), words.best(one)].filter(Boolean).join("; ")} (${words.sentences(one.first_sid, one.last_sid)}, ${one.source_url})`;
}

/** Return an answer as text: what was written, its sources, and what could not be confirmed. */
export function textWithCitations({ answer }) {
  const unfound = answer.quotes.filter((one) => !one.verified).map((one) => texts.ask.quoteNotFound(one.text));
  const signs = [...answer.answer];
  const doubted = (answer.support?.sentences || []).filter((one) => !one.supported);
  const doubts = doubted.map((one) => texts.ask.copiedDoubt(signs.slice(one.start, one.end).join("").trim()));
  const parts = [
    answer.answer.trim(),
    answer.citations.length && [texts.ask.sources, ...answer.citations.map(sourceLine)].join("\n"),
    [...unfound, ...doubts].join("\n"),
  ];
  return parts.filter(Boolean).join("\n\n");
}

/** Copy an answer with its sources; returns whether that worked. */
export async function copyAnswer(turn) {
  let copied = true;
  try {
    await navigator.clipboard.writeText(textWithCitations(turn));
  } catch {
    copied = false;
  }
  say(copied ? texts.ask.copied : texts.ask.notCopied);
  return copied;
}
