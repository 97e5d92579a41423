// The choice of who sees the new documents of a world.

import { make } from "./dom.js";
import { texts } from "./texts.js";

const own = texts.start;

const splitLabels = (text) => [...new Set(text.split(",").map((label) => label.trim()).filter(Boolean))];

function choiceOf(audience) {
  if (audience === null) return "required";
  if (audience.includes("everyone")) return "everyone";
  return audience.length ? "labels" : "owner";
}

/**
 * Return fields for the audience of new documents, and a function that returns what they change as members of a request.
 *
 * `present` has the labels of the world; it is null if each document must declare an audience.
 */
export function audienceFields(id, title, present = ["everyone"]) {
  const option = (value, words) => make("option", { value, selected: value === choiceOf(present) }, words);
  const list = make(
    "select",
    { id, "aria-describedby": `${id}-hint` },
    option("everyone", own.audienceEveryone),
    option("labels", own.audienceLabels),
    option("owner", own.audienceOwner),
    option("required", own.audienceRequired),
  );
  const labels = make("input", { id: `${id}-labels`, autocomplete: "off", spellcheck: "false", value: choiceOf(present) === "labels" ? present.join(", ") : "", placeholder: texts.common.viewAsExample });
  const box = make("div", { class: "field" }, make("label", { for: labels.id }, own.audienceWhich), labels);
  const show = () => {
    box.hidden = list.value !== "labels";
    labels.required = !box.hidden;
  };
  list.addEventListener("change", show);
  show();
  const hint = make("p", { class: "hint", id: `${id}-hint` }, own.audienceHint);
  const element = make("div", { class: "fields" }, make("div", { class: "field" }, make("label", { for: id }, title), list, hint), box);

  const changes = () => {
    if (list.value === "required") return present === null ? {} : { audience_required: true };
    const chosen = { everyone: ["everyone"], owner: [], labels: splitLabels(labels.value) }[list.value];
    return JSON.stringify([...chosen].sort()) === JSON.stringify(present && [...present].sort()) ? {} : { audience: chosen };
  };
  return { element, changes };
}
