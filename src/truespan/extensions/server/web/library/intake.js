// Uploads: files are sent in batches, and each file is followed until it is searchable or refused.

import { events, get, path, Problem, upload, write } from "../common/api.js";
import { button, byId, complain, draw, fill, make, say } from "../common/dom.js";
import { emit, go, may, on, state, worldPath } from "../common/state.js";
import { texts, translated } from "../common/texts.js";
import { percent } from "../common/words.js";

const own = texts.library;
const OVER = new Set(["done", "failed", "cancelled", "interrupted"]);
/** The server takes 100 files in one request; smaller batches show progress sooner. */
const MAX_FILES = 25;
const MAX_BYTES = 64 * 1024 * 1024;
/** Share of sending in the progress of an upload. */
const SENDING = 0.2;
const FINAL = new Set(["embedded", "unchanged", "failed", "stopped"]);
const jobs = new Set();

/** Return whether a job belongs to an upload that is shown. */
export const follows = (job) => jobs.has(job);

function field(id, label, input) {
  return make("div", { class: "field" }, make("label", { for: id }, label), input);
}

function labelFields() {
  const choices = [["", own.kindDetect], ["document", own.kindDocument], ["book", own.kindBook]];
  const text = (id, placeholder) => make("input", { id, autocomplete: "off", placeholder });
  return make(
    "div",
    { class: "upload-labels" },
    field("up-kind", own.kind, make("select", { id: "up-kind" }, choices.map(([value, words]) => make("option", { value }, words)))),
    field("up-title", own.documentTitle, text("up-title", own.titleFromFile)),
    field("up-language", own.language, text("up-language", own.languageDetected)),
    field("up-version", own.version, text("up-version", "1.0")),
    field("up-tags", own.tags, text("up-tags", own.separated)),
  );
}

