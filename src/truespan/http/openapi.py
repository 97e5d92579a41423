"""The OpenAPI document, made from the table of calls and the types that they take and give."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from functools import cache
from http import HTTPStatus
from typing import Any

import msgspec

from truespan import __version__
from truespan.errors import (
    DeadlineExceeded,
    DomainNotFound,
    HostRefused,
    InternalError,
    Interrupted,
    InvalidSettings,
    KeyBusy,
    KeyReused,
    MediaTypeUnsupported,
    OriginRefused,
    Overloaded,
    RequestTooLarge,
    RouteNotFound,
    StorageFull,
    StoreBusy,
    StoreDamaged,
    TooManyRequests,
    TruespanError,
    Unauthorized,
    error_types,
)
from truespan.http.bodies import MOST_FILES, Declaration
from truespan.http.call import EVENTS, FORM, JSON, Call, Reply
from truespan.http.problems import PROBLEM, ProblemDetails, problem_reply
from truespan.http.routes.table import TOPICS
from truespan.http.schemas import JobSummary
from truespan.serialize import status_of
from truespan.types.answer import Answer, Piece, Started
from truespan.types.token import LONGEST_KEY

ABOUT = (
    "Every character that is given out was checked, at the moment of reading, against the hash it "
    "was embedded with; and a caller sees no more than its token allows.\n\n"
    "A world is named by its id or its name, a document by its number, its doc_id or the name of "
    "its file; names are percent-encoded. A body is refused if it has members that are not known "
    "here, and a query string if it has such names. What a caller may not know of is answered as "
    "if it were not there.\n\n"
    "Every error is a problem (RFC 9457) with a stable `code`, and `retryable` says whether the "
    "same request may succeed later. An address that takes another method answers 405 with "
    "`Allow`; what can be got can be asked for its headers alone (HEAD). A request that changes "
    "something may have an `Idempotency-Key`: sent again with the same key within a day, it gets "
    "the reply of the first time, and nothing is done twice."
)
TOPIC_WORDS = {
    "Worlds": "Worlds keep documents apart; domains are names for what is asked.",
    "Documents": "Documents are uploaded, listed, read and removed.",
    "Jobs": "Taking in documents and building generations goes on in jobs.",
    "Asking": "Whoever may read a world searches it, gets context from it, and asks it questions.",
    "Reading": "A reader gets nothing from beyond the position in the book.",
    "Generations": "A world can be built anew beside the one in use, which then changes at once.",
    "Server": "The server says whether it runs, how it fares, and what can be asked of it.",
}

_WORDS = r"[^\s\u001c-\u001f\u0085]"
"""Something that is no white space, as Python has it: some others count less as white space."""
_SEGMENT = r"^[^/]+$"

PATHS: dict[str, dict[str, Any]] = {
    "world": {
        "description": "The id or the name of a world.",
        "schema": {"type": "string", "minLength": 1, "pattern": _SEGMENT},
    },
    "document": {
        "description": "The number of a document, its doc_id, or its name if only one has it.",
        "schema": {"type": "string", "minLength": 1, "pattern": _SEGMENT},
    },
    "chunk": {
        "description": "The id of a chunk.",
        "schema": {"type": "string", "minLength": 1, "pattern": _SEGMENT},
    },
    "image_ref": {
        "description": "An image as figures name it: the doc_id, a slash, and the image's name.",
        "schema": {"type": "string", "minLength": 1},
    },
    "job": {
        "description": "The id of a job.",
        "schema": {"type": "string", "minLength": 1, "pattern": _SEGMENT},
    },
    "reader": {
        "description": "The name of a reader; one that has no position reads nothing.",
        "schema": {
            "type": "string",
            "minLength": 1,
            "maxLength": 200,
            "pattern": rf"^[^/]*{_WORDS.replace('[^', '[^/')}[^/]*$",
        },
    },
    "record": {
        "description": "The id of a record in the usage log.",
        "schema": {"type": "string", "minLength": 1, "pattern": _SEGMENT},
    },
    "generation": {
        "description": "The number of a generation.",
        "schema": {"type": "integer", "minimum": 0, "maximum": 999_999_999},
    },
    "X-RAG-Domain": {
        "description": "The key of a domain: its generation is asked, and it chooses the world.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 200},
    },
    "Idempotency-Key": {
        "description": "Any word that no other request has. Repeating the request with it is safe.",
        "schema": {
            "type": "string",
            "minLength": 1,
            "maxLength": LONGEST_KEY,
            "pattern": r"^[!-~]([ -~]*[!-~])?$",
        },
    },
}
"""Parameters by their names."""

_SECONDS = {"type": "integer", "minimum": 1}
HEADERS: dict[str, Any] = {
    "X-Answer-Mode": {
        "description": "How the answer came about, as `mode` says in it.",
        "required": True,
        "schema": {"type": "string", "enum": ["rag", "hybrid", "fallback"]},
    },
    "X-RAG-Domain": {
        "description": "The domain that was asked, where one was named.",
        "schema": {"type": "string"},
    },
    "Location": {
        "description": "Where what was made, or the job at work, can be looked at.",
        "required": True,
        "schema": {"type": "string", "format": "uri-reference"},
    },
    "Retry-After": {
        "description": "After how many seconds to try again.",
        "required": True,
        "schema": _SECONDS,
    },
    "Maybe-Retry-After": {
        "description": "After how many seconds to try again, where that is known.",
        "schema": _SECONDS,
    },
    "WWW-Authenticate": {
        "description": "Which kind of token is wanted.",
        "required": True,
        "schema": {"type": "string", "const": 'Bearer realm="truespan"'},
    },
    "Allow": {
        "description": "The methods that the address takes.",
        "required": True,
        "schema": {"type": "string"},
    },
}
RESPONSES: dict[str, Any] = {
    "MethodNotAllowed": {
        "description": "The answer of any address to a method that it does not take (405).",
        "headers": {"Allow": {"$ref": "#/components/headers/Allow"}},
        "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}},
    }
}

_WORLD = "$request.path.world"
_JOB = {"world": _WORLD, "job": "$response.body#/job/id"}
_MADE = {"world": "$response.body#/id"}
LINKS: dict[str, dict[str, dict[str, str]]] = {
    "createWorld": {"showWorld": _MADE, "listDocuments": _MADE, "deleteWorld": _MADE},
    "uploadDocuments": {"showJob": _JOB, "followJob": _JOB, "cancelJob": _JOB},
    "reindex": {"showJob": _JOB, "followJob": _JOB, "cancelJob": _JOB},
    "repairWorld": {"showJob": _JOB, "followJob": _JOB, "cancelJob": _JOB},
    "examineWorld": {"showJob": _JOB, "followJob": _JOB, "cancelJob": _JOB},
    "resumeJob": {"showJob": _JOB, "followJob": _JOB},
}
"""Where a reply leads: which calls it has the parameters of."""

_GIVEN = {"type": "string"}
NARROWER: dict[str, dict[str, Any]] = {
    "SearchArguments": {"properties": {"query": {"pattern": _WORDS}}},
    "Question": {"properties": {"query": {"pattern": _WORDS}}},
    "ChatQuestion": {"properties": {"query": {"pattern": _WORDS}}},
    "Missing": {"properties": {"query": {"pattern": _WORDS}}},
    "ReadingArguments": {"properties": {"query": {"pattern": _WORDS}}},
    "ReadingQuestion": {"properties": {"query": {"pattern": _WORDS}}},
    "ReadingMissing": {"properties": {"query": {"pattern": _WORDS}}},
    "Retrieving": {
        "anyOf": [
            {"required": ["query"], "properties": {"query": {**_GIVEN, "pattern": _WORDS}}},
            {
                "required": ["selected_text"],
                "properties": {
                    "query": {"type": "null"},
                    "selected_text": {**_GIVEN, "pattern": _WORDS},
                    "fused": {"const": False},
                },
            },
        ],
    },
    "NewPosition": {
        "oneOf": [
            {"required": ["sid"], "properties": {"sid": {"type": "integer"}}},
            {"required": ["through_chapter"], "properties": {"through_chapter": _GIVEN}},
            {"required": ["passage"], "properties": {"passage": _GIVEN}},
        ],
    },
}
"""What is said of bodies beyond their types. The engine has errors of its own for these."""

UPLOAD: dict[str, Any] = {
    "type": "object",
    "required": ["file"],
    "additionalProperties": False,
    "properties": {
        "file": {
            "description": "The files, each in a part of this name with a name of its own.",
            "type": "array",
            "minItems": 1,
            "maxItems": MOST_FILES,
            "items": {"type": "string", "format": "binary"},
        },
    },
}
"""The form of an upload; its other fields are those of `Declaration`."""


Kind = type[TruespanError]

EVERYWHERE: tuple[Kind, ...] = (
    InvalidSettings,
    RequestTooLarge,
    HostRefused,
    OriginRefused,
    DeadlineExceeded,
    Interrupted,
    Overloaded,
    InternalError,
)
"""What can go wrong with any request, before anything is asked of the library."""
KNOWN: tuple[Kind, ...] = (Unauthorized, TooManyRequests, StoreBusy, StoreDamaged)
"""What can go wrong where the caller must be known, beside that."""
WRITING: tuple[Kind, ...] = (KeyReused, KeyBusy, StorageFull)

_SAMPLES: dict[str, Any] = {
    "str": "example",
    "int": 12,
    "float": 2.0,
    "Iterable[str]": ("GET", "HEAD"),
    "list[tuple[int, str]]": [],
    "message": "This sentence says what was wrong.",
    "verb": "write",
    "kind": "error",
    "tokens": 700,
    "limit": 512,
    "wanted": "application/json",
    "state": "running",
}
"""What stands in an example where an error is told something, by its name or its type."""


def kinds_of(call: Call) -> list[Kind]:
    """Return every error that a call can give, in the order of their statuses and codes."""
    told = [*EVERYWHERE, *call.errors]
    told += [] if call.open else KNOWN
    told += [RouteNotFound] if "{" in call.path else []
    told += [MediaTypeUnsupported] if call.takes is not None or call.form else []
    told += WRITING if call.writes else []
    told += [DomainNotFound] if call.domains else []
    every = {kind for one in told for kind in error_types(one)}
    return sorted(every, key=lambda kind: (_status(kind), kind.code))


def problem_responses(call: Call) -> dict[str, Any]:
    """Return the responses of a call that fails, one for each status."""
    by_status: dict[int, list[Kind]] = {}
    for kind in kinds_of(call):
        by_status.setdefault(_status(kind), []).append(kind)
    return {str(status): _response(status, kinds) for status, kinds in by_status.items()}


def problem_examples(calls: Iterable[Call]) -> dict[str, Any]:
    """Return an example of every error that some call can give, by its code."""
    kinds = {kind.code: kind for call in calls for kind in kinds_of(call)}
    return {code: _example(kinds[code]) for code in sorted(kinds)}


def _response(status: int, kinds: list[Kind]) -> dict[str, Any]:
    codes = [kind.code for kind in kinds]
    narrowed = {"properties": {"status": {"const": status}, "code": {"enum": codes}}}
    headers = {name: entry for kind in kinds for name, entry in _headers(kind, kinds)}
    return {
        "description": f"{HTTPStatus(status).phrase}. The code is {_either(codes)}.",
        **({"headers": headers} if headers else {}),
        "content": {
            PROBLEM: {
                "schema": {
                    "allOf": [{"$ref": "#/components/schemas/ProblemDetails"}, narrowed],
                },
                "examples": {code: {"$ref": f"#/components/examples/{code}"} for code in codes},
            }
        },
    }


def _headers(kind: Kind, beside: list[Kind]) -> Iterator[tuple[str, dict[str, Any]]]:
    if kind is Unauthorized:
        yield "WWW-Authenticate", {"$ref": "#/components/headers/WWW-Authenticate"}
    elif kind.retryable:
        always = all(one is TooManyRequests for one in beside)
        yield (
            "Retry-After",
            {"$ref": f"#/components/headers/{'' if always else 'Maybe-'}Retry-After"},
        )


def _either(codes: list[str]) -> str:
    spelled = [f"`{code}`" for code in codes]
    return spelled[0] if len(spelled) == 1 else f"{', '.join(spelled[:-1])} or {spelled[-1]}"


def _example(kind: Kind) -> dict[str, Any]:
    error = _sample(kind)
    return {
        "summary": f"{error.message}",
        "value": msgspec.to_builtins(problem_reply(error).value),
    }


def _sample(kind: Kind) -> TruespanError:
    """Return an error of a kind, told of something that might have been."""
    wanted = inspect.signature(kind).parameters.values()
    told = [
        _SAMPLES.get(parameter.name) or _SAMPLES[str(parameter.annotation)]
        for parameter in wanted
        if parameter.default is parameter.empty
    ]
    return kind(*told)


def _status(kind: Kind) -> int:
    return status_of(kind.__new__(kind)).http


Schema = dict[str, Any]
_SCHEMAS = "#/components/schemas/{name}"
_STREAMED = {"started": Started, "piece": Piece, "finished": Answer, "problem": ProblemDetails}
_FOLLOWED = {"job": JobSummary, "problem": ProblemDetails}


def description(calls: tuple[Call, ...], *, needs_token: bool = False) -> tuple[Call, ...]:
    """Return the address of the OpenAPI document, which is written when it is first asked for."""
    own = Call(
        "GET",
        "/openapi.json",
        "openapi",
        "This document",
        lambda _: Reply(document((*calls, own), needs_token=needs_token)),
        dict[str, Any],
        open=True,
        description="Describes every call of this server by OpenAPI 3.1.",
    )
    return (own,)


@cache
def document(calls: tuple[Call, ...], *, needs_token: bool) -> bytes:
    """Return the document of these calls; the same calls give the same bytes."""
    by_kind, components = _schemas(calls)
    whole = {
        "openapi": "3.1.0",
        "info": _INFO,
        "servers": [{"url": "/", "description": "The server that gave this document."}],
        "security": [{"bearer": []}] if needs_token else [{}, {"bearer": []}],
        "tags": [{"name": name, "description": words} for name, words in TOPIC_WORDS.items()],
        "paths": _paths(calls, by_kind),
        "components": {
            "schemas": {name: _narrowed(name, components[name]) for name in sorted(components)},
            "examples": problem_examples(calls),
            "headers": HEADERS,
            "responses": RESPONSES,
            "securitySchemes": {"bearer": _BEARER},
        },
    }
    return msgspec.json.encode(whole)


_INFO = {
    "title": "Truespan",
    "summary": "Context from a library of documents that a language model can be given.",
    "description": ABOUT,
    "version": __version__,
    "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
}
_BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token that `truespan token create` has made. On loopback none is needed "
    "unless the server was started so; without one, the caller is the owner.",
}


def _schemas(calls: tuple[Call, ...]) -> tuple[dict[Any, Schema], dict[str, Schema]]:
    """Return how each type is referred to, and what the types say, by their names."""
    given = [kind for call in calls for kind in (call.gives, call.takes)]
    events = [*_STREAMED.values(), *_FOLLOWED.values()]
    kinds = [kind for kind in dict.fromkeys([*given, *events]) if kind not in (None, bytes)]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_SCHEMAS)
    return dict(zip(kinds, schemas, strict=True)), components


def _paths(calls: tuple[Call, ...], by_kind: dict[Any, Schema]) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for call in calls:
        at = paths.setdefault(re.sub(r":\w+}", "}", call.path), {})
        at[call.method.lower()] = _operation(call, by_kind)
    return paths


def _operation(call: Call, by_kind: dict[Any, Schema]) -> dict[str, Any]:
    body = _body(call, by_kind)
    return {
        "operationId": call.name,
        "tags": [_topic(call)],
        "summary": call.summary,
        "description": call.description,
        "parameters": [*_path_parameters(call), *_query_parameters(call), *_openapi_headers(call)],
        **({"requestBody": body} if body else {}),
        "responses": {
            str(call.status): _openapi_response(call, by_kind),
            **problem_responses(call),
        },
        **({"security": []} if call.open else {}),
    }


def _topic(call: Call) -> str:
    return next((name for name, calls in TOPICS.items() if call in calls), "Server")


def _path_parameters(call: Call) -> list[dict[str, Any]]:
    names = re.findall(r"{(\w+)", call.path)
    return [{"name": name, "in": "path", "required": True, **PATHS[name]} for name in names]


def _query_parameters(call: Call) -> list[dict[str, Any]]:
    if call.asks is None:
        return []
    return [
        {"name": name, "in": "query", "required": False, **_parameter(schema)}
        for name, schema in _members(call.asks).items()
    ]


def _parameter(schema: Schema) -> dict[str, Any]:
    words = schema.get("description")
    own = {key: value for key, value in schema.items() if key != "description"}
    return {**({"description": words} if words else {}), "schema": own}


def _members(kind: type) -> dict[str, Schema]:
    """Return what a type says of its members; texts beside JSON have no way to spell null."""
    found = msgspec.json.schema(kind)["$defs"][kind.__name__]["properties"]
    return {name: _without_null(schema) for name, schema in found.items()}


def _without_null(schema: Schema) -> Schema:
    kept = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    return kept[0] if kept else schema


def _openapi_headers(call: Call) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "header", "required": False, **PATHS[name]}
        for name, counts in (("X-RAG-Domain", call.domains), ("Idempotency-Key", call.writes))
        if counts
    ]


def _body(call: Call, by_kind: dict[Any, Schema]) -> dict[str, Any] | None:
    if call.form:
        return {"required": True, "content": {FORM: {"schema": _form()}}}
    if call.takes is None:
        return None
    told: dict[str, Any] = {"schema": by_kind[call.takes]}
    if call.example is not None:
        told["example"] = call.example
    return {"required": True, "content": {JSON: told}}


def _form() -> Schema:
    """Return the form of an upload: its files, and what may be declared of them."""
    return {**UPLOAD, "properties": {**UPLOAD["properties"], **_members(Declaration)}}


def _openapi_response(call: Call, by_kind: dict[Any, Schema]) -> dict[str, Any]:
    headers = _response_headers(call)
    return {
        "description": f"{call.summary}.",
        **({"headers": headers} if headers else {}),
        "content": _content(call, by_kind),
        **({"links": _links(call)} if call.name in LINKS else {}),
    }


def _links(call: Call) -> dict[str, Any]:
    return {
        name: {"operationId": name, "parameters": parameters}
        for name, parameters in LINKS[call.name].items()
    }


def _response_headers(call: Call) -> dict[str, Any]:
    names = ["Location"] if call.status in (201, 202) else []
    names += ["X-Answer-Mode"] if call.streams else []
    names += ["X-RAG-Domain"] if call.streams and call.domains else []
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _content(call: Call, by_kind: dict[Any, Schema]) -> dict[str, Any]:
    if call.media_type == EVENTS:
        return {EVENTS: {"schema": _events(_FOLLOWED, by_kind)}}
    if call.gives is bytes:
        return {call.media_type: {}}
    told = {JSON: {"schema": by_kind[call.gives]}}
    return told | {EVENTS: {"schema": _events(_STREAMED, by_kind)}} if call.streams else told


def _events(kinds: dict[str, Any], by_kind: dict[Any, Schema]) -> Schema:
    """Return what a stream has for each of its events; OpenAPI 3.1 has no word for the whole."""
    return {
        "description": "Each event has a name, and JSON as its data.",
        "oneOf": [_event(name, by_kind[kind]) for name, kind in kinds.items()],
    }


def _event(name: str, schema: Schema) -> Schema:
    spelled = {"type": "string", "contentMediaType": JSON, "contentSchema": schema}
    return {
        "type": "object",
        "required": ["event", "data"],
        "properties": {"event": {"const": name}, "data": spelled},
    }


def _narrowed(name: str, schema: Schema) -> Schema:
    """Say of a body what its type cannot: which members go together, and that words have letters.

    Requests that break these rules get errors of their own, so the types let them pass.
    """
    more = NARROWER.get(name, {})
    properties = {
        member: {**schema["properties"][member], **rule}
        for member, rule in more.get("properties", {}).items()
    }
    told = {**schema, **{key: value for key, value in more.items() if key != "properties"}}
    if properties:
        told["properties"] = {**schema["properties"], **properties}
    if "description" in told:
        told["description"] = " ".join(told["description"].split())
    return told
