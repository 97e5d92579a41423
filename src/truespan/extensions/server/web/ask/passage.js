// A passage as a card: its similarity, its place, its hash and its text.

import { bar, button, make, tick } from "../common/dom.js";
import { citedBy, figure, insideMark, marked, passageBlocks } from "../reading/blocks.js";
import { emit } from "../common/state.js";
import { rankScore } from "./found.js";
import { language, languageName, texts } from "../common/texts.js";
import * as words from "../common/words.js";

/** Return a button that shows sentences in the reader pane; `best` are those to highlight most. */
export function showIn(document, first, last, label, best = null) {
  const press = button(label, () => emit("show", { document, first, last, best: chosen(press.dataset.best) }), {
    class: "link",
    "data-show": `${document}:${first}-${last}`,
    "data-best": best && `${best.first}-${best.last}`,
  });
  return press;
}

function chosen(range) {
  const [first, last] = range ? range.split("-").map(Number) : [];
  return range ? { first, last } : null;
}

/** Return the language of a passage that is not in the language of the page. */
export function languageOf(code) {
  return code && code.split("-")[0] !== language && make("span", { class: "chip language" }, languageName(code, language));
}

const bestOf = ({ match, best_sentence: best }) => {
  const sid = match?.sid ?? best?.sid;
  return sid === undefined ? null : { first: sid, last: sid };
};

function head(one, rank, top) {
  const { name, score } = rankScore(one);
  return make(
    "header",
    { class: "card-head" },
    make("span", { class: "score", title: texts.ask.rankScores[name] }, bar(score === null ? 0 : name === "similarity" ? score : score / top), score === null ? "–" : words.score(score)),
    make("span", { class: "where" }, words.place(one), words.best(one) && make("small", {}, ` ${words.best(one)}`)),
    languageOf(one.language),
    rank > 0 && make("span", { class: "rank", title: texts.ask.rank }, `#${rank}`),
  );
}

function foot(one) {
  const receipt = texts.ask.checkedWith({ hash: one.hash, generation: one.generation });
  return make(
    "footer",
    { class: "card-foot" },
    make("span", { class: "verified", title: receipt }, tick(true), texts.ask.verified, make("code", {}, one.hash.slice(0, 8))),
    showIn(one.document, one.first, one.last, words.sentences(one.first, one.last), bestOf(one)),
    make("span", {}, one.source),
    one.others.map((other) => make("span", { class: "also" }, texts.ask.alsoAt({ place: words.place(other) }), " ", showIn(other.document, other.first_sid, other.last_sid, words.sentences(other.first_sid, other.last_sid)))),
    make("span", {}, texts.counts.tokens({ count: one.tokens })),
    rankScore(one).name !== "similarity" && make("span", { title: texts.ask.rankScores.similarity }, texts.ask.similarityOf({ score: words.score(one.score) })),
    one.fused && make("span", {}, texts.ask.wordScore({ score: words.decimal(one.fused.bm25, 2) })),
    one.rerank && make("span", { title: one.rerank.model }, texts.ask.rerankedFrom({ rank: one.rerank.before })),
  );
}

/** Return what converts a place in a text from characters, as the server counts, to code units. */
function unitsOf(text) {
  if (!/[\ud800-\udfff]/.test(text)) return (place) => place;
  const starts = [];
  let at = 0;
  for (const character of text) {
    starts.push(at);
    at += character.length;
  }
  return (place) => starts[place] ?? text.length;
}

/** Return the marks of what matches in a passage: its best sentence, and words. */
function marksOf({ text, match }) {
  if (!match) return [];
  const unit = unitsOf(text);
  // A figure mark is replaced as a whole, so no word of the mark is highlighted.
  const words = match.words
    .map(([start, end]) => ({ start: unit(start), end: unit(end), tag: "b", class: "hit" }))
    .filter((one) => !insideMark(text, one.start, one.end));
  if (match.start === null) return words;
  const best = { start: unit(match.start), end: unit(match.end), tag: "mark", class: "best", title: texts.ask.bestSentence };
  // A word that lies across the edge of the sentence cannot be in one element with it.
  return [best, ...words.filter((one) => one.end <= best.start || one.start >= best.end || (one.start >= best.start && one.end <= best.end))];
}

