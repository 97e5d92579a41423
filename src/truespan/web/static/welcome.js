// What stands in the middle before anything was asked: how to begin.

import { button, byId, fill, make } from "./dom.js";
import { asReader, emit, may, state } from "./state.js";

function step(done, title, words, action) {
  return make("li", { class: done ? "done" : "" }, make("strong", {}, title), make("p", {}, words), action);
}

function goTo(view, id) {
  return () => {
    emit("view", view);
    byId(id).focus();
  };
}

function beginning() {
  const has = { world: Boolean(state.world), documents: state.documents.length > 0 };
  const maker = state.me && state.me.verbs.includes("administer");
  const toWorld = !has.world && maker && button("Name a world", goTo("library", "world-name"), { class: "small" });
  const toFiles = has.world && !has.documents && may("write") && button("Choose files", () => (emit("view", "library"), byId("files").click()), { class: "small" });
  return make(
    "div",
    { class: "welcome" },
    make("h2", {}, has.world ? "Add something to read" : "An empty library"),
    make("p", { class: "lead" }, "Truespan gives language models context they can be trusted with: every passage checked against its hash, nothing from beyond its world, and nothing ahead of a reader."),
    make(
      "ol",
      { class: "steps" },
      step(has.world, "Make a world", "A world is a shelf of its own: nothing in it can be found from another.", toWorld),
      step(has.documents, "Add documents", "Text, Markdown, HTML, DOCX, EPUB or PDF, one or many at once.", toFiles),
      step(false, "Ask", "See what a model would be given, where it stands, and why.", null),
    ),
  );
}

function ready() {
  const open = state.document;
  const lead = asReader()
    ? open ? "Move the slider beneath the text, ask, and see what a model would get at that sentence: and what it would not." : "Choose a book on the left."
    : "Type a question above. You will see the passages a model would be given, in reading order, each verified at the moment of reading.";
  return make(
    "div",
    { class: "welcome" },
    make("h2", {}, asReader() ? "Ask as somebody who is not through yet" : `Ask ${state.world.name}`),
    make("p", { class: "lead" }, lead),
    make("ul", { class: "tips" },
      make("li", {}, make("b", {}, "Context"), " is what a model gets: passages, scores, sources, figures."),
      make("li", {}, make("b", {}, "Answer"), " is decided before a model speaks; its quotes are held against the text."),
      make("li", {}, make("b", {}, "Why"), " shows the funnel, near misses, and the decision on its scale."),
      !asReader() && may("follow") && make("li", {}, "Choose ", make("b", {}, "As a reader"), " to see the same from any sentence of a book.")),
  );
}

/** Say how to begin, or what to do next. */
export function welcome() {
  const knowable = state.world && (state.documents.length || !may("write"));
  fill(byId("panel-context"), knowable ? ready() : beginning());
  fill(byId("panel-why"), make("p", { class: "empty" }, "Ask something, and this shows how the answer came about."));
}
