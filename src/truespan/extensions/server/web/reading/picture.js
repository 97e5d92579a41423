// The source of the open document as it looks, with the found sentences marked on its pages.

import { get, path } from "../common/api.js";
import { byId, fill, make } from "../common/dom.js";
import { arrive, pageInView, pageOf } from "./pane.js";
import { asReader, boundReader, go, on, previewQuery, readerPath, route, state, worldPath } from "../common/state.js";
import { texts } from "../common/texts.js";

/** Names of files that the server can show as they look, for everyone and for readers. */
const DRAWN = /\.(pdf|x?html?|png|jpe?g|gif|webp|bmp)$/i;
const DRAWN_FOR_READERS = /\.pdf$/i;
const sheet = byId("sheet");
const body = byId("sheet-body");
let page = 1;
let lit = null;
let turn = 0;

const isOpen = () => !sheet.hidden;
const canDraw = () => {
  const name = state.document?.path || state.document?.name || "";
  return asReader() ? DRAWN_FOR_READERS.test(name) : DRAWN.test(name);
};

/** Return the address of a page; without a number, of the page with the found sentence. */
function address(number) {
  const { number: book } = state.document;
  if (asReader()) return `${readerPath()}/picture${previewQuery({ page: number || 1, book })}`;
  if (!number && lit) return worldPath() + path`/documents/${book}/picture?sentence=${lit.best.first}`;
  return worldPath() + path`/documents/${book}/picture?page=${number || 1}`;
}

/** Return why a page is not shown as it looks. */
function reasonOf(error, number) {
  return error.code === "image_not_found" ? texts.reading.noPage({ page: number || 1 }) : error.message;
}

/** Return the marks of a sentence: strong for the best ones, faint for those around them. */
function spotsOf({ sid, boxes }) {
  if (!lit || sid < lit.first || sid > lit.last) return [];
  const best = sid >= lit.best.first && sid <= lit.best.last;
  return boxes.map(([left, top, right, bottom]) => {
    const spot = make("span", { class: best ? "spot best" : "spot", "data-sid": sid });
    const share = (value) => `${100 * value}%`;
    Object.assign(spot.style, { left: share(left), top: share(top), width: share(right - left), height: share(bottom - top) });
    return spot;
  });
}

function draw(drawn) {
  const title = state.document.title || state.document.name;
  if (drawn.media_type === "text/html") {
    const words = new TextDecoder().decode(Uint8Array.from(atob(drawn.image), (char) => char.charCodeAt(0)));
    fill(body, make("iframe", { sandbox: "", title, srcdoc: words }));
    return;
  }
  const picture = make("img", { alt: texts.reading.pageOf({ page: drawn.page, title }), src: `data:${drawn.media_type};base64,${drawn.image}` });
  fill(body, make("div", { class: "leaf" }, picture, drawn.sentences.flatMap(spotsOf)));
  const spot = body.querySelector(".best") || body.querySelector(".spot");
  if (!spot) body.scrollTop = 0;
  else picture.decode().then(() => spot.scrollIntoView({ block: "center", behavior: "instant" }), () => {});
}

async function load(number) {
  turn += 1;
  const mine = turn;
  // Until the page arrives, nothing is shown rather than a page of another document or reader.
  byId("page-name").textContent = "";
  fill(body, make("p", { class: "hint" }, "…"));
  let drawn = null;
  try {
    drawn = await get(address(number));
  } catch (error) {
    if (mine !== turn) return;
    fill(body, make("p", { class: "empty" }, reasonOf(error, number)));
  }
  if (mine !== turn) return;
  page = drawn?.page ?? number ?? 1;
  const isPage = drawn?.media_type !== "text/html";
  byId("page-name").textContent = isPage ? (drawn?.partial ? texts.reading.pagePart : texts.reading.pageNumber)({ page }) : texts.reading.pageWhole;
  byId("page-back").disabled = page <= 1;
  byId("page-on").disabled = !drawn || !drawn.width;
  if (drawn) draw(drawn);
}

/** Show or hide the page beside or instead of the text. */
function toggle(open) {
  sheet.hidden = !open;
  byId("as-page").setAttribute("aria-pressed", String(open));
  sheet.parentElement.classList.toggle("paged", open);
  const last = asReader() ? state.position : null;
  if (open) load((lit && pageOf(lit.best.first)) || (last !== null && pageOf(last)) || (!lit && pageInView()) || null);
  else arrive();
}

byId("as-page").addEventListener("click", () => {
  const open = !isOpen();
  go({ look: open ? "page" : null }, { replace: true });
  toggle(open);
});
byId("page-back").addEventListener("click", () => load(page - 1));
byId("page-on").addEventListener("click", () => load(page + 1));
on("turned", () => {
  lit = null;
  turn += 1;
  byId("as-page").hidden = !canDraw();
  toggle(canDraw() && route().look === "page");
});
on("lit", (chosen) => {
  lit = chosen;
  if (isOpen()) load(pageOf(chosen.best.first));
});
for (const change of ["saved", "settled"]) on(change, () => isOpen() && load(page));
