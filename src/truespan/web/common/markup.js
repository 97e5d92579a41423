// Fills the texts of index.html: `data-text` names the text of an element, `data-text-placeholder`,
// `data-text-title` and `data-text-aria-label` those of its attributes.

import { texts } from "./texts.js";

const ATTRIBUTES = ["placeholder", "title", "aria-label"];

function lookUp(name) {
  const found = name.split(".").reduce((section, key) => section?.[key], texts);
  if (typeof found !== "string") throw new Error(`common/texts.js has no text ${name}`);
  return found;
}

for (const node of document.querySelectorAll("[data-text]")) node.textContent = lookUp(node.dataset.text);
for (const attribute of ATTRIBUTES) {
  const source = `data-text-${attribute}`;
  for (const node of document.querySelectorAll(`[${source}]`)) {
    node.setAttribute(attribute, lookUp(node.getAttribute(source)));
  }
}
