// The sample book: adds it to a world and follows the job.

import { events, get, path, write } from "../common/api.js";
import { bar, button, fill, make, say } from "../common/dom.js";
import { complain } from "../common/notices.js";
import { state } from "../common/state.js";
import { texts } from "../common/texts.js";

/** Return a button that adds the sample book to the chosen world, or to a new one if there is none. */
export function sampleButton(whenAdded, attributes = {}) {
  const progress = make("div", { class: "sample-progress", hidden: true });
  const add = button(texts.start.sampleAdd, () => run(), { id: "add-sample", ...attributes });
  const run = async () => {
    add.disabled = true;
    try {
      const world = state.world || (await sampleWorld());
      await addTo(world, (fraction) => {
        progress.hidden = false;
        fill(progress, make("span", {}, texts.start.sampleAdding), bar(fraction));
      });
      say(texts.start.sampleWorld);
      await whenAdded(world);
    } catch (problem) {
      complain(problem, run);
    } finally {
      add.disabled = false;
      progress.hidden = true;
    }
  };
  return [add, progress];
}

/** Create the world of the sample book; one that an earlier attempt made is used again. */
async function sampleWorld() {
  const { worlds } = await get("/v1/worlds");
  const name = texts.start.sampleWorld;
  return worlds.find((one) => one.name === name) || write("POST", "/v1/worlds", { name });
}

async function addTo(world, onProgress) {
  const where = path`/v1/worlds/${world.id}`;
  onProgress(0);
  const { job } = await write("POST", `${where}/sample`, undefined);
  let last = job;
  for await (const { event, data } of events("GET", where + path`/jobs/${job.id}/events`)) {
    if (event !== "job") continue;
    last = data;
    onProgress(data.counts.fraction);
  }
  if (last.state !== "done") throw new Error(last.error || texts.start.sampleFailed);
}
