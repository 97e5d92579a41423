"""Where schemathesis expects more than a description can say; it loads this file by itself.

A document says what a request looks like. It cannot say which names a library knows, what is in a
world by now, or how many tokens a model makes of a text. A request that is refused for such a
reason is right by the document, and the refusal is right as well. Only these refusals are let pass,
each for the calls it can come from; every other check counts everywhere.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import schemathesis
from hypothesis.configuration import set_hypothesis_home_dir

# Which characters can be encoded takes seconds to find out; the result is kept there.
set_hypothesis_home_dir(Path(__file__).parents[1] / ".hypothesis")

ACCEPTED, REJECTED = "ST201", "ST202"
"""Failures as schemathesis numbers them: what was wrong was accepted, what was right rejected."""

WRITES = {
    "createWorld", "deleteWorld", "uploadDocuments", "ingestSources",
    "updateDocument", "deleteDocument", "reingestDocument", "cancelJob", "resumeJob",
    "setPosition", "reindex", "promote", "removeGeneration",
    "examineWorld", "setDefaults", "deleteConversations", "deleteConversation",
    "deleteConversationsAsReader", "deleteConversationAsReader",
    "connectChatModel", "disconnectChatModel", "addNote", "deleteNote", "deleteNotes",
}  # fmt: skip
ASKING = {
    "search", "retrieve", "whyNot", "answer", "chat",
    "retrieveAsReader", "answerAsReader", "whyNotAsReader", "startConversation",
    "continueConversation", "startConversationAsReader", "continueConversationAsReader",
    "completeChat",
}  # fmt: skip
BY_STATE: dict[str, set[str]] = {
    # A key that was made up twice; the second request was another one.
    "idempotency_key_reused": WRITES,
    # The last message of a user may be blank, or there is none. A pattern cannot list all marks
    # that are invisible by themselves.
    "blank_query": ASKING,
    # The length is bounded in characters, what the model reads in tokens.
    "query_too_long": ASKING,
    "scope_violation": {"retrieve"},
    "passage_not_found": {"setPosition"},
    "passage_ambiguous": {"setPosition"},
    # What a text of golden queries has to be, a description cannot say.
    "golden_invalid": {"evaluate"},
    # Names of worlds and files that cannot be printed, or are all the same; names of models and
    # chunkings that the library has not, worlds that hold nothing yet, sentences past the end of a
    # book, a domain of another world; labels that are no URL or code, JSON in a query string; a
    # document that was uploaded, and has no file to read again; a chat without a question.
    "invalid_argument": {
        "createWorld", "uploadDocuments", "ingestSources", "updateDocument", "countFacets",
        "reindex", "promote", "removeGeneration", "setPosition", "examineWorld", "listNotes",
        "listDocuments", "reingestDocument", "evaluate", "completeChat",
        "addNote",
    },
    "source_missing": {"reingestDocument"},
}  # fmt: skip

NO_RERANKER = "No reranker is configured."
"""Said to a caller who wants one; the description cannot know the settings of a server."""


@schemathesis.hook
def filter_failure(_context: Any, failure: Any, case: Any, response: Any) -> bool:
    """Keep a failure, unless it is a refusal that no description could have foretold."""
    if failure.code == ACCEPTED:
        # It was not accepted: 413 is how a query string that is too long is refused.
        return response.status_code != 413
    if failure.code != REJECTED:
        return True
    if response.json()["detail"] == NO_RERANKER:
        return False
    called = case.operation.definition.raw["operationId"]
    return called not in BY_STATE.get(response.json()["code"], ())


@schemathesis.hook
def map_body(_context: Any, body: Any) -> Any:
    """Spell whole numbers without a fraction.

    JSON Schema takes 5.0 for an integer. No interface accepts that: a count with a decimal
    point is a mistake.
    """
    if isinstance(body, dict):
        return {name: map_body(_context, value) for name, value in body.items()}
    if isinstance(body, list):
        return [map_body(_context, value) for value in body]
    return int(body) if isinstance(body, float) and body.is_integer() else body
