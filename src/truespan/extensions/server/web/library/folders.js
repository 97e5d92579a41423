// The folders of the documents as a tree; choosing one lists the documents below it.

import { button, make } from "../common/dom.js";
import { state } from "../common/state.js";
import { texts } from "../common/texts.js";
import { whole } from "../common/words.js";

const own = texts.library;

/** Return the folders of paths: `{ name, path, count, folders }`, sorted by name. */
export function treeOf(paths) {
  const root = { name: "", path: "", count: 0, folders: new Map() };
  for (const path of paths) {
    let at = root;
    at.count += 1;
    for (const name of path.split("/").slice(0, -1)) {
      if (!at.folders.has(name)) at.folders.set(name, { name, path: `${at.path}${name}/`, count: 0, folders: new Map() });
      at = at.folders.get(name);
      at.count += 1;
    }
  }
  return top(root);
}

/** Return the first folder that has more than one entry: what is above it chooses nothing. */
function top(folder) {
  const [only] = folder.folders.values();
  return folder.folders.size === 1 && only.count === folder.count ? top(only) : folder;
}

function branch(folder, chosen, choose) {
  const open = chosen.startsWith(folder.path);
  const inside = [...folder.folders.values()].sort((a, b) => a.name.localeCompare(b.name));
  const press = button([make("span", { class: "facet-value" }, folder.name), make("span", { class: "facet-count" }, whole(folder.count))], () => choose(chosen === folder.path ? null : folder.path), {
    class: "folder",
    "aria-pressed": String(chosen === folder.path),
    "data-folder": folder.path,
  });
  return make("li", {}, press, open && inside.length > 0 && make("ul", {}, inside.map((one) => branch(one, chosen, choose))));
}

/** Return the tree as a group of filters; null if all documents are in one folder. */
export function folderTree(chosen, choose) {
  const root = treeOf(state.documents.map((one) => one.path));
  if (!root.folders.size) return null;
  const inside = [...root.folders.values()].sort((a, b) => a.name.localeCompare(b.name));
  return make("fieldset", { class: "facet folders" }, make("legend", {}, own.folders), make("ul", {}, inside.map((one) => branch(one, chosen, choose))));
}
