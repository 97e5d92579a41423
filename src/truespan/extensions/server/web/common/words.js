// Texts for codes of the API, and numbers and times as they are shown.

import { locale, texts, translated } from "./texts.js";

const known = (table) => (code) => (Object.hasOwn(table, code) ? table[code] : String(code));

export const verdict = known(texts.codes.verdicts);
export const reason = known(texts.codes.reasons);
export const refusal = known(texts.codes.refusals);
export const mode = known(texts.codes.modes);
export const gate = known(texts.codes.gates);
export const status = known(texts.codes.statuses);
export const speaker = known(texts.codes.speakers);
export const phase = known(texts.codes.phases);
export const step = known(texts.codes.steps);

const WHOLE = new Intl.NumberFormat(locale);
const PERCENT = new Intl.NumberFormat(locale, { style: "percent" });
const LIST = new Intl.ListFormat(locale);

/** Format a number. */
export const whole = (value) => WHOLE.format(value);

/** Format a number with this many decimals. */
export const decimal = (value, decimals) => value.toLocaleString(locale, { minimumFractionDigits: decimals, maximumFractionDigits: decimals });

/** Format a share from 0 to 1. */
export const percent = (share) => PERCENT.format(share);

/** Format a score. */
export const score = (value) => decimal(value, 3);

/** Join texts, with “and” before the last. */
export const listed = (parts) => LIST.format(parts);

/** Return the name of a generation: its number, and whether it is in use or incomplete. */
export function generation(one) {
  const notes = [one.is_default && texts.common.generationInUse, (one.missing || one.pending) && texts.common.generationIncomplete];
  return [whole(one.generation.number), ...notes.filter(Boolean)].join(", ");
}

/** Format sentence numbers. */
export function sentences(first, last) {
  return first === last ? texts.counts.sentence({ number: first }) : texts.counts.sentenceRange({ first, last });
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
  return names.length ? texts.ask.bestAt({ place: names.join(", ") }) : "";
}

/** Return labels without empty ones and repetitions. */
export function trail(...labels) {
  return labels.filter((label, at) => label && label !== labels[at - 1]);
}

const DAY = 86_400_000;
const TIME = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit" });
const WEEKDAY = new Intl.DateTimeFormat(locale, { weekday: "short", hour: "2-digit", minute: "2-digit" });
const DATE = new Intl.DateTimeFormat(locale, { day: "numeric", month: "short", year: "numeric" });

const MOMENT = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short" });

const MONTH = new Intl.DateTimeFormat(locale, { month: "long", year: "numeric" });
const LONG_DAY = new Intl.DateTimeFormat(locale, { weekday: "long" });
const RELATIVE = new Intl.RelativeTimeFormat(locale, { numeric: "auto" });

/** Return the hour of a time in seconds. */
export const time = (seconds) => TIME.format(new Date(seconds * 1000));

/** Return the day of a time in seconds: today, yesterday, the weekday in the last week, else the month. */
export function day(seconds, now = Date.now()) {
  const start = (moment) => new Date(moment).setHours(0, 0, 0, 0);
  const days = Math.round((start(now) - start(seconds * 1000)) / DAY);
  const name = days < 2 ? RELATIVE.format(-days, "day") : (days < 7 ? LONG_DAY : MONTH).format(new Date(seconds * 1000));
  return name.charAt(0).toLocaleUpperCase(locale) + name.slice(1);
}

/** Return a notice of the server. */
export const notice = ({ code, message }) => translated(texts.codes.notices, code, message);

/** Return a time in ISO format as a date with its time. */
export const when = (time) => MOMENT.format(new Date(time));

/** Return a time in seconds as text: the hour today, the day this week, else the date. */
export function clock(seconds, now = Date.now()) {
  const time = new Date(seconds * 1000);
  const today = new Date(now).toDateString() === time.toDateString();
  if (today) return TIME.format(time);
  return now - time.getTime() < 6 * DAY ? WEEKDAY.format(time) : DATE.format(time);
}
