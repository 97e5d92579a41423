// The plots of an evaluation, the same as in the HTML report: legible without colour, and described in
// words for a screen reader.

import { draw, make } from "../common/dom.js";
import { texts } from "../common/texts.js";

const t = texts.evaluate;
const WIDTH = 720;
const HEIGHT = 280;
const LEFT = 52;
const RIGHT = 16;
const TOP = 24;
const BOTTOM = 44;
const BINS = 20;
const MAX_POINTS = 200;
/** The changes that are drawn; of more, those that changed most. */
const MAX_BARS = 300;
let drawn = 0;

const scale = (least, most, start, end) => (value) => start + ((value - least) / (most - least)) * (end - start);
const across = (least, most) => scale(least, most, LEFT, WIDTH - RIGHT);
const up = (least, most) => scale(least, most, HEIGHT - BOTTOM, TOP);

/** Return round numbers around all values, never the same one twice. */
function range(values) {
  if (!values.length) return [0, 1];
  const least = Math.floor(Math.min(...values) * 20) / 20;
  const most = Math.ceil(Math.max(...values) * 20) / 20;
  return most > least ? [least, most] : [least, least + 0.05];
}

const label = (x, y, words, anchor = "middle") => draw("text", { x, y, "text-anchor": anchor }, words);
const rule = (x1, y1, x2, y2, kind = "axis") => draw("line", { class: kind, x1, y1, x2, y2 });

function rectangle(kind, x, y, width, height, title, hatching) {
  // Hatching tells the two kinds apart without colour.
  const fill = hatching && (kind === "miss" || kind === "worse") ? { fill: `url(#${hatching})` } : {};
  return draw("rect", { class: kind, x, y, width, height, ...fill }, title && draw("title", {}, title));
}

/** Draw the axes with their names and a few numbers. */
function frame(least, most, low, high, horizontal, vertical) {
  const bottom = HEIGHT - BOTTOM;
  const right = WIDTH - RIGHT;
  const parts = [
    label((LEFT + right) / 2, HEIGHT - 6, horizontal),
    label(4, 14, vertical, "start"),
    rule(LEFT, bottom, right, bottom),
    rule(LEFT, TOP, LEFT, bottom),
  ];
  for (const share of [0, 0.5, 1]) {
    const height = bottom - share * (bottom - TOP);
    parts.push(label(LEFT - 6, height + 4, (low + share * (high - low)).toFixed(2), "end"), rule(LEFT, height, right, height));
  }
  if (least !== null) {
    for (const share of [0, 0.25, 0.5, 0.75, 1]) {
      parts.push(label(LEFT + share * (right - LEFT), bottom + 16, (least + share * (most - least)).toFixed(2)));
    }
  }
  return parts;
}

