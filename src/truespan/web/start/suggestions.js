// Questions to begin with: those of the sample book, or about headings of the open document, each with
// an answer. A reader is offered only what was read to its end.

import { post } from "../common/api.js";
import { button, byId, fill, make } from "../common/dom.js";
import { asReader, previewQuery, readerPath, state, worldPath } from "../common/state.js";
import { texts } from "../common/texts.js";

const t = texts.start;
/** The file of the sample book. */
const SAMPLE = "the-glass-ferry.md";
const MAX_SUGGESTIONS = 3;
const MAX_CHECKED = 6;
/** Questions that have an answer, by the state of the page in which they were checked. */
const checked = new Map();
const MIN_SENTENCES = 3;
const MAX_HEADING = 60;

/** Return the headings of the open document that have text below them, up to the position of a reader. */
function headings() {
  const limit = asReader() ? state.position ?? -1 : state.lastSid;
  const title = state.document.title || state.document.name;
  const found = state.outline.map((entry, at) => ({
    name: entry.section || entry.chapter,
    first: entry.first_sid,
    last: (state.outline[at + 1]?.first_sid ?? state.lastSid + 1) - 1,
  }));
  const usable = found.filter(({ name, first, last }) => name && name !== title && name.length <= MAX_HEADING && last - first + 1 >= MIN_SENTENCES && last <= limit);
  return [...new Set(usable.map((one) => one.name))];
}

/** Return a few values from all over a list. */
function spread(list, count) {
  if (list.length <= count) return list;
  return Array.from({ length: count }, (_, at) => list[Math.floor((at * list.length) / count)]);
}

function questions() {
  if (!state.document) return [];
  if (!asReader() && state.document.name === SAMPLE) return t.sampleQuestions;
  const about = state.document.kind === "book" ? t.askChapter : t.askSection;
  return spread(headings(), MAX_CHECKED).map((heading) => about({ heading }));
}

/** Return the questions that have an answer; the server checks those of a state once. */
function answerable(found) {
  const book = asReader() ? String(state.document.number) : undefined;
  const address = asReader() ? `${readerPath()}/answerable${previewQuery()}` : `${worldPath()}/answerable`;
  const key = JSON.stringify([address, book, state.document.number, state.document.revision, found]);
  if (!checked.has(key)) {
    const reply = post(address, { questions: found, book }).then(({ questions: kept }) => kept);
    checked.set(key, reply.catch(() => { checked.delete(key); return []; }));
  }
  return checked.get(key);
}

function ask(words) {
  byId("question").value = words;
  byId("go-answer").click();
}

/** Return buttons that ask the questions, filled when these were checked; null if there are none. */
export function suggestions() {
  const found = questions();
  if (!found.length) return null;
  const group = make("div", { class: "suggestions", role: "group", "aria-label": t.suggestions });
  answerable(found).then((kept) => fill(group, kept.slice(0, MAX_SUGGESTIONS).map((words) => button(words, () => ask(words), { class: "suggestion quiet" }))));
  return group;
}
