// The context: what the model gets, and, for a reader, what is withheld.

import { bar, button, byId, fill, make, quoted, say } from "../common/dom.js";
import { figure } from "../reading/blocks.js";
import { ordered, parted, topOf } from "./found.js";
import { card, showIn, veiled } from "./passage.js";
import { asReader, entryName, isPreview, may, placeOf, state } from "../common/state.js";
import { texts } from "../common/texts.js";
import * as words from "../common/words.js";

const t = texts.ask.context;
const BUDGET = 4000;
const ASIDE = new Set(["floor_does_not_discriminate"]);
/** The order that was chosen; null is by rank, or in reading order if all passages are of one book. */
let order = null;
let last = null;

const tokens = (found) =>
  make("span", { class: "budget", title: t.tokensTitle({ limit: BUDGET }) }, bar(found.tokens / BUDGET, "budget"), texts.counts.tokens({ count: found.tokens }));

const status = (found) => make("strong", { class: `status ${found.status}` }, words.status(found.status));

function summary(found) {
  return make(
    "div",
    { class: "summary" },
    status(found),
    make("span", {}, texts.counts.passages({ count: found.passages.length })),
    tokens(found),
    make("span", { class: "grow" }),
    choice(found),
    copy(found),
  );
}

function byRank({ passages }) {
  if (order) return order === "rank";
  const [first, ...others] = new Set(passages.map((one) => one.document));
  return others.length > 0 || state.documents.find((one) => one.number === first)?.kind !== "book";
}

function choice(found) {
  const choose = (event) => {
    order = event.target.value;
    show(last);
    byId("order").focus();
  };
  return make(
    "select",
    { id: "order", class: "order", "aria-label": t.order, onchange: choose },
    make("option", { value: "rank", selected: byRank(found) }, t.byRank),
    make("option", { value: "place", selected: !byRank(found) }, t.byPlace),
  );
}

function copy(found) {
  if (!navigator.clipboard || !found.context) return null;
  return button(t.copy, () => {
    navigator.clipboard.writeText(found.context).then(() => say(t.copied), () => say(t.notCopied));
  }, { class: "small quiet", title: t.copyTitle });
}

function notes(found) {
  const warned = found.warnings.filter((notice) => !ASIDE.has(notice.code));
  const located = found.located.map((place) =>
    make("li", { class: "located" }, `${t.selectionIn} `, make("b", {}, words.trail(place.path, place.chapter).join(" › ")), ", ", showIn(place.document, place.first_sid, place.last_sid, words.sentences(place.first_sid, place.last_sid)), "."),
  );
  const said = warned.map((notice) => make("li", { "data-code": notice.code }, words.notice(notice)));
  return said.length + located.length ? make("ul", { class: "notes" }, located, said) : null;
}

function cards(passages, found, signal) {
  const ranks = new Map(ordered(found.passages, true).map((one, at) => [one.id, at + 1]));
  const top = topOf(found.passages);
  return passages.map((one) =>
    card(one, {
      rank: ranks.get(one.id),
      top,
      figures: one.figure ? [one.figure] : found.figures.filter((note) => note.parent_chunk_id === one.id),
      signal,
    }),
  );
}

function looseFigures(found) {
  const ids = new Set(found.passages.map((one) => one.id));
  const loose = found.figures.filter((note) => !ids.has(note.parent_chunk_id));
  if (!loose.length) return null;
  return [make("h3", {}, t.otherFigures), make("div", { class: "figures" }, loose.map(figure))];
}

function boundary() {
  const sid = state.position;
  const none = sid === null || sid < 0;
  const sentence = none ? "" : state.boundary || "";
  const place = none ? null : placeOf(sid);
  return make(
    "div",
    { class: "boundary", id: "boundary", role: "separator", "aria-label": t.position },
    make("span", { class: "boundary-label" }, none ? texts.reading.nothingReadYet : (isPreview() ? texts.reading.wouldBeAt : texts.reading.areAt)({ sid }), place && place.chapter && make("small", {}, ` ${entryName(place)}`)),
    sentence && quoted(sentence),
  );
}

function ledger(found, kept, ahead, whole) {
  const toward = (id) => () => byId(id).scrollIntoView({ block: "start" });
  return make(
    "div",
    { class: "ledger summary" },
    button([make("b", {}, kept.length), ` ${t.given}`], toward("given"), { class: "quiet sum given-sum" }),
    whole && button([make("b", {}, ahead.length), ` ${t.withheld}`], toward("withheld"), { class: "quiet sum ahead-sum" }),
    found.status !== "success" && status(found),
    tokens(found),
    make("span", { class: "grow" }),
    copy(found),
    boundary(),
  );
}

function reading(found, whole, signal) {
  const at = state.position === null ? -1 : state.position;
  const kept = parted(ordered(found.passages, false), at).given;
  const ahead = whole ? parted(ordered(whole.passages, false), at).ahead : [];
  const given = make(
    "section",
    { class: "given", id: "given", "aria-labelledby": "given-title" },
    make("h3", { id: "given-title" }, t.givenTitle, make("span", { class: "count" }, kept.length)),
    kept.length ? cards(kept, found, signal) : make("p", { class: "empty" }, t.nothingGiven),
  );
  return [ledger(found, kept, ahead, whole), notes(found), given, looseFigures(found), may("read") ? withheld(ahead, at, whole) : bound()];
}

function withheld(ahead, at, whole) {
  return make(
    "section",
    { class: "withheld", id: "withheld", "aria-labelledby": "withheld-title" },
    make("h3", { id: "withheld-title" }, t.withheldTitle, make("span", { class: "count" }, ahead.length)),
    !whole && make("p", { class: "empty" }, texts.ask.loading),
    whole && !ahead.length && make("p", { class: "empty" }, t.nothingWithheld),
    ahead.map((one) => veiled(one, at)),
  );
}

function bound() {
  return make("p", { class: "empty" }, t.bound);
}

/** Show a result; `whole` is the result without a position, for callers who may see it. */
export function show(result) {
  last = result;
  const panel = byId("panel-context");
  if (!result) return;
  const { found, whole, signal } = result;
  byId("count-context").textContent = found.passages.length;
  if (asReader()) fill(panel, reading(found, whole, signal));
  else {
    const empty = !found.passages.length && make("p", { class: "empty" }, t.nothingFound);
    fill(panel, summary(found), notes(found), empty, cards(ordered(found.passages, byRank(found)), found, signal), looseFigures(found));
  }
}

/** Show the same result at another position, before the server has answered. */
export function showAgain() {
  if (last && asReader()) show(last);
}

/** Return the result that is shown. */
export const shown = () => last;

/** Clear the result. */
export function forget() {
  last = null;
  byId("count-context").textContent = "";
}