function figure(kind, title, description, hatching, parts) {
  const id = `plot-${(drawn += 1)}`;
  const pattern = draw("pattern", { id: hatching, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, draw("path", { d: "M0 6 L6 0", class: "hatch" }));
  return make(
    "figure",
    { class: "plot-box", "data-plot": kind },
    make(
      "div",
      { class: "plot-scroll", role: "region", "aria-label": title, tabindex: "0" },
      draw(
        "svg",
        { class: `plot ${kind}`, role: "img", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-labelledby": `${id}-title ${id}-text` },
        draw("title", { id: `${id}-title` }, title),
        draw("desc", { id: `${id}-text` }, description),
        draw("defs", {}, pattern),
        parts,
      ),
    ),
    make("figcaption", { class: "hint" }, make("b", {}, `${title}. `), description),
  );
}

const fresh = () => `hatching-${drawn + 1}`;

/** Draw how the scores of hits and of misses are spread, each as shares of its own kind. */
export function distribution(hits) {
  const hatching = fresh();
  const [least, most] = range(hits.map((hit) => hit.score));
  const step = (most - least) / BINS;
  const shares = {};
  for (const [kind, relevant] of [["hit", true], ["miss", false]]) {
    const scores = hits.filter((hit) => hit.relevant === relevant).map((hit) => hit.score);
    shares[kind] = new Array(BINS).fill(0);
    for (const score of scores) {
      const place = Math.min(Math.max(Math.floor(((score - least) / (most - least)) * BINS), 0), BINS - 1);
      shares[kind][place] += 1 / scores.length;
    }
  }
  const tallest = Math.max(...shares.hit, ...shares.miss) || 1;
  const x = across(least, most);
  const y = up(0, tallest);
  const parts = frame(least, most, 0, tallest, t.similarity, t.share);
  for (const [kind, values] of Object.entries(shares)) {
    values.forEach((share, place) => {
      if (!share) return;
      const start = least + place * step;
      const half = (x(start + step) - x(start)) / 2;
      // Misses stand beside the hits.
      const left = x(start) + (kind === "miss" ? half : 0) + 1;
      const title = t.shareOf(kind, share, start, start + step);
      parts.push(rectangle(kind, left, y(share), Math.max(half - 1, 1), Math.max(y(0) - y(share), 0.5), title, hatching));
    });
  }
  [["hit", t.relevantHits], ["miss", t.irrelevantHits]].forEach(([kind, words], place) => {
    const left = LEFT + 8 + 160 * place;
    parts.push(rectangle(kind, left, 5, 12, 10, null, hatching), label(left + 18, 14, words, "start"));
  });
  const relevant = hits.filter((hit) => hit.relevant).length;
  return figure("distribution", t.distribution, t.distributionText(relevant, hits.length - relevant, least, most), hatching, parts);
}

/** Return as many points as can be told apart: of each narrow strip the first, and the last. */
function thin(curve) {
  if (curve.length <= MAX_POINTS) return curve;
  const highest = curve[0].threshold;
  const lowest = curve.at(-1).threshold;
  const strips = new Map();
  for (const point of curve.slice(0, -1)) {
    const place = Math.floor(((highest - point.threshold) / (highest - lowest)) * MAX_POINTS);
    if (!strips.has(place)) strips.set(place, point);
  }
  return [...strips.values(), curve.at(-1)];
}

/** Draw precision and recall over the threshold, with what is proposed as upright lines. */
export function threshold({ curve, proposal }) {
  const points = thin(curve);
  const [least, most] = range(points.map((point) => point.threshold));
  const x = across(least, most);
  const y = up(0, 1);
  const parts = frame(least, most, 0, 1, t.threshold, t.share);
  for (const name of ["precision", "recall"]) {
    const places = points.map((point) => `${x(point.threshold).toFixed(1)},${y(point[name]).toFixed(1)}`);
    parts.push(draw("polyline", { class: `curve ${name}`, points: places.join(" ") }));
  }
  const proposed = proposal ? [["floor", t.floor], ["low", t.low], ["high", t.high]].filter(([name]) => proposal[name] !== null) : [];
  // Each label stands lower than the one before.
  proposed.forEach(([name, words], place) => {
    const left = x(proposal[name]);
    const [anchor, shift] = left > WIDTH * 0.8 ? ["end", -4] : ["start", 4];
    parts.push(rule(left, TOP, left, HEIGHT - BOTTOM, "mark"), label(left + shift, TOP + 14 + 14 * place, `${words} ${proposal[name].toFixed(3)}`, anchor));
  });
  parts.push(label(LEFT + 8, 14, t.solid, "start"), label(LEFT + 168, 14, t.dashed, "start"));
  return figure("threshold", t.thresholdTitle, t.thresholdText(least, most), fresh(), parts);
}

/** Return the figure by which a query counts as better or worse. */
export const leading = (metrics) => (metrics.ndcg === null ? metrics.reciprocal_rank ?? 0 : metrics.ndcg);

/** Draw by how much each query changed, from the worst to the best. */
export function changes(all, title) {
  const hatching = fresh();
  const byName = (a, b) => (a.id < b.id ? -1 : Number(a.id > b.id));
  const most = [...all].sort((a, b) => Math.abs(b.difference) - Math.abs(a.difference) || byName(a, b)).slice(0, MAX_BARS);
  most.sort((a, b) => a.difference - b.difference || byName(a, b));
  const y = up(-1, 1);
  const width = (WIDTH - LEFT - RIGHT) / Math.max(most.length, 1);
  const parts = frame(null, null, -1, 1, t.queriesAxis, t.changeAxis);
  most.forEach((change, place) => {
    const [top, bottom] = [y(change.difference), y(0)].sort((a, b) => a - b);
    const kind = change.difference > 0 ? "better" : change.difference < 0 ? "worse" : "same";
    const words = t.changeOf(change, leading(change.old), leading(change.new));
    parts.push(rectangle(kind, LEFT + place * width, top, Math.max(width * 0.9, 0.5), Math.max(bottom - top, 1), words, hatching));
  });
  const worse = all.filter((one) => one.difference < 0).length;
  const better = all.filter((one) => one.difference > 0).length;
  return figure("changes", title, t.changesText(all.length, worse, better, all.length > MAX_BARS ? MAX_BARS : 0), hatching, parts);
}
