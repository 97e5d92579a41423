// Questions to begin with about the sample book.

import { button, byId, make } from "../common/dom.js";
import { asReader, state } from "../common/state.js";
import { texts } from "../common/texts.js";

const t = texts.start;
/** The file of the sample book. */
const SAMPLE = "the-glass-ferry.md";

function ask(words) {
  byId("question").value = words;
  byId("go-answer").click();
}

/** Return buttons that ask about the sample book; null for another document, or as a reader. */
export function suggestions() {
  if (asReader() || state.document?.name !== SAMPLE) return null;
  return make("div", { class: "suggestions", role: "group", "aria-label": t.suggestions }, t.sampleQuestions.map((words) => button(words, () => ask(words), { class: "suggestion quiet" })));
}
