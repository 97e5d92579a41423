// The answer of a turn: its text as it arrives, citations that link into the document, checked
// quotes, and how far the passages support it.

import { button, fill, make, quoted, say, tick } from "../common/dom.js";
import { markdown } from "../common/markdown.js";
import { emit } from "../common/state.js";
import { texts } from "../common/texts.js";
import { offerModel } from "../start/model.js";
import * as words from "../common/words.js";
import { showIn } from "./passage.js";
import { failure, markQuotes } from "./quotes.js";
import { rating } from "./rating.js";
import { bestOf, showClosest, showSources } from "./sources.js";
import { figure, markUnsupported } from "./support.js";

/** Warnings that the quotes and the marks show. */
const SEEN = new Set(["unverified_quote", "misattributed_quote", "unsupported_sentence"]);
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
  return [...parts, text.slice(from)].flat(Infinity).filter((part) => part !== "");
}

function mark(piece, citation) {
  if (!citation) return piece;
  const link = showIn(citation.document, citation.first_sid, citation.last_sid, piece, bestOf(citation));
  link.classList.add("cite");
  link.setAttribute("aria-label", texts.ask.sourceNumber({ number: piece, place: words.place(citation, [citation.title, citation.chapter]) }));
  return link;
}

/** Return the text of an answer as elements, with links to what it cites. */
export const textOf = (text, citations) => markdown(text, (part) => linkCitations(part, citations));

/** Return whether an answer is from the sources, as a badge. */
export function badge(mode, refused = false) {
  return make("p", { class: "decided" }, make("b", { class: `mode ${mode}`, "data-mode": mode }, refused ? texts.ask.refused : words.mode(mode)));
}

function note(answer) {
  const used = answer.decision_explain?.used_llm;
  const spoken = used && !(used === "none" && answer.mode === "fallback");
  const parts = [spoken && words.speaker(used), answer.processing_time_ms !== undefined && texts.ask.took({ milliseconds: answer.processing_time_ms })];
  const offer = used === "none" && offerModel();
  return make("span", { class: "hint" }, parts.filter(Boolean).join("; "), offer && [" ", offer]);
}

/** Let each citation lead to the sentence that supports its own claim, where that is known. */
function aim(spoken, { answer, citations, support }) {
  const marks = [...spoken.querySelectorAll(".cite")];
  const numbers = new Set(citations.filter((one) => one.chunk_id).map((one) => String(one.number)));
  const cited = [...answer.matchAll(CITED)].flatMap((found) => found[1].match(/\d+/g).filter((number) => numbers.has(number)).map((number) => ({ number, at: found.index })));
  if (!support || cited.length !== marks.length) return;
  for (const [place, { number, at }] of cited.entries()) {
    const offset = Array.from(answer.slice(0, at)).length;
    const claim = support.sentences.findLast((one) => one.start <= offset && offset <= one.end + 2);
    if (claim?.place && String(claim.source) === number) marks[place].dataset.best = `${claim.place.sid}-${claim.place.sid}`;
  }
}

/** Show what the context of a turn tells about its sources, once it is loaded. */
export function learned(turn) {
  if (turn.state !== "done" || !turn.learn) return;
  showClosest(turn.learn.closest, turn);
  showSources(turn.learn.sources, turn);
}

function finished(turn) {
  const { answer } = turn;
  const spoken = make("div", { class: "spoken md" }, textOf(answer.answer, answer.citations));
  aim(spoken, answer);
  const lost = markQuotes(spoken, answer.quotes, answer.citations).filter((one) => !one.verified);
  if (answer.support) markUnsupported(spoken, answer.support, answer.answer);
  turn.learn = { closest: make("div", { class: "closest-box" }), sources: make("div", { class: "sources-box" }) };
  learned(turn);
  const warnings = (answer.warnings || []).filter((notice) => !SEEN.has(notice.code));
  return [
    make("div", { class: "answer-head" }, badge(answer.mode, Boolean(answer.decision_explain?.refusal)), answer.support && figure(answer.support)),
    spoken,
    turn.learn.closest,
    lost.length > 0 && make("ul", { class: "quotes" }, lost.map((one) => make("li", { class: "bad" }, tick(false), quoted(one.text), " ", failure(one)))),
    turn.learn.sources,
    warnings.length > 0 && make("ul", { class: "notes" }, warnings.map((notice) => make("li", { "data-code": notice.code }, words.notice(notice)))),
    make("div", { class: "answer-foot" },
      rating(turn),
      navigator.clipboard && copyButton(turn),
      button(texts.ask.whyMode, () => emit("turn-tab", { turn, tab: "why" }), { class: "small quiet why-mode" }),
      note(answer)),
  ];
}

