// Adding documents: uploads files with progress, and follows their job.

import { events, get, path, upload, write } from "../common/api.js";
import { button, byId, fill, make, say } from "../common/dom.js";
import { complain } from "../common/notices.js";
import { emit, may, on, state, worldPath } from "../common/state.js";
import * as words from "../common/words.js";

const OVER = new Set(["done", "failed", "cancelled", "interrupted"]);
const followed = new Set();

function row(title) {
  const label = make("span", { class: "job-label" }, "Uploading");
  const meter = make("progress", { max: 1, value: 0, "aria-label": `Progress of ${title}` });
  const tools = make("span", { class: "job-tools" });
  const more = make("div", { class: "job-more" });
  const shown = make("li", { class: "job", "data-state": "sending" }, make("strong", {}, title), meter, make("div", { class: "row" }, label, tools), more);
  byId("jobs").prepend(shown);
  return { shown, label, meter, tools, more };
}

function labels(form) {
  for (const name of ["kind", "title", "language", "version"]) {
    const value = byId(`up-${name}`).value.trim();
    if (value) form.append(name, value);
  }
  for (const tag of byId("up-tags").value.split(",")) if (tag.trim()) form.append("tags", tag.trim());
}

async function send(files) {
  if (!files.length || !state.world) return;
  const form = new FormData();
  labels(form);
  for (const file of files) form.append("file", file, file.name);
  const line = row(files.length === 1 ? files[0].name : words.many(files.length, "file"));
  const where = worldPath();
  try {
    const job = await upload(`${where}/documents`, form, (part) => {
      line.meter.value = part * 0.2;
      line.label.textContent = `Uploading ${Math.round(part * 100)} %`;
    });
    await follow(where, job, line);
  } catch (problem) {
    ended(line, "failed", "Upload failed.");
    fill(line.more, make("p", { class: "bad" }, problem.message));
    complain(problem);
  }
}

function progress(line, job) {
  const counts = job.counts;
  line.shown.dataset.state = job.state;
  line.meter.value = 0.2 + 0.8 * counts.fraction;
  const amount = job.phase === "embedding" && counts.chunks
    ? `: ${counts.embedded} of ${words.many(counts.chunks, "passage")}`
    : counts.documents_total ? `: ${counts.documents} of ${words.many(counts.documents_total, "document")}` : "";
  line.label.textContent = job.state === "queued" ? "Queued" : words.phase(job.phase) + amount;
}

async function follow(where, job, line) {
  followed.add(job.id);
  const here = where + path`/jobs/${job.id}`;
  fill(line.tools, button("Stop", () => write("POST", `${here}/cancel`, undefined).catch(complain), { class: "small quiet" }));
  let last = job;
  progress(line, job);
  for await (const { event, data } of events("GET", `${here}/events`)) {
    if (event !== "job") continue;
    last = data;
    progress(line, data);
  }
  if (!OVER.has(last.state)) last = (await get(here)).job;
  await finish(here, last, line);
}

async function finish(here, job, line) {
  const { documents } = await get(here);
  const failed = documents.filter((one) => one.state === "failed");
  const counts = job.counts;
  const label = {
    done: `Done: ${words.many(documents.length - failed.length, "document")}, ${words.many(counts.chunks, "passage")}`,
    failed: "Failed",
    cancelled: "Stopped; completed documents are kept",
    interrupted: "Interrupted",
  }[job.state];
  ended(line, failed.length && job.state === "done" ? "partly" : job.state, label || job.state);
  fill(line.more, job.error && make("p", { class: "bad" }, job.error), failed.map((one) => make("p", { class: "bad" }, failure(one))));
  if (job.state === "interrupted") fill(line.tools, button("Resume", () => again(here, line), { class: "small" }));
  say(line.label.textContent);
  emit("ingested");
}

function failure(one) {
  const reason = one.reason || one.code;
  return reason.startsWith(one.name) ? reason : `${one.name}: ${reason}`;
}

async function again(here, line) {
  try {
    const { job } = await write("POST", `${here}/resume`, undefined);
    await follow(worldPath(), job, line);
  } catch (problem) {
    complain(problem);
  }
}

function ended(line, how, label) {
  line.shown.dataset.state = how;
  line.meter.value = 1;
  line.label.textContent = label;
  fill(line.tools, button("Hide", () => line.shown.remove(), { class: "small quiet", "aria-label": "Hide this upload" }));
}

async function runningJobs() {
  fill(byId("jobs"));
  if (!state.world || !may("write") || !may("read")) return;
  const where = worldPath();
  const { jobs } = await get(`${where}/jobs`);
  for (const job of jobs) {
    if (!OVER.has(job.state) && !followed.has(job.id)) follow(where, job, row(job.counts.current || "Running job")).catch(complain);
  }
}

const drop = byId("drop");
byId("files").addEventListener("change", (event) => {
  send([...event.target.files]);
  event.target.value = "";
});
for (const name of ["dragenter", "dragover"]) {
  drop.addEventListener(name, (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
}
drop.addEventListener("dragleave", () => drop.classList.remove("over"));
drop.addEventListener("drop", (event) => {
  event.preventDefault();
  drop.classList.remove("over");
  send([...event.dataTransfer.files]);
});
// A file dropped outside the area must not replace the page.
for (const name of ["dragover", "drop"]) addEventListener(name, (event) => event.preventDefault());
on("world", () => runningJobs().catch(complain));
