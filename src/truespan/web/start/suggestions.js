// Questions to begin with: those of the sample book, or about headings of the open document. A reader
// is offered only what was read to its end.

import { button, byId, make } from "../common/dom.js";
import { asReader, state } from "../common/state.js";
import { texts } from "../common/texts.js";

const t = texts.start;
/** The file of the sample book. */
const SAMPLE = "the-glass-ferry.md";
const MAX_SUGGESTIONS = 3;
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
  return spread(headings(), MAX_SUGGESTIONS).map((heading) => about({ heading }));
}

function ask(words) {
  byId("question").value = words;
  byId("go-answer").click();
}

/** Return buttons that ask the questions; null if there are none. */
export function suggestions() {
  const found = questions();
  if (!found.length) return null;
  return make("div", { class: "suggestions", role: "group", "aria-label": t.suggestions },
    found.map((words) => button(words, () => ask(words), { class: "suggestion quiet" })));
}