function textOf(one) {
  return passageBlocks(one.text, { marks: marksOf(one), labels: [one.title, one.chapter, one.section] });
}

function clamped(one) {
  const body = make("div", { class: "card-text clamp", lang: one.language || null }, textOf(one));
  const more = button(texts.ask.showAll, () => {
    const open = body.classList.toggle("clamp");
    more.textContent = open ? texts.ask.showAll : texts.ask.showLess;
    more.setAttribute("aria-expanded", String(!open));
    aim();
  }, { class: "link more-text", "aria-expanded": "false", hidden: true });
  // A part of a long passage is shown, and it is the part that matches.
  const aim = () => {
    const best = body.querySelector("mark.best");
    const below = body.classList.contains("clamp") && best ? best.getBoundingClientRect().bottom - body.getBoundingClientRect().bottom + body.scrollTop : 0;
    body.scrollTop = below > 0 ? Math.min(below + 24, best.getBoundingClientRect().top - body.getBoundingClientRect().top + body.scrollTop - 8) : 0;
    body.classList.toggle("from-inside", body.scrollTop > 0);
  };
  // It may be rendered in a tab that is not shown yet, where it has no height.
  new ResizeObserver(() => {
    if (!body.clientHeight || !body.classList.contains("clamp")) return;
    more.hidden = body.scrollHeight <= body.clientHeight + 4;
    aim();
  }).observe(body);
  return [body, more];
}

function figuresOf(one, figures, signal) {
  const beside = make("div", { class: "beside", hidden: figures.length === 0 }, figures.map(figure));
  const have = new Set(figures.map((note) => note.figure_id));
  const missing = marked(one.text).filter((id) => !have.has(id));
  if (missing.length) {
    // The text marks figures; their descriptions are fetched with the caller's token.
    citedBy(one, signal).then((notes) => {
      const rest = notes.filter((note) => !have.has(note.figure_id));
      beside.append(...rest.map(figure));
      beside.hidden = beside.childElementCount === 0;
    }, () => {});
  }
  return beside;
}

/** Return the card of a passage that the model gets; `top` is the best score by which the passages are ranked. */
export function card(one, { rank = 0, top = 1, figures = [], signal } = {}) {
  return make(
    "article",
    { class: "card", "data-chunk": one.id, "data-first": one.first, "data-last": one.last },
    head(one, rank, top),
    make("div", { class: "card-body" }, make("div", {}, clamped(one)), figuresOf(one, figures, signal)),
    foot(one),
  );
}

/** Return the card of a withheld passage. Its text is not on the page until the user reveals it, so
 * that it is not seen or heard by accident. */
export function veiled(one, position) {
  const cut = one.first <= position;
  const text = make("div", { class: "veil-text", "aria-hidden": "true" }, make("i"), make("i"), make("i"));
  const reveal = button(texts.ask.reveal, () => {
    const shown = make("div", { class: "card-text", tabindex: "-1" }, textOf(one));
    text.replaceWith(shown);
    reveal.remove();
    shown.focus();
  }, { class: "small quiet", "aria-label": texts.ask.revealSentences({ sentences: words.sentences(one.first, one.last) }) });
  return make(
    "article",
    { class: "card ahead", "data-first": one.first, "data-last": one.last },
    make(
      "header",
      { class: "card-head" },
      make("span", { class: "score" }, bar(one.score, "dim"), words.score(one.score)),
      make("span", { class: "where" }, cut ? texts.ask.cutAt : texts.ask.past),
      reveal,
    ),
    text,
    make(
      "footer",
      { class: "card-foot" },
      make("span", {}, words.sentences(one.first, one.last)),
      make("span", {}, cut
        ? texts.ask.givenUpTo({ sid: position })
        : texts.ask.ahead({ count: one.first - position })),
    ),
  );
}
