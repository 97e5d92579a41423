"""The OpenAPI document, generated from the operations, their docstrings and their types."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from http import HTTPStatus
from typing import Any

import msgspec

from truespan import __version__, errors
from truespan.extensions.proof.wire import with_receipt
from truespan.extensions.server.arguments import with_contract_names
from truespan.extensions.server.http.bodies import FORM, MAX_FILES, Declaration
from truespan.extensions.server.http.operation import EVENTS, JSON, CallContext, Operation
from truespan.extensions.server.http.replies import PROBLEM, ProblemDetails
from truespan.extensions.server.http.requests import NOT_BLANK, NOT_SPACE
from truespan.extensions.server.http.routes import ROUTES
from truespan.extensions.server.library import MAX_KEY_LENGTH
from truespan.types.answer import Answer, Piece, Started
from truespan.types.decision import AnswerMode
from truespan.types.request import Defaults
from truespan.types.scope import MAX_GENERATION
from truespan.wire.serialize import status_of

Schema = dict[str, Any]
ErrorType = type[errors.TruespanError] | str
"""A code, or a class for all its codes."""

INFO = {
    "title": "Truespan",
    "summary": "Verified context from your documents for language models.",
    "description": (
        "Every returned character is verified, when it is read, against the hash it was embedded "
        "with, and a caller never sees more than its token allows.\n\n"
        "A world is named by its id or its name; a document by its number, its doc_id or its file "
        "name. Names are percent-encoded. Unknown members of a body and unknown names in a query "
        "string are refused. What a caller may not see is reported as if it did not exist.\n\n"
        "Every error is a problem (RFC 9457) with a stable `code`; `retryable` says whether to "
        "retry the same request. A method that an address does not support gets 405 with `Allow`. "
        "Every GET also works as HEAD. Requests that change something take an `Idempotency-Key`: "
        "repeated with the same key within a day, they return the first reply and change nothing."
    ),
    "version": __version__,
    "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
}
BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token made by `truespan token create`. On loopback it is optional unless "
    "the server was started with --require-token; without one, the caller is the owner. A server "
    "with an identity provider also accepts its signed tokens (JWT). The header "
    "X-Truespan-Audience (labels separated by commas, percent-encoded) limits a request to "
    "documents for everyone and for one of the labels.",
}


def _text(description: str, pattern: str | None = "^[^/]+$", longest: int | None = None) -> Schema:
    return {
        "description": description,
        **({} if pattern is None else {"pattern": pattern}),
        "type": "string",
        **({} if longest is None else {"maxLength": longest}),
        "minLength": 1,
    }


PARAMETERS = {
    "world": _text("The id or the name of a world."),
    "document": _text("The number of a document, its doc_id, or its file name if that is unique."),
    "chunk": _text("The id of a chunk."),
    "image_ref": _text(
        "An image as figures name it: the doc_id, a slash, and the file name.", None
    ),
    "job": _text("The id of a job."),
    "reader": _text(
        "The name of a reader. A reader without a position has read nothing.",
        rf"^[^/]*{NOT_SPACE.replace('[^', '[^/')}[^/]*$",
        200,
    ),
    "record": _text("The id of a record in the usage log."),
    "conversation": _text("The id of a conversation."),
    "note": _text("The id of a note."),
    "generation": {
        "description": "The number of a generation.",
        "type": "integer",
        "minimum": 0,
        "maximum": MAX_GENERATION,
    },
    "X-RAG-Domain": _text(
        "The key of a domain, which selects its world and generation.", None, 200
    ),
    "Idempotency-Key": _text(
        "A unique string. A request repeated with the same key is executed only once.",
        r"^[!-~]([ -~]*[!-~])?$",
        MAX_KEY_LENGTH,
    ),
}
"""The parameters of paths and headers by name."""


def _header(description: str, required: bool = True, **schema: Any) -> Schema:
    always = {"required": True} if required else {}
    return {"description": description, **always, "schema": schema}


HEADERS = {
    "X-Answer-Mode": _header(
        "The basis of the answer, as in its `mode`.",
        type="string",
        enum=[str(mode) for mode in AnswerMode],
    ),
    "X-RAG-Domain": _header("The domain of the request, if it named one.", False, type="string"),
    "Location": _header(
        "The address of the created world or of the job.", type="string", format="uri-reference"
    ),
    "Retry-After": _header("Seconds to wait before retrying.", type="integer", minimum=1),
    "Maybe-Retry-After": _header(
        "Seconds to wait before retrying, if known.", False, type="integer", minimum=1
    ),
    "WWW-Authenticate": _header(
        "The required authentication scheme.", type="string", const='Bearer realm="truespan"'
    ),
    "Allow": _header("The methods that the address supports.", type="string"),
}

COMMON_ERRORS: tuple[ErrorType, ...] = (
    *("invalid_argument", "query_too_long", "world_not_named"),
    "request_too_large",
    "host_refused",
    "origin_refused",
    errors.DeadlineExceeded,
    errors.Interrupted,
    errors.Overloaded,
    errors.InternalError,
)
"""Errors of every operation."""
TOKEN_ERRORS: tuple[ErrorType, ...] = (
    "unauthorized",
    errors.TooManyRequests,
    errors.StoreBusy,
    errors.StoreDamaged,
    errors.TooManyOpenFiles,
)
"""Further errors of every operation that is not public."""
_WRITE_ERRORS: tuple[ErrorType, ...] = (
    "idempotency_key_reused",
    "idempotency_key_busy",
    errors.StorageFull,
)

_NOT_FOUND: dict[str, ErrorType] = {
    "world": "world_not_found",
    "document": "document_not_found",
    "chunk": "chunk_not_found",
    "image_ref": "image_not_found",
    "job": "job_not_found",
    "conversation": "conversation_not_found",
    "note": "note_not_found",
    "generation": "generation_not_found",
}
"""Errors of operations by the parameters of their paths."""

_ANSWER_EVENTS = {
    "started": Started,
    "piece": Piece,
    "finished": with_receipt(Answer),
    "problem": ProblemDetails,
}


def document_operation(
    operations: tuple[Operation, ...], *, needs_token: bool = False
) -> Operation:
    """Return the operation that serves the document, which is generated on first use."""

    def openapi(context: CallContext) -> dict[str, Any]:
        """Get this document.

        Describes every operation of this server in OpenAPI 3.1. To a caller who sees a world with
        the contract's defaults, it lists the contract's names of arguments too.
        """
        contract = any(world.defaults is Defaults.CONTRACT for world in context.library.worlds())
        every = (*operations, operation)
        encoded: Any = make_document(every, needs_token=needs_token, contract=contract)
        return encoded

    operation = Operation("GET", "/openapi.json", openapi, public=True)
    return operation


CONTRACT_BODIES = ("SearchArguments", "RetrieveRequest")
"""Bodies in which the contract has names of its own for arguments."""


# Shared by threads: caches of values that are only read.
@cache
def make_document(
    operations: tuple[Operation, ...], *, needs_token: bool, contract: bool = False
) -> bytes:
    """Return the document as JSON; the same operations give the same bytes."""
    references, schemas = _schemas(operations)
    if contract:
        schemas |= {name: with_contract_names(schemas[name]) for name in CONTRACT_BODIES}
    paths: dict[str, Schema] = {}
    for operation in operations:
        path = re.sub(r":\w+}", "}", operation.path)
        paths.setdefault(path, {})[operation.method.lower()] = _describe(operation, references)
    not_allowed = {
        "description": "The reply to a method that the address does not support (405).",
        "headers": {"Allow": _ref("headers", "Allow")},
        "content": {PROBLEM: {"schema": _ref("schemas", "ProblemDetails")}},
    }
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": INFO,
            "servers": [{"url": "/", "description": "The server of this document."}],
            "security": [{"bearer": []}] if needs_token else [{}, {"bearer": []}],
            "tags": [
                {"name": routes.topic, "description": routes.description} for routes in ROUTES
            ],
            "paths": paths,
            "components": {
                "schemas": {name: schemas[name] for name in sorted(schemas)},
                "headers": HEADERS,
                "responses": {"MethodNotAllowed": not_allowed},
                "securitySchemes": {"bearer": BEARER},
            },
        }
    )


def _ref(section: str, name: str) -> Schema:
    return {"$ref": f"#/components/{section}/{name}"}


def _schemas(operations: tuple[Operation, ...]) -> tuple[dict[Any, Schema], dict[str, Schema]]:
    """Return a reference to the schema of each type, and all schemas by name."""
    bodies = {operation.body_type for operation in operations} - {None}
    types = [
        *(kind for operation in operations for kind in (operation.reply_type, operation.body_type)),
        *(kind for operation in operations for kind in (operation.events or {}).values()),
        *_ANSWER_EVENTS.values(),
    ]
    types = [kind for kind in dict.fromkeys(types) if kind not in (None, bytes)]
    references, schemas = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    for schema in schemas.values():
        if "description" in schema:
            schema["description"] = " ".join(schema["description"].split())
    # Some rules have errors of their own instead of being part of the type.
    for kind in bodies:
        schema = schemas[kind.__name__]
        schema |= getattr(kind, "SCHEMA", {})
        if "query" in schema.get("required", ()):
            schema["properties"]["query"]["pattern"] = NOT_BLANK
    return dict(zip(types, references, strict=True)), schemas


def _describe(operation: Operation, references: dict[Any, Schema]) -> Schema:
    content: Schema = {}
    if operation.takes_form:
        files = {
            "description": "The files, each in a part of this name with its own file name.",
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_FILES,
            "items": {"type": "string", "format": "binary"},
        }
        form = {
            "type": "object",
            "required": ["file"],
            "additionalProperties": False,
            "properties": {"file": files, **_properties(Declaration)},
        }
        content = {FORM: {"schema": form}}
    elif operation.body_type is not None:
        content = {JSON: {"schema": references[operation.body_type], "example": operation.example}}
    return {
        "operationId": operation.name,
        "tags": [
            next((routes.topic for routes in ROUTES if operation in routes.operations), "Server")
        ],
        "summary": operation.summary,
        "description": operation.description,
        "parameters": _parameters(operation),
        **({"requestBody": {"required": True, "content": content}} if content else {}),
        "responses": {
            str(operation.status): _success(operation, references),
            **_failures(operation),
        },
        **({"security": []} if operation.public else {}),
    }


def _parameters(operation: Operation) -> list[Schema]:
    path = re.findall(r"{(\w+)", operation.path)
    query = {} if operation.query_type is None else _properties(operation.query_type)
    headers = ["X-RAG-Domain"] * operation.domains + ["Idempotency-Key"] * operation.writes
    found = [
        *((name, "path", PARAMETERS[name]) for name in path),
        *((name, "query", schema) for name, schema in query.items()),
        *((name, "header", PARAMETERS[name]) for name in headers),
    ]
    parameters: list[Schema] = []
    for name, place, schema in found:
        entry: Schema = {"name": name, "in": place, "required": place == "path"}
        if "description" in schema:
            entry["description"] = schema["description"]
        entry["schema"] = {key: value for key, value in schema.items() if key != "description"}
        parameters.append(entry)
    return parameters


def _properties(kind: type) -> dict[str, Schema]:
    """Return the schemas of a type's members, without null: query strings and forms have none."""
    properties = msgspec.json.schema(kind)["$defs"][kind.__name__]["properties"]
    for name, schema in properties.items():
        others = [part for part in schema.get("anyOf", ()) if part.get("type") != "null"]
        properties[name] = others[0] if others else schema
    return properties


