"""The operations of the API, by topic in the order of the OpenAPI document."""

from __future__ import annotations

from truespan.extensions.server.http.operation import Operation
from truespan.extensions.server.http.routes.chat_model import chat_model
from truespan.extensions.server.http.routes.conversations import conversations, notes
from truespan.extensions.server.http.routes.jobs import generations, jobs
from truespan.extensions.server.http.routes.library import documents, server, worlds
from truespan.extensions.server.http.routes.openai import openai
from truespan.extensions.server.http.routes.questions import asking, evaluation, reading

# Shared by threads: filled while modules are imported, then only read.
ROUTES = (
    *(worlds, documents, jobs, asking, reading, notes, conversations, chat_model, openai),
    *(generations, evaluation, server),
)
OPERATIONS: tuple[Operation, ...] = tuple(
    operation for routes in ROUTES for operation in routes.operations
)
