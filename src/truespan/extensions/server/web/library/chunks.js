// The chunks of a document over its text: where each begins and ends, and what two of them share.

import { get, path } from "../common/api.js";
import { button, complain, fill, make } from "../common/dom.js";
import { figure, marked, unmarked } from "../reading/blocks.js";
import { worldPath } from "../common/state.js";
import { texts } from "../common/texts.js";
import { listed, whole } from "../common/words.js";

const own = texts.library;
const PAGE = 40;

const placed = (chunks) => (chunks.length === 1 ? own.inChunk({ index: chunks[0].index }) : own.inChunks({ indexes: listed(chunks.map((one) => whole(one.index))) }));

/** Offsets count code points, and strings of JavaScript count UTF-16 units. */
function slice(text, from, to) {
  return /[\ud800-\udfff]/.test(text) ? Array.from(text).slice(from, to).join("") : text.slice(from, to);
}

/** Shows the chunks of one document, page by page. */
export class Chunks {
  constructor(number) {
    this.where = worldPath() + path`/documents/${number}/chunks`;
    this.flow = make("div", { class: "chunk-flow", id: "chunk-flow" });
    this.info = make("section", { class: "chunk-info", id: "chunk-info", "aria-live": "polite", "aria-label": own.chunkInfo });
    this.clear();
    this.more = button(own.moreChunks, () => this.next().catch(complain), { class: "quiet", id: "more-chunks" });
    this.jump = make("input", { type: "number", id: "chunk-number", min: 1, inputmode: "numeric", "aria-label": own.goToChunk });
    this.total = make("span", { class: "hint" });
    this.legend = make(
      "p",
      { class: "chunk-legend" },
      make("span", {}, make("i", { class: "seg even" }), make("i", { class: "seg odd" }), " ", own.legendChunk),
      make("span", {}, make("i", { class: "seg shared" }), " ", own.legendShared),
      make("span", {}, make("i", { class: "seg beside" }), " ", own.legendBeside),
      make("span", {}, make("i", { class: "seg bad-chunk" }), " ", own.legendBad),
    );
    this.shown = make(
      "section",
      { class: "chunks", "aria-labelledby": "chunks-title" },
      make("div", { class: "chunks-head" }, make("h3", { id: "chunks-title" }, own.chunksTitle), make("span", { class: "row" }, own.goTo, this.jump, this.total)),
      this.legend,
      make("div", { class: "chunk-panes" }, make("div", {}, this.flow, this.more), this.info),
    );
    this.jump.addEventListener("change", () => this.begin(Math.max(1, Number(this.jump.value) || 1) - 1).catch(complain));
    this.flow.addEventListener("click", (event) => this.choose(event.target.closest("[data-chunk]")));
    this.turn = 0;
  }

  /** Load from this chunk on; returns the page, which describes the revision too. */
  async begin(first = 0) {
    this.turn += 1;
    this.first = first;
    this.at = first;
    this.end = 0;
    this.held = [];
    this.known = new Map();
    fill(this.flow);
    this.clear();
    return this.next();
  }

  async next() {
    const mine = this.turn;
    const page = await get(`${this.where}?offset=${this.at}&limit=${PAGE}`);
    if (mine !== this.turn) return page;
    this.at = page.offset + page.chunks.length;
    this.jump.max = page.total;
    this.total.textContent = own.ofChunks({ total: page.total });
    for (const one of page.chunks) this.known.set(one.index, one);
    const last = this.at >= page.total;
    this.add([...this.held, ...page.chunks], last);
    this.more.hidden = last || !page.chunks.length;
    return page;
  }

  /**
   * Draw chunks. The last ones wait for the next page, which says what they share with it.
   */
  add(chunks, last) {
    const texts = chunks.filter((one) => one.chunk_type === "text");
    const limit = last || !texts.length ? Infinity : texts.at(-1).start;
    this.held = last ? [] : chunks.filter((one) => one.end > limit || one.start >= limit);
    const edges = new Set();
    for (const one of texts) for (const edge of [one.context_start, one.start, one.end]) if (edge >= this.end) edges.add(Math.min(edge, limit));
    for (const one of chunks) if (one.chunk_type === "figure" && one.start >= this.end) edges.add(Math.min(one.start, limit));
    if (texts.some((one) => one.start < this.end)) edges.add(this.end);
    const ordered = [...edges].filter((edge) => edge <= limit).sort((one, other) => one - other);
    const drawn = new Set();
    for (const [at, from] of ordered.entries()) {
      for (const one of chunks) {
        if (drawn.has(one.index) || one.start !== from || one.start >= limit) continue;
        drawn.add(one.index);
        this.flow.append(one.chunk_type === "figure" ? this.figure(one) : this.mark(one));
      }
      const to = ordered[at + 1];
      if (to === undefined || to <= from) continue;
      const holders = texts.filter((one) => one.start <= from && one.end >= to);
      const beside = texts.filter((one) => one.context_start <= from && one.start >= to && one.start > one.context_start);
      const source = holders.find((one) => one.text !== null);
      if (source) this.flow.append(this.segment(source, from, to, holders, beside));
      else if (holders.length) this.flow.append(make("span", { class: "seg bad-chunk missing", "data-chunk": holders[0].index }, own.textNotShown({ count: to - from })));
      this.end = Math.max(this.end, to);
    }
  }