def _success(operation: Operation, references: dict[Any, Schema]) -> Schema:
    headers = ["Location"] if operation.status in (201, 202) else []
    answers = operation.streams and operation.events is None
    headers += ["X-Answer-Mode"] if answers else []
    headers += ["X-RAG-Domain"] if answers and operation.domains else []
    if operation.reply_type is bytes:
        content = {operation.media_type: {}}
    else:
        content = {JSON: {"schema": references[operation.reply_type]}}
    content |= {kind: {} for kind in operation.other_media_types}
    if operation.streams:
        events = _ANSWER_EVENTS
        if operation.events is not None:
            events = {**operation.events, "problem": ProblemDetails}
        content[EVENTS] = {"schema": _events_schema(events, references)}
    links = {
        name: {"operationId": name, "parameters": parameters}
        for name, parameters in operation.links.items()
    }
    return {
        "description": f"{operation.summary}.",
        **({"headers": {name: _ref("headers", name) for name in headers}} if headers else {}),
        "content": content,
        **({"links": links} if links else {}),
    }


def _events_schema(events: dict[str, Any], references: dict[Any, Schema]) -> Schema:
    """Return the schema of one event of a stream; OpenAPI 3.1 cannot describe a whole stream."""
    if "" in events:
        data = {"type": "string", "contentMediaType": JSON}
        return {
            "description": f"Each event has as its data a {events[''].__name__} as JSON, an object "
            "with `error`, or `[DONE]` at the end.",
            "type": "object",
            "required": ["data"],
            "properties": {"data": data},
        }
    variants: list[Schema] = []
    for name, kind in events.items():
        data = {"type": "string", "contentMediaType": JSON, "contentSchema": references[kind]}
        variants.append(
            {
                "type": "object",
                "required": ["event", "data"],
                "properties": {"event": {"const": name}, "data": data},
            }
        )
    return {"description": "Each event has a name, and JSON as its data.", "oneOf": variants}


