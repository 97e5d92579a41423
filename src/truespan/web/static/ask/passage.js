// A passage as a card: its similarity, its place, its hash and its text.

import { bar, button, make, tick } from "../common/dom.js";
import { citedBy, figure, marked, unmarked } from "../reading/figures.js";
import { emit } from "../common/state.js";
import * as words from "../common/words.js";

/** Return a button that shows sentences in the reader pane. */
export function showIn(document, first, last, label) {
  return button(label, () => emit("show", { document, first, last }), {
    class: "link",
    "data-show": `${document}:${first}-${last}`,
  });
}

function head(one, rank) {
  return make(
    "header",
    { class: "card-head" },
    make("span", { class: "score", title: "Similarity to the question, 0 to 1" }, bar(one.score), words.score(one.score)),
    make("span", { class: "where" }, words.trail(one.title, one.chapter, one.section).join(" › ")),
    rank && make("span", { class: "rank", title: "Rank by similarity" }, `#${rank}`),
  );
}

function foot(one) {
  const receipt = `SHA-256 ${one.hash}, generation ${one.generation}`;
  return make(
    "footer",
    { class: "card-foot" },
    make("span", { class: "verified", title: receipt }, tick(true), "verified", make("code", {}, one.hash.slice(0, 8))),
    showIn(one.document, one.first, one.last, words.sentences(one.first, one.last)),
    make("span", {}, one.source),
    one.page !== null && one.page !== undefined && make("span", {}, `page ${one.page}`),
    make("span", {}, words.many(one.tokens, "token")),
    one.fused && make("span", {}, `words ${one.fused.bm25.toFixed(2)}`),
    one.rerank && make("span", { title: one.rerank.model }, `reranked, was ${one.rerank.before}`),
  );
}

function clamped(text) {
  const body = make("div", { class: "card-text clamp" }, text);
  const more = button("Show all", () => {
    const open = body.classList.toggle("clamp");
    more.textContent = open ? "Show all" : "Show less";
    more.setAttribute("aria-expanded", String(!open));
  }, { class: "link more-text", "aria-expanded": "false", hidden: true });
  // It may be rendered in a tab that is not shown yet, where it has no height.
  new ResizeObserver(() => {
    if (body.clientHeight && body.classList.contains("clamp")) more.hidden = body.scrollHeight <= body.clientHeight + 4;
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

/** Return the card of a passage that the model gets. */
export function card(one, { rank = 0, figures = [], signal } = {}) {
  return make(
    "article",
    { class: "card", "data-chunk": one.id, "data-first": one.first, "data-last": one.last },
    head(one, rank),
    make("div", { class: "card-body" }, make("div", {}, clamped(unmarked(one.text))), figuresOf(one, figures, signal)),
    foot(one),
  );
}

/** Return the card of a withheld passage. Its text is not on the page until the user reveals it, so
 * that it is not seen or heard by accident. */
export function veiled(one, position) {
  const cut = one.first <= position;
  const text = make("div", { class: "veil-text", "aria-hidden": "true" }, make("i"), make("i"), make("i"));
  const reveal = button("Reveal", () => {
    const shown = make("div", { class: "card-text", tabindex: "-1" }, unmarked(one.text));
    text.replaceWith(shown);
    reveal.remove();
    shown.focus();
  }, { class: "small quiet", "aria-label": `Reveal ${words.sentences(one.first, one.last)}, which are past the position` });
  return make(
    "article",
    { class: "card ahead", "data-first": one.first, "data-last": one.last },
    make(
      "header",
      { class: "card-head" },
      make("span", { class: "score" }, bar(one.score, "dim"), words.score(one.score)),
      make("span", { class: "where" }, cut ? "Cut at the position" : "Past the position"),
      reveal,
    ),
    text,
    make(
      "footer",
      { class: "card-foot" },
      make("span", {}, words.sentences(one.first, one.last)),
      make("span", {}, cut
        ? `the model gets it up to sentence ${position}`
        : `${words.many(one.first - position, "sentence")} ahead`),
    ),
  );
}
