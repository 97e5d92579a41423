// Two results row by row: what both have, what moved, and what only one has.

/** Return passages by rank: as the reranker ordered them, by words and similarity, or by similarity. */
export function ranked(passages) {
  const blend = (one) => (one.fused && one.fused.blend !== null ? one.fused.blend : -1);
  const order = (a, b) =>
    (a.rerank && b.rerank ? a.rerank.after - b.rerank.after : 0) ||
    (a.fused || b.fused ? blend(b) - blend(a) : 0) ||
    b.score - a.score ||
    a.document - b.document ||
    a.first - b.first;
  return [...passages].sort(order).map((one, at) => ({ ...one, rank: at + 1 }));
}

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
