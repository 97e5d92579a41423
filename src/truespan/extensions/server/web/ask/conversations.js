// The conversations on the server. Where it stores none, a conversation lasts until the page is left.

import { events, get, markdown, path, write } from "../common/api.js";
import { asReader, isPreview, previewQuery, readerPath, worldPath } from "../common/state.js";

/** The open conversation. It has no id until its first answer is stored. */
export const open = { id: null };

/** Whether the server stores conversations; assumed until it says otherwise. */
let stored = true;

const root = () => (asReader() ? readerPath() : worldPath());
const one = (id) => root() + path`/conversations/${id}`;
const seconds = (time) => Date.parse(time) / 1000;

/** Return whether the server stores conversations. */
export const areStored = () => stored;

/** List conversations, the last used first; at most `limit`. */
export async function list(limit) {
  try {
    const { conversations } = await get(`${root()}/conversations?limit=${limit}`);
    stored = true;
    return conversations.map((info) => ({ ...info, updated: seconds(info.updated_at) }));
  } catch (problem) {
    if (problem.code !== "conversations_off") throw problem;
    stored = false;
    return [];
  }
}

/** Return the book of a conversation, if it has one, and its turns as the thread has them. */
export async function load(id) {
  const found = await get(one(id));
  const turns = found.turns.map((turn) => ({
    id: turn.id,
    question: turn.question,
    standalone: turn.standalone,
    askedAt: seconds(turn.asked_at),
    sid: turn.sid,
    book: turn.document,
    state: turn.damaged ? "damaged" : "done",
    answer: turn,
  }));
  return { book: found.book, turns };
}

/** Leave the open conversation: the next question begins a new one. */
export function leave() {
  open.id = null;
}

/** Yield the events of an answer to the next question of the open conversation. */
export async function* ask({ book, ...question }, signal) {
  const send = (where, body) => events("POST", where, { body: { ...body, stream: true }, signal });
  const first = book === undefined ? question : { ...question, book };
  // An answer as of a position that is only tried out is not stored.
  if (stored && !isPreview()) {
    try {
      // A conversation knows its book.
      if (open.id) yield* send(`${one(open.id)}/turns`, question);
      else yield* send(`${root()}/conversations`, first);
      return;
    } catch (problem) {
      // Deleted elsewhere, or kept no longer: what is asked next begins a new conversation.
      if (problem.code === "conversation_not_found") open.id = null;
      if (problem.code !== "conversations_off") throw problem;
      stored = false;
    }
  }
  yield* send(`${root()}/answer${previewQuery()}`, first);
}

/** Return the turn of an answer in the open conversation. */
export function note({ conversation }) {
  if (!conversation) return {};
  open.id = conversation.id;
  return { id: conversation.turn, standalone: conversation.standalone };
}

/** Delete a conversation, and return the receipt. */
export const remove = (id) => write("DELETE", one(id));

/** Return the visible part of a conversation as Markdown. */
export const markdownOf = (id) => markdown(one(id));

/** Return the visible part of a conversation as JSON. */
export const jsonOf = async (id) => JSON.stringify(await get(one(id)), null, 2);
