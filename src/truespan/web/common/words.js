// Texts for codes of the API, and numbers and times as they are shown.

import { texts } from "./texts.js";

const known = (table) => (code) => (Object.hasOwn(table, code) ? table[code] : String(code));

export const verdict = known(texts.codes.verdicts);
export const reason = known(texts.codes.reasons);
export const refusal = known(texts.codes.refusals);
export const mode = known(texts.codes.modes);
export const gate = known(texts.codes.gates);
export const status = known(texts.codes.statuses);
export const speaker = known(texts.codes.speakers);
export const phase = known(texts.codes.phases);

/** Return a count with its noun. */
export function many(count, one, more = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : more}`;
}

/** Format a score. */
export const score = (value) => value.toFixed(3);

/** Format sentence numbers. */
export function sentences(first, last) {
  return first === last ? texts.counts.sentence(first) : texts.counts.sentences(first, last);
}

/** Return the pages, slides, lines or cells that a passage lies on, if it has any. */
export const location = (one) => one.location || "";

/** Return the place of a passage on one line: title, chapter, section and location. */
export function place(one, names = [one.title, one.chapter, one.section]) {
  const [shown, where] = [trail(...names), location(one)];
  // A slide without a title is named like its location.
  const told = shown.some((name) => name.toLowerCase() === where);
  return [shown.join(" › "), !told && where].filter(Boolean).join(", ");
}

/** Return where the best sentence of a passage is, as far as that says more than its place. */
export function best(one) {
  const found = one.best_sentence;
  const pairs = found ? [[found.chapter, one.chapter], [found.section, one.section], [found.location, one.location]] : [];
  const names = trail(...pairs.map(([name, own]) => name !== own && name));
  return names.length ? texts.ask.bestAt(names.join(", ")) : "";
}

/** Return labels without empty ones and repetitions. */
export function trail(...labels) {
  return labels.filter((label, at) => label && label !== labels[at - 1]);
}

const DAY = 86_400_000;
const TIME = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const WEEKDAY = new Intl.DateTimeFormat(undefined, { weekday: "short", hour: "2-digit", minute: "2-digit" });
const DATE = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });

/** Return a time in seconds as text: the hour today, the day this week, else the date. */
export function clock(seconds, now = Date.now()) {
  const time = new Date(seconds * 1000);
  const today = new Date(now).toDateString() === time.toDateString();
  if (today) return TIME.format(time);
  return now - time.getTime() < 6 * DAY ? WEEKDAY.format(time) : DATE.format(time);
}
