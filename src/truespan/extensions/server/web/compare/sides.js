// The sides of a comparison: who asks, in which generation and how, where that is in the URL, and the
// two results row by row.

import { get, path, post } from "../common/api.js";
import { ofBundle, ordered } from "../ask/found.js";
import { may, state, worldPath } from "../common/state.js";
import { texts } from "../common/texts.js";

const NAMES = ["as", "reader", "sid", "generation", "mode", "rerank"];

/** Return a side from its text in the URL. What is missing has its default; the caller's rights decide who may ask. */
export function parse(text, fallback) {
  const given = text ? Object.fromEntries(new URLSearchParams(text)) : fallback;
  const side = Object.fromEntries(NAMES.map((name) => [name, String(given[name] ?? "")]));
  if (!may("read")) return { ...side, as: "reader", sid: "", generation: "" };
  return { ...side, as: side.as === "reader" ? "reader" : "owner" };
}

/** Return the text of a side for the URL. */
export function format(side) {
  const of = side.as === "reader" ? NAMES : NAMES.filter((name) => name !== "reader" && name !== "sid");
  return String(new URLSearchParams(of.filter((name) => side[name]).map((name) => [name, side[name]])));
}

/** Return what a side is called. */
export function label(side) {
  const t = texts.compare;
  const parts = [side.as === "reader" ? t.reader({ name: side.reader || state.reader }) : t.owner];
  if (side.as === "reader" && side.sid !== "") parts.push(t.upTo({ sid: side.sid }));
  if (side.generation) parts.push(t.generation({ number: side.generation }));
  if (side.mode) parts.push(t.modes[side.mode] || side.mode);
  if (side.rerank) parts.push(side.rerank === "true" ? t.reranked : t.notReranked);
  return parts.join(", ");
}

const readerOf = (side) => side.reader || state.reader;
const rerank = (side) => (side.rerank ? side.rerank === "true" : null);

function parameters(side) {
  const given = new URLSearchParams();
  if (side.generation) given.set("generation", side.generation);
  if (side.as === "reader" && side.sid !== "") given.set("sid", side.sid);
  return given.size ? `?${given}` : "";
}

/** Return where a side sends its question, and the body without the question. */
export function request(side, call, within) {
  const common = { mode: side.mode || null, rerank: rerank(side) };
  if (side.as === "reader") {
    return { where: worldPath() + path`/readers/${readerOf(side)}/` + call + parameters(side), body: { ...common, book: within } };
  }
  const body = { ...common, documents: within ? [within] : null, language: null, version: null };
  return { where: `${worldPath()}/${call}${parameters(side)}`, body };
}

/** Return the last sentence that a reader has read; null if there is no position in the book. */
async function positionOf(side, within, signal) {
  if (side.sid !== "") return Number(side.sid);
  try {
    return (await get(worldPath() + path`/readers/${readerOf(side)}/position?book=${within}`, signal)).sid;
  } catch (problem) {
    if (problem.code === "no_reading_position") return null;
    throw problem;
  }
}

async function retrieve(side, query, within, count, signal) {
  const { where, body } = request(side, "retrieve", within);
  return ofBundle(await post(where, { ...body, query, top_k: count }, signal));
}

/**
 * Ask one side. For a reader, `position` is where they are, and `whole` what the same request finds
 * without a position; it is null for callers who may not see that.
 */
export async function ask(side, query, within, count, signal) {
  if (side.as !== "reader") return { found: await retrieve(side, query, within, count, signal), position: undefined, whole: null };
  const everything = { ...side, as: "owner" };
  const [found, position, whole] = await Promise.all([
    retrieve(side, query, within, count, signal),
    positionOf(side, within, signal),
    may("read") ? retrieve(everything, query, within, count, signal) : null,
  ]);
  return { found, position, whole };
}

/** Return passages by rank, each with its rank. */
export const ranked = (passages) => ordered(passages, true).map((one, at) => ({ ...one, rank: at + 1 }));

/** Return how much of two passages is the same, from 0 to 1: shared sentences of all. */
export function overlap(a, b) {
  if (a.document !== b.document) return 0;
  const shared = Math.min(a.last, b.last) - Math.max(a.first, b.first) + 1;
  const all = Math.max(a.last, b.last) - Math.min(a.first, b.first) + 1;
  return shared > 0 ? shared / all : 0;
}

/**
 * Return rows of a left and a right passage that cover the same sentences, the best rank first. Chunks
 * of two generations differ, so sentences count and not ids. Each passage is in one row only; `near` is
 * a passage of the other side that shares sentences with one that has no partner.
 */
export function align(left, right) {
  const pairs = left.flatMap((a) => right.map((b) => ({ a, b, share: overlap(a, b) }))).filter((pair) => pair.share > 0);
  pairs.sort((one, two) => two.share - one.share || one.a.rank - two.a.rank || one.b.rank - two.b.rank);
  const paired = new Map();
  for (const { a, b } of pairs) {
    if (!paired.has(a) && !paired.has(b)) paired.set(a, b).set(b, a);
  }
  const nearest = (one, others) => others.find((other) => overlap(one, other) > 0) || null;
  const rows = [
    ...left.map((a) => ({ left: a, right: paired.get(a) || null, near: paired.has(a) ? null : nearest(a, right) })),
    ...right.filter((b) => !paired.has(b)).map((b) => ({ left: null, right: b, near: nearest(b, left) })),
  ];
  const best = (row) => Math.min(row.left?.rank ?? Infinity, row.right?.rank ?? Infinity);
  const first = (row) => row.left?.rank ?? Infinity;
  return rows.sort((one, two) => best(one) - best(two) || (first(one) < first(two) ? -1 : 1)).map((row) => ({ ...row, kind: kindOf(row) }));
}

function kindOf({ left, right, near }) {
  if (left && right) return left.rank === right.rank ? "same" : "moved";
  if (near) return "part";
  return left ? "left" : "right";
}