  segment(source, from, to, holders, beside) {
    const bad = holders.some((one) => one.state === "quarantined" || !one.intact);
    const waits = holders.some((one) => one.state === "pending");
    const kind = ["seg", holders.length > 1 ? "shared" : holders[0].index % 2 ? "odd" : "even", beside.length && "beside", bad && "bad-chunk", waits && "waiting"];
    const words = slice(source.text, from - source.start, to - source.start);
    return make(
      "span",
      { class: kind.filter(Boolean).join(" "), "data-chunk": holders.at(-1).index, "data-chunks": holders.map((one) => one.index).join(" "), title: placed(holders) },
      marked(words).length ? unmarked(words) : words,
    );
  }

  /** Return the label at the start of a chunk. */
  mark(one) {
    const bad = one.state !== "embedded" || !one.intact;
    return make("button", { type: "button", class: bad ? "chunk-mark bad-mark" : "chunk-mark", "data-chunk": one.index, "aria-label": own.chunkNumber({ index: one.index }) }, one.index);
  }

  figure(one) {
    const note = { figure_id: one.figure?.figure_id ?? "", image_ref: one.figure?.image_ref ?? null, description: one.text };
    return make("div", { class: "chunk-figure", "data-chunks": String(one.index) }, this.mark(one), figure(note));
  }

  choose(node) {
    if (!node) return;
    const one = this.known.get(Number(node.dataset.chunk));
    if (!one) return;
    for (const each of this.flow.querySelectorAll(".chosen-chunk")) each.classList.remove("chosen-chunk");
    for (const each of this.flow.querySelectorAll("[data-chunks]")) if (each.dataset.chunks.split(" ").includes(String(one.index))) each.classList.add("chosen-chunk");
    const fact = (name, value) => value !== null && value !== undefined && value !== "" && [make("dt", {}, name), make("dd", {}, value)];
    const reason = one.reason ? own.chunkReasons[one.reason] || one.reason : null;
    fill(
      this.info,
      make("div", { class: "row" }, make("h4", {}, own.chunkNumber({ index: one.index })), button("×", () => this.clear(), { class: "small quiet", "aria-label": own.closeChunk })),
      !one.intact && make("p", { class: "bad" }, own.notIntact),
      make(
        "dl",
        { class: "facts" },
        fact(own.facts.state, own.chunkStates[one.state] || one.state),
        fact(own.facts.reason, reason),
        fact(own.facts.characters, own.span({ first: one.start, last: one.end })),
        one.context_start < one.start && fact(own.facts.beside, own.span({ first: one.context_start, last: one.start })),
        fact(own.facts.shared, this.sharedBy(one)),
        fact(own.facts.sentences, own.span({ first: one.first_sid, last: one.last_sid })),
        fact(own.facts.tokens, whole(one.tokens)),
        fact(own.facts.chapter, one.chapter),
        one.section !== one.chapter && fact(own.facts.section, one.section),
        fact(own.facts.location, one.location),
        fact(own.facts.id, make("code", {}, one.chunk_id)),
        fact(own.facts.hash, make("code", {}, one.text_hash)),
      ),
    );
  }

  /** Choose no chunk. */
  clear() {
    for (const each of this.flow.querySelectorAll(".chosen-chunk")) each.classList.remove("chosen-chunk");
    fill(this.info, make("p", { class: "hint" }, own.chooseChunk));
  }

  /** Return which neighbours a chunk shares text with, and how much. */
  sharedBy(one) {
    if (one.chunk_type !== "text") return null;
    const found = [...this.known.values()].filter((other) => other.index !== one.index && other.chunk_type === "text" && other.start < one.end && other.end > one.start);
    return found.map((other) => own.sharesWith({ index: other.index, count: Math.min(one.end, other.end) - Math.max(one.start, other.start) })).join(", ") || null;
  }
}