def errors_of(operation: Operation) -> list[str]:
    """Return the code of every error that an operation can give, ordered by status and code."""
    declared = [*COMMON_ERRORS, *operation.errors]
    declared += [] if operation.public else TOKEN_ERRORS
    names = re.findall(r"{(\w+)", operation.path)
    declared += ["route_not_found"] if names else []
    declared += [_NOT_FOUND[name] for name in names if name in _NOT_FOUND]
    has_body = operation.body_type is not None or operation.takes_form
    declared += ["media_type_unsupported"] if has_body else []
    declared += _WRITE_ERRORS if operation.writes else []
    declared += ["domain_not_found"] if operation.domains else []
    return sorted(codes_of(declared), key=lambda code: (_status(code), code))


def codes_of(declared: Iterable[ErrorType]) -> set[str]:
    """Return declared codes and all codes of declared classes."""
    expanded = (
        {each} if isinstance(each, str) else {*errors.error_codes(each)} for each in declared
    )
    return set().union(*expanded)


def _status(code: str) -> int:
    return status_of(errors.error_of(code)).http


def _failures(operation: Operation) -> dict[str, Schema]:
    by_status: dict[int, list[str]] = {}
    for code in errors_of(operation):
        by_status.setdefault(_status(code), []).append(code)
    responses: dict[str, Schema] = {}
    for status, codes in by_status.items():
        quoted = [f"`{code}`" for code in codes]
        either = " or ".join([", ".join(quoted[:-1]), quoted[-1]] if quoted[1:] else quoted)
        headers: dict[str, Schema] = {}
        if any(errors.error_of(code).retryable for code in codes):
            is_always_sent = codes == ["too_many_requests"]
            name = "Retry-After" if is_always_sent else "Maybe-Retry-After"
            headers["Retry-After"] = _ref("headers", name)
        if "unauthorized" in codes:
            headers["WWW-Authenticate"] = _ref("headers", "WWW-Authenticate")
        narrowed = {"properties": {"status": {"const": status}, "code": {"enum": codes}}}
        content = {"schema": {"allOf": [_ref("schemas", "ProblemDetails"), narrowed]}}
        responses[str(status)] = {
            "description": f"{HTTPStatus(status).phrase}. The code is {either}.",
            **({"headers": headers} if headers else {}),
            "content": {PROBLEM: content},
        }
    return responses