const ARROW = "M12 16V5m0 0L7.5 9.5M12 5l4.5 4.5M5 16v2.5A1.5 1.5 0 0 0 6.5 20h11a1.5 1.5 0 0 0 1.5-1.5V16";
const picker = make("input", { type: "file", id: "files", multiple: true, class: "sr", "aria-describedby": "drop-hint" });
const drop = make(
  "label",
  { class: "drop", id: "drop" },
  picker,
  draw("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, draw("path", { d: ARROW })),
  make("span", {}, make("strong", {}, own.chooseFiles), " ", make("span", { class: "wide-only" }, own.orDrop)),
  make("small", { id: "drop-hint" }, own.formats),
);
const list = make("ul", { id: "jobs", class: "jobs", "aria-label": own.uploads });

/** The part of the page where files are added. */
export const area = make(
  "section",
  { id: "intake", "aria-labelledby": "intake-title", hidden: true },
  make("h3", { id: "intake-title", class: "sr" }, own.addDocuments),
  drop,
  make("details", { class: "more" }, make("summary", {}, own.uploadLabels), labelFields()),
  list,
);

function declared() {
  const found = [];
  for (const name of ["kind", "title", "language", "version"]) {
    const value = byId(`up-${name}`).value.trim();
    if (value) found.push([name, value]);
  }
  for (const tag of byId("up-tags").value.split(",")) if (tag.trim()) found.push(["tags", tag.trim()]);
  return found;
}

/** Return files in batches; a name occurs once, because it identifies the document. */
function batches(files) {
  const seen = new Set();
  const made = [];
  let batch = [];
  let size = 0;
  for (const one of files) {
    if (seen.has(one.name)) {
      settle(one, "failed", own.sameName);
      continue;
    }
    seen.add(one.name);
    if (batch.length === MAX_FILES || (batch.length && size + one.file.size > MAX_BYTES)) {
      made.push(batch);
      batch = [];
      size = 0;
    }
    batch.push(one);
    size += one.file.size;
  }
  return batch.length ? [...made, batch] : made;
}

function settle(one, how, reason = "") {
  one.state = how;
  one.reason = reason;
  one.part = FINAL.has(how) ? 1 : one.part;
}

function stateOf(one) {
  return one.state === "sending" ? own.fileStates.sending({ percent: percent(one.part / SENDING) }) : own.fileStates[one.state];
}

/** Return how many files are over, and how they ended. */
function totalOf(count, counts) {
  const ended = Object.entries(counts).filter(([, files]) => files);
  const done = ended.reduce((sum, [, files]) => sum + files, 0);
  const said = ended.map(([name, files]) => own.parts[name]({ count: files })).join(", ");
  return `${(done === count ? own.uploadDone : own.uploadWorking)({ done, count })}${said && ` (${said})`}`;
}

class Upload {
  constructor(files, fields) {
    this.files = files.map((file) => ({ file, name: (file.as || file.name).normalize("NFC"), state: "waiting", part: 0, reason: "", line: null }));
    this.fields = fields;
    this.where = worldPath();
    this.stopped = false;
    this.job = null;
    this.render();
  }

  render() {
    const title = this.files.length === 1 ? this.files[0].name : texts.counts.files({ count: this.files.length });
    this.label = make("span", { class: "job-label" });
    this.meter = make("progress", { max: 1, value: 0, "aria-label": own.progressOf({ title }) });
    this.tools = make("span", { class: "job-tools" });
    this.rows = make("ul", { class: "upload-files", tabindex: "0", "aria-label": own.eachFile });
    for (const one of this.files) {
      one.line = make("li", {}, make("span", { class: "file-name" }, one.name), make("span", { class: "file-state" }));
      this.rows.append(one.line);
    }
    const several = this.files.length > 1;
    const named = make("details", { class: "upload-list", open: several && this.files.length <= 10 }, make("summary", {}, own.eachFile), this.rows);
    this.shown = make(
      "li",
      { class: "job", "data-state": "sending" },
      make("strong", {}, title),
      this.meter,
      make("div", { class: "row" }, this.label, this.tools),
      several ? named : this.rows,
    );
    list.prepend(this.shown);
    this.update();
  }

  /** Show the state of each file, and the true total. */
  update() {
    let size = 0;
    let done = 0;
    const counts = { embedded: 0, unchanged: 0, failed: 0, stopped: 0 };
    for (const one of this.files) {
      const weight = one.file.size + 1;
      size += weight;
      done += weight * one.part;
      if (one.state in counts) counts[one.state] += 1;
      if (one.shown === `${one.state}${one.reason}${one.part}`) continue;
      one.shown = `${one.state}${one.reason}${one.part}`;
      one.line.dataset.state = one.state;
      one.line.lastChild.textContent = one.reason || stateOf(one);
    }
    this.meter.value = done / size;
    this.counts = counts;
    this.label.textContent = totalOf(this.files.length, counts);
  }

  async run() {
    this.shown.dataset.state = "running";
    fill(this.tools, button(own.stop, () => this.stop(), { class: "small quiet" }));
    const waiting = this.files.filter((one) => one.state === "waiting");
    for (const batch of batches(waiting)) {
      if (this.stopped) break;
      try {
        const job = await this.send(batch);
        await this.follow(job, batch);
      } catch (problem) {
        if (!(problem instanceof Problem)) throw problem;
        for (const one of batch) if (!FINAL.has(one.state)) Object.assign(one, { again: true }), settle(one, "failed", problem.message);
        if (problem.status === 401) complain(problem);
      }
      this.update();
    }
    for (const one of this.files) if (!FINAL.has(one.state)) settle(one, "stopped");
    this.update();
    this.end();
  }

  async send(batch) {
    const form = new FormData();
    for (const [name, value] of this.fields) form.append(name, value);
    for (const one of batch) {
      one.state = "sending";
      form.append("file", one.file, one.name);
    }
    this.update();
    const total = batch.reduce((sum, one) => sum + one.file.size, 0) || 1;
    const job = await upload(`${this.where}/documents`, form, (part) => {
      let sent = part * total;
      for (const one of batch) {
        one.part = SENDING * Math.min(1, Math.max(0, sent) / (one.file.size || 1));
        sent -= one.file.size;
      }
      this.update();
    });
    for (const one of batch) Object.assign(one, { state: "sent", part: SENDING });
    this.update();
    return job;
  }

  async follow(job, batch) {
    jobs.add(job.id);
    this.job = this.where + path`/jobs/${job.id}`;
    let last = job;
    let known = "";
    for await (const { event, data } of events("GET", this.job)) {
      if (event !== "job") continue;
      last = data;
      const counts = data.counts;
      for (const one of batch) {
        if (FINAL.has(one.state)) continue;
        one.part = SENDING + (1 - SENDING) * counts.fraction * 0.99;
        if (counts.current === one.name) one.state = data.phase === "embedding" ? "embedding" : "reading";
      }
      const now = `${counts.documents} ${counts.failed} ${counts.unchanged}`;
      if (now !== known && batch.length > 1) this.learn(batch, (await get(this.job)).documents);
      known = now;
      this.update();
    }
    const found = await get(this.job);
    if (!OVER.has(last.state)) last = found.job;
    this.learn(batch, found.documents);
    for (const one of batch) {
      if (FINAL.has(one.state)) continue;
      if (last.state === "cancelled") settle(one, "stopped");
      else Object.assign(one, { again: true }), settle(one, "failed", last.error ? own.jobError({ code: last.error }) : own.jobStates[last.state]);
    }
    this.job = null;
    emit("ingested");
  }

  learn(batch, outcomes) {
    const known = new Map(outcomes.map((one) => [one.name, one]));
    for (const one of batch) {
      const outcome = known.get(one.name);
      if (!outcome || FINAL.has(one.state)) continue;
      if (outcome.state === "failed") settle(one, "failed", reasonOf(outcome));
      else if (FINAL.has(outcome.state)) settle(one, outcome.state);
    }
  }

  stop() {
    this.stopped = true;
    this.label.textContent = own.stopping;
    if (this.job) write("POST", `${this.job}/cancel`, undefined).catch(complain);
  }

  end() {
    const { failed, stopped } = this.counts;
    this.shown.dataset.state = failed ? (failed === this.files.length ? "failed" : "partly") : stopped ? "cancelled" : "done";
    const again = this.files.filter((one) => one.again && one.state === "failed");
    fill(
      this.tools,
      again.length > 0 && button(own.tryAgain, () => this.again(again), { class: "small" }),
      button(own.hide, () => this.shown.remove(), { class: "small quiet", "aria-label": own.hideUpload }),
    );
    say(this.label.textContent);
    jobs.clear();
    emit("jobs");
  }

  again(files) {
    for (const one of files) Object.assign(one, { state: "waiting", part: 0, reason: "", again: false });
    this.stopped = false;
    this.update();
    this.run().catch(complain);
  }
}

/** Return why a source failed, without its name, which is next to it. */
export function reasonOf(one) {
  const reason = translated(texts.codes.sources, one.code, one.reason) || one.code || "";
  return reason.startsWith(one.name) ? reason.slice(one.name.length).replace(/^[:,]?\s+/, "") : reason;
}

/** Upload files; `as` of a file replaces its name, so that it becomes a revision of that document. */
export function send(files, fields = declared()) {
  if (!files.length || !state.world) return;
  new Upload([...files], fields).run().catch(complain);
}

picker.addEventListener("change", (event) => {
  send(event.target.files);
  event.target.value = "";
});
/** What is shown over the page while files are dragged. */
const target = make("p", { class: "drop-target", hidden: true });
document.body.append(target);

function showTarget(shown) {
  const takes = shown && Boolean(state.world) && may("write");
  target.hidden = !takes;
  if (takes) target.textContent = own.dropHere({ world: state.world.name });
}

addEventListener("dragenter", (event) => showTarget([...event.dataTransfer.items].some((one) => one.kind === "file")));
addEventListener("dragleave", (event) => event.relatedTarget || showTarget(false));
// A file that is dropped must not replace the page.
addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", (event) => {
  event.preventDefault();
  showTarget(false);
  const { files } = event.dataTransfer;
  if (!files.length || !state.world || !may("write")) return;
  go({ view: "library", item: null }, { apply: true });
  send(files);
});
on("world", () => {
  fill(list);
  area.hidden = !state.world || !may("write");
});
