// Run by tests/interfaces/test_typescript_client.py with BASE and TOKEN; prints what it found.
import { createClient, TruespanError } from "./dist/index.js";

const client = createClient({ baseUrl: process.env.BASE, token: process.env.TOKEN });
const world = "world";
const path = { world };

const { data: found } = await client.POST("/v1/worlds/{world}/search", {
  params: { path },
  body: { query: "who lit the lamp", top_k: 1 },
});

const events = [];
for await (const event of client.streamAnswer(world, { query: "Who lit the lamp?" })) events.push(event);
const pieces = events.filter((one) => one.event === "piece").map((one) => one.data.text);

const stopping = new AbortController();
let aborted = "";
try {
  for await (const _ of client.streamAnswer(world, { query: "Who lit the lamp?" }, { signal: stopping.signal })) stopping.abort();
} catch (error) {
  aborted = error.name;
}

const problems = [];
for (const work of [
  () => client.GET("/v1/worlds/{world}", { params: { path: { world: "nowhere" } } }),
  () => client.streamAnswer("nowhere", { query: "Who?" }).next(),
  () => createClient({ baseUrl: process.env.BASE, token: "wrong" }).GET("/v1/worlds"),
]) {
  const error = await work().catch((thrown) => thrown);
  problems.push([error instanceof TruespanError, error.status, error.code, error.retryable]);
}
const finished = events.at(-1).data;
console.log(JSON.stringify({ passages: found.passages.length, kinds: events.map((one) => one.event), pieces, answer: finished.answer, aborted, problems }));
