// Check a receipt: pasted, dropped or chosen. The server verifies it with the public keys of its library, by the same
// program as the command line: the page comes from that server, so a second verifier here would prove no more.

import { post } from "../common/api.js";
import { byId, complain, fill, make, say, tick } from "../common/dom.js";
import { texts, translated } from "../common/texts.js";

const t = texts.proof;
/** Maximum size of a file that is read; the server takes no larger one either. */
const MAX_BYTES = 1 << 20;

function showValid({ key_id, claims, texts: signed }) {
  const about = claims.passages ? texts.counts.passages({ count: claims.passages.length }) : t.oneText;
  const operation = t.operations[claims.operation] || claims.operation;
  const line = (name, value) => value && [make("dt", {}, name), make("dd", {}, value)];
  return [
    make("p", { class: "verified" }, tick(true), make("strong", {}, t.valid), ` ${t.signed({ operation, time: claims.time, about, key: key_id.slice(0, 16) })}`),
    make("dl", { class: "receipt-claims" },
      line(t.question, claims.question?.text || claims.question?.hash),
      line(t.scope, claims.scope?.text)),
    make("ol", { class: "receipt-texts" }, signed.map((text, at) => make("li", {}, claims.passages?.[at] && make("small", {}, placeOf(claims.passages[at])), make("blockquote", {}, text)))),
    make("p", { class: "hint" }, t.meaning),
  ];
}

const placeOf = (one) => [one.title, one.chapter, one.location, t.sentences({ first: one.first_sentence, last: one.last_sentence })].filter(Boolean).join(", ");

const showInvalid = ({ failure, message }) =>
  make("p", { class: "bad", "data-failure": failure }, tick(false), make("strong", {}, t.notValid({ failure })), ` ${translated(t.failures, failure, message)}`);

async function check(text) {
  fill(byId("receipt-result"));
  if (!text.trim()) return;
  try {
    const checked = await post("/v1/receipts/verify", { receipt: text });
    // Another receipt may have been given meanwhile.
    if (byId("receipt-text").value !== text) return;
    fill(byId("receipt-result"), checked.valid ? showValid(checked.receipt) : showInvalid(checked));
    say(checked.valid ? t.valid : t.notValid({ failure: checked.failure }));
  } catch (problem) {
    byId("check-receipt").close();
    complain(problem);
  }
}

async function read(file) {
  if (!file) return;
  byId("receipt-text").value = file.size > MAX_BYTES ? "" : await file.text();
  if (file.size > MAX_BYTES) fill(byId("receipt-result"), make("p", { class: "bad" }, t.tooLarge));
  else await check(byId("receipt-text").value);
}

byId("open-receipt").addEventListener("click", () => {
  byId("keys").close();
  byId("check-receipt").showModal();
});
byId("receipt-text").addEventListener("input", (event) => check(event.target.value));
byId("receipt-file").addEventListener("change", (event) => read(event.target.files[0]).then(() => (byId("receipt-file").value = "")));
byId("check-receipt").addEventListener("dragover", (event) => event.preventDefault());
byId("check-receipt").addEventListener("drop", (event) => {
  event.preventDefault();
  const [file] = event.dataTransfer.files;
  if (file) read(file);
});
