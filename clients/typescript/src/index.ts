/**
 * A client of the HTTP API of Truespan. Paths, bodies and replies have the types of its OpenAPI
 * document; every problem is thrown as a `TruespanError`, and answers can be streamed.
 */
import createFetchClient, { type Client, type ClientOptions } from "openapi-fetch";

import type { components, paths } from "./schema.js";

export type { components, paths } from "./schema.js";

/** Types of the API by name, such as `Schemas["SearchResult"]`. */
export type Schemas = components["schemas"];

export interface TruespanOptions extends ClientOptions {
  /** Address of the server, such as `http://127.0.0.1:8700`. */
  baseUrl: string;
  /** Access token, if the server needs one. */
  token?: string;
  /** Labels that every request is limited to, such as `group:legal`. */
  audience?: string[];
}

/** An event of a streamed answer. */
export type AnswerEvent =
  | { event: "started"; data: Schemas["Started"] }
  | { event: "piece"; data: Schemas["Piece"] }
  | { event: "finished"; data: Schemas["Answer"] };

export interface StreamOptions {
  /** Answer from what this reader has read. */
  reader?: string;
  /** Aborting it ends the request, and with it the request to the chat model. */
  signal?: AbortSignal;
}

/** A refused or failed request: `code` is stable, `retryable` says whether to send it again. */
export class TruespanError extends Error {
  readonly status: number;
  readonly code: string;
  readonly advice: string;
  readonly retryable: boolean;

  constructor(problem: Partial<Schemas["ProblemDetails"]>, status: number) {
    super(problem.detail ?? `The server replied with status ${status}.`);
    this.name = "TruespanError";
    this.status = status;
    this.code = problem.code ?? "unknown";
    this.advice = problem.advice ?? "";
    this.retryable = problem.retryable ?? false;
  }
}

export interface TruespanClient extends Client<paths> {
  /** Answer a question piece by piece; the last event is `finished` with the whole answer. */
  streamAnswer(
    world: string,
    question: Omit<Schemas["Question"], "stream">,
    options?: StreamOptions,
  ): AsyncGenerator<AnswerEvent, void>;
}

/** Return a client of the server at `baseUrl`. */
export function createClient({ baseUrl, token, audience, ...options }: TruespanOptions): TruespanClient {
  const headers: Record<string, string> = token === undefined ? {} : { Authorization: `Bearer ${token}` };
  if (audience !== undefined) headers["X-Truespan-Audience"] = audience.map(encodeURIComponent).join(",");
  const base = baseUrl.replace(/\/$/, "");
  const send = options.fetch ?? globalThis.fetch;
  const client = createFetchClient<paths>({ ...options, baseUrl: base, headers });
  client.use({
    async onResponse({ response }) {
      if (!response.ok) throw await readProblem(response);
      return undefined;
    },
  });

  async function* streamAnswer(
    world: string,
    question: Omit<Schemas["Question"], "stream">,
    { reader, signal }: StreamOptions = {},
  ): AsyncGenerator<AnswerEvent, void> {
    const as = reader === undefined ? "" : `/readers/${encodeURIComponent(reader)}`;
    const request = new Request(`${base}/v1/worlds/${encodeURIComponent(world)}${as}/answer`, {
      method: "POST",
      headers: { ...headers, "Content-Type": "application/json" },
      body: JSON.stringify({ ...question, stream: true }),
      signal: signal ?? null,
    });
    const response = await send(request);
    if (!response.ok || response.body === null) throw await readProblem(response);
    for await (const { event, data } of readEvents(response.body, signal)) {
      if (event === "problem") throw new TruespanError(JSON.parse(data), response.status);
      yield { event, data: JSON.parse(data) } as AnswerEvent;
    }
  }

  return Object.assign(client, { streamAnswer });
}

async function readProblem(response: Response): Promise<TruespanError> {
  const problem = await response.clone().json().catch(() => ({}));
  return new TruespanError(problem, response.status);
}

/** Yield the server-sent events of a body. The server sends the data of an event in one line. */
async function* readEvents(
  body: ReadableStream<Uint8Array>,
  signal?: AbortSignal,
): AsyncGenerator<{ event: string; data: string }> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      // A read that begins after the signal may never end.
      signal?.throwIfAborted();
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + decoder.decode(value, { stream: true })).split("\n\n");
      rest = blocks.pop() ?? "";
      for (const block of blocks) {
        const fields = new Map(block.split("\n").map((line) => split(line)));
        const data = fields.get("data");
        if (data !== undefined) yield { event: fields.get("event") ?? "message", data };
      }
    }
  } finally {
    // Not awaited: after the signal it may never end either.
    reader.cancel().catch(() => undefined);
  }
}

function split(line: string): [string, string] {
  const colon = line.indexOf(": ");
  return [line.slice(0, colon), line.slice(colon + 2)];
}
