// The welcome panel: how to start, before anything was asked.

import { button, byId, fill, make } from "../common/dom.js";
import { asReader, emit, may, state } from "../common/state.js";

function step(done, title, words, action) {
  return make("li", { class: done ? "done" : "" }, make("strong", {}, title), make("p", {}, words), action);
}

function goTo(pane, id) {
  return () => {
    emit("pane", pane);
    byId(id).focus();
  };
}

function beginning() {
  const has = { world: Boolean(state.world), documents: state.documents.length > 0 };
  const maker = state.me && state.me.verbs.includes("administer");
  const toWorld = !has.world && maker && button("Create a world", () => byId("world-dialog").showModal(), { class: "small" });
  const toFiles = has.world && !has.documents && may("write") && button("Choose files", () => (emit("pane", "documents"), byId("files").click()), { class: "small" });
  return make(
    "div",
    { class: "welcome" },
    make("h2", {}, has.world ? "Add documents" : "An empty library"),
    make("p", { class: "lead" }, "Truespan retrieves context for language models: every passage is verified against its hash, worlds are separate, and nothing past a reader’s position is returned."),
    make(
      "ol",
      { class: "steps" },
      step(has.world, "Create a world", "Worlds are separate: a search in one never finds anything of another.", toWorld),
      step(has.documents, "Add documents", "Text, Markdown, HTML, DOCX, EPUB or PDF, one or many at once.", toFiles),
      step(false, "Ask", "See what a model would get, where it comes from, and why.", null),
    ),
  );
}

function ready() {
  const open = state.document;
  const lead = asReader()
    ? open ? "Move the slider below the text, ask, and see what a model would get at that position and what is withheld." : "Choose a book on the left."
    : "Type a question above. You will see the passages a model would get, in reading order, each verified when it is read.";
  return make(
    "div",
    { class: "welcome" },
    make("h2", {}, asReader() ? "Ask as a reader" : `Ask ${state.world.name}`),
    make("p", { class: "lead" }, lead),
    make("ul", { class: "tips" },
      make("li", {}, make("b", {}, "Context"), " is what a model gets: passages, scores, sources, figures."),
      make("li", {}, make("b", {}, "Answer"), " is based on these passages; its quotes are checked against the text."),
      make("li", {}, make("b", {}, "Why"), " shows the funnel, near misses, and how the answer was decided."),
      !asReader() && may("follow") && make("li", {}, "Choose ", make("b", {}, "As a reader"), " to ask from any position in a book.")),
  );
}

/** Show how to start, or what to do next. */
export function welcome() {
  const knowable = state.world && (state.documents.length || !may("write"));
  fill(byId("panel-context"), knowable ? ready() : beginning());
  fill(byId("panel-why"), make("p", { class: "empty" }, "Ask a question to see how its result was found."));
}
