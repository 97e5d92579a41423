"""The OpenAPI document, made from the table of calls and the types that they take and give."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

from truespan import __version__
from truespan.doors.http.call import EVENTS, FORM, JSON, Call, Reply
from truespan.doors.http.openapi_problems import problem_examples, problem_responses
from truespan.doors.http.openapi_words import (
    ABOUT,
    HEADERS,
    LINKS,
    NARROWER,
    PATHS,
    RESPONSES,
    TOPIC_WORDS,
    UPLOAD,
)
from truespan.doors.http.problems import ProblemDetails
from truespan.doors.http.shapes import JobSummary
from truespan.doors.http.table import TOPICS
from truespan.doors.http.uploads import Declaration
from truespan.model.answer import Answer, Piece, Started

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
        "parameters": [*_path_parameters(call), *_query_parameters(call), *_headers(call)],
        **({"requestBody": body} if body else {}),
        "responses": {str(call.status): _response(call, by_kind), **problem_responses(call)},
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


def _headers(call: Call) -> list[dict[str, Any]]:
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


def _response(call: Call, by_kind: dict[Any, Schema]) -> dict[str, Any]:
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
