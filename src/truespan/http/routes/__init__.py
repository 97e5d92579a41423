"""The operations of the API, by topic in the order of the OpenAPI document."""

from __future__ import annotations

from truespan.http.operation import Operation
from truespan.http.routes import documents, jobs, library, questions, reading

ROUTES = (
    library.worlds,
    documents.routes,
    jobs.jobs,
    questions.routes,
    reading.routes,
    jobs.generations,
    library.server,
)
OPERATIONS: tuple[Operation, ...] = tuple(
    operation for routes in ROUTES for operation in routes.operations
)
