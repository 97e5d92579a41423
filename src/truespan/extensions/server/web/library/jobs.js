// The jobs of the world, also those that others started: progress, cancel, resume, and what became of each document.

import { get, path, write } from "../common/api.js";
import { button, complain, fill, make, say } from "../common/dom.js";
import { emit, may, on, state, worldPath } from "../common/state.js";
import { texts } from "../common/texts.js";
import * as words from "../common/words.js";
import { follows, reasonOf } from "./intake.js";

const own = texts.library;
const ACTIVE = new Set(["queued", "running"]);
const FIRST = 5;
const MAX_ROWS = 100;
const BUSY_MS = 1500;
const IDLE_MS = 15000;

const count = make("span", { class: "count" });
const list = make("ul", { id: "job-list", class: "jobs" });
const more = button("", () => ((all = !all), render()), { class: "small quiet" });
const empty = make("p", { class: "empty" }, own.noJobs);

/** The part of the page that lists the jobs. */
export const box = make("details", { class: "jobs-box", id: "jobs-box", hidden: true }, make("summary", {}, own.jobs, " ", count), list, empty, more);

let jobs = [];
let known = new Map();
let rows = new Map();
let all = false;
let timer = 0;
let turn = 0;

const visible = () => document.body.dataset.view === "library" && !document.hidden;
const allowed = () => state.world && (may("read") || may("write"));

/** Load the jobs now, and again as long as the view is shown. */
export async function load() {
  clearTimeout(timer);
  const mine = (turn += 1);
  box.hidden = !allowed();
  if (!allowed()) return;
  const found = (await get(`${worldPath()}/jobs`)).jobs;
  if (mine !== turn) return;
  const ended = found.some((job) => !ACTIVE.has(job.state) && ACTIVE.has(known.get(job.id)));
  jobs = found;
  known = new Map(found.map((job) => [job.id, job.state]));
  render();
  if (ended) emit("ingested");
  const busy = found.some((job) => ACTIVE.has(job.state));
  if (visible()) timer = setTimeout(() => visible() && load().catch(complain), busy ? BUSY_MS : IDLE_MS);
}

function render() {
  const listed = jobs.filter((job) => !follows(job.id));
  const running = listed.filter((job) => ACTIVE.has(job.state));
  count.textContent = running.length ? own.running({ count: running.length }) : String(listed.length || "");
  if (running.length) box.open = true;
  empty.hidden = listed.length > 0;
  more.hidden = listed.length <= FIRST;
  more.textContent = all ? own.fewerJobs : own.allJobs({ count: listed.length });
  const shown = all ? listed : listed.slice(0, Math.max(FIRST, running.length));
  const kept = new Map();
  for (const job of shown) {
    const row = rows.get(job.id) || new Row(job.id);
    row.update(job);
    kept.set(job.id, row);
  }
  rows = kept;
  const nodes = [...kept.values()].map((row) => row.shown);
  // Moving a node that is in its place would close a menu or take the focus away.
  if (nodes.length !== list.children.length || nodes.some((node, at) => node !== list.children[at])) list.replaceChildren(...nodes);
}

/** Return the phase or the outcome of a job, and what became of its documents. */
function describe({ state: how, phase, counts, error }) {
  const running = how === "running";
  const parts = [
    (running || counts.documents_total > 0) && own.jobProgress({ done: counts.documents, count: counts.documents_total }),
    !running && counts.unchanged > 0 && own.parts.unchanged({ count: counts.unchanged }),
    counts.failed > 0 && own.parts.failed({ count: counts.failed }),
    running ? counts.current && own.jobNow({ name: counts.current }) : error,
  ].filter(Boolean);
  return [running ? words.phase(phase) : own.jobStates[how] || how, parts.join(", ")].filter(Boolean).join(": ");
}

class Row {
  constructor(id) {
    this.where = worldPath() + path`/jobs/${id}`;
    this.title = make("strong");
    this.when = make("small");
    this.label = make("span", { class: "job-label" });
    this.meter = make("progress", { max: 1, value: 0 });
    this.tools = make("span", { class: "job-tools" });
    this.outcome = make("div", { class: "job-outcome" });
    this.detail = make("details", { class: "job-detail", ontoggle: () => this.detail.open && this.learn().catch(complain) }, make("summary", {}, own.jobDetails), this.outcome);
    this.shown = make("li", { class: "job" }, make("div", { class: "row" }, this.title, this.when), this.meter, make("div", { class: "row" }, this.label, this.tools), this.detail);
    this.before = "";
  }

  update(job) {
    const { counts } = job;
    this.shown.dataset.state = job.state === "done" && counts.failed ? "partly" : job.state;
    this.shown.dataset.job = job.id;
    this.title.textContent = own.jobKinds[job.kind] || job.kind;
    this.when.textContent = words.when(job.created_at);
    this.meter.hidden = !ACTIVE.has(job.state);
    this.meter.value = counts.fraction;
    this.meter.setAttribute("aria-label", own.progressOf({ title: this.title.textContent }));
    this.label.textContent = describe(job);
    const tools = ACTIVE.has(job.state) ? "stop" : job.resumable ? "resume" : "";
    if (tools !== this.before) {
      this.before = tools;
      const act = { stop: [own.stop, "cancel", "small quiet"], resume: [own.resume, "resume", "small"] }[tools];
      fill(this.tools, act && may("write") && button(act[0], () => this.act(act[1]), { class: act[2] }));
    }
    if (this.detail.open && ACTIVE.has(job.state)) this.learn().catch(complain);
  }

  async act(verb) {
    for (const one of this.tools.children) one.disabled = true;
    try {
      await write("POST", `${this.where}/${verb}`, undefined);
      say(own.jobAsked[verb]);
      this.before = "";
    } catch (problem) {
      complain(problem);
      for (const one of this.tools.children) one.disabled = false;
    }
    await load().catch(complain);
  }

  async learn() {
    const { documents, lines } = await get(this.where);
    const failed = documents.filter((one) => one.state === "failed");
    const rest = documents.filter((one) => one.state !== "failed");
    const listed = [...failed, ...rest].slice(0, MAX_ROWS);
    fill(
      this.outcome,
      !documents.length && make("p", { class: "hint" }, own.noOutcomes),
      make("ul", { class: "upload-files", tabindex: "0", "aria-label": own.documents }, listed.map((one) => make("li", { "data-state": one.state }, make("span", { class: "file-name" }, one.name), make("span", { class: "file-state" }, one.state === "failed" ? reasonOf(one) : own.outcomes[one.state] || one.state)))),
      documents.length > listed.length && make("p", { class: "hint" }, own.moreDocuments({ count: documents.length - listed.length })),
      lines.length > 0 && make("details", { class: "job-log" }, make("summary", {}, own.log({ count: lines.length })), make("pre", { tabindex: "0" }, lines.map((one) => `${one.at.slice(11, 19)} ${one.line}`).join("\n"))),
    );
  }
}

function forget() {
  turn += 1;
  clearTimeout(timer);
  jobs = [];
  known = new Map();
  rows = new Map();
  all = false;
  fill(list);
}

on("world", forget);
on("jobs", () => visible() && load().catch(complain));
document.addEventListener("visibilitychange", () => visible() && load().catch(complain));