function copyButton(turn) {
  const cites = turn.answer.citations.length > 0;
  const label = cites ? texts.ask.copy : texts.ask.copyPlain;
  const press = button(label, async () => {
    press.textContent = (await copyAnswer(turn)) ? texts.ask.copied : texts.ask.notCopied;
    setTimeout(() => (press.textContent = label), 2500);
  }, { class: "small quiet copy", title: cites && texts.ask.copyTitle });
  return press;
}

/** Show what arrived of an answer that did not come to its end, and why. */
function broken(turn, again) {
  const stopped = turn.state === "stopped";
  return [
    turn.received && make("div", { class: "spoken md partial" }, textOf(turn.received, [])),
    make("div", { class: `broken ${turn.state}`, role: stopped ? null : "alert", "data-code": turn.problem?.code },
      make("p", {},
        make("strong", {}, stopped ? texts.ask.stopped : turn.problem.message), " ",
        turn.received ? texts.ask.unchecked : "",
        !stopped && turn.problem.advice && !turn.problem.message.includes(turn.problem.advice) && ` ${turn.problem.advice}`),
      make("p", { class: "row" },
        button(texts.ask.askAgain, again, { class: "small" }),
        turn.problem && make("code", {}, turn.problem.code))),
  ];
}

function invitation(again) {
  return make("div", { class: "empty" }, make("p", {}, texts.ask.noAnswer), button(texts.ask.answerIt, again, { class: "small" }));
}

/** Fill the article of a turn with its answer, or with what there is instead. */
export function render(turn, again) {
  const { article } = turn;
  turn.parts = null;
  article.setAttribute("aria-busy", String(turn.state === "asking"));
  article.dataset.state = turn.state;
  article.classList.toggle("answer", turn.state !== "context");
  if (turn.state === "asking") {
    turn.parts = { head: make("div", { class: "answer-head" }, make("p", { class: "waiting" }, texts.ask.looking)), text: make("div", { class: "spoken md" }) };
    fill(article, turn.parts.head, turn.parts.text);
  } else if (turn.state === "done") fill(article, finished(turn));
  else if (turn.state === "context") fill(article, invitation(again));
  else if (turn.state === "damaged") fill(article, make("p", { class: "empty bad" }, texts.ask.damagedTurn));
  else fill(article, broken(turn, again));
}

/** Show that the answer has begun. */
export function begin(turn, mode) {
  if (turn.parts) fill(turn.parts.head, badge(mode), make("span", { class: "waiting" }, texts.ask.writing));
}

/** Show one more piece of the answer, at most once in a frame. */
export function extend(turn, text) {
  turn.received += text;
  if (turn.painting) return;
  turn.painting = true;
  requestAnimationFrame(() => {
    turn.painting = false;
    if (turn.parts) fill(turn.parts.text, textOf(turn.received, []));
  });
}

function sourceLine(one) {
  if (!one.chunk_id) return texts.ask.noSource({ number: one.number });
  return `[${one.number}] ${[words.place(one), words.best(one)].filter(Boolean).join("; ")} (${words.sentences(one.first_sid, one.last_sid)}, ${one.source_url})`;
}

/** Return an answer as text: what was written, its sources, and what could not be confirmed. */
export function textWithCitations({ answer }) {
  const unfound = answer.quotes.filter((one) => !one.verified).map((one) => texts.ask.quoteNotFound({ text: one.text }));
  const signs = [...answer.answer];
  const doubted = (answer.support?.sentences || []).filter((one) => !one.supported);
  const doubts = doubted.map((one) => texts.ask.copiedDoubt({ text: signs.slice(one.start, one.end).join("").trim() }));
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
