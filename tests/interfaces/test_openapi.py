"""The OpenAPI document is valid and complete, and by schemathesis the server does what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31
from tools import fuzz_http_rules
from tools.fuzz_http import OWNER, Course, library_of, run, served_for

import truespan
from truespan import errors
from truespan.http.openapi import (
    COMMON_ERRORS,
    TOKEN_ERRORS,
    document_operation,
    errors_of,
    make_document,
)
from truespan.http.operation import EVENTS, JSON, Operation
from truespan.http.replies import PROBLEM
from truespan.http.routes import OPERATIONS, ROUTES
from truespan.serialize import status_of
from truespan.types.decision import AnswerMode

EVERY = (*OPERATIONS, document_operation(OPERATIONS))
each_call = pytest.mark.parametrize("call", EVERY, ids=lambda call: call.name)


@pytest.fixture(scope="module")
def told() -> Any:
    return json.loads(make_document(EVERY, needs_token=False))


def operation_of(told: Any, call: Operation) -> Any:
    return told["paths"][re.sub(r":\w+}", "}", call.path)][call.method.lower()]


def every_part(value: Any) -> Iterator[dict[str, Any]]:
    """Give every object of the document, examples left out."""
    if isinstance(value, dict):
        yield value
        for name, part in value.items():
            if name not in ("example", "value"):
                yield from every_part(part)
    elif isinstance(value, list):
        for part in value:
            yield from every_part(part)


def schema_of(told: Any, schema: Any) -> Any:
    return {**schema, "components": told["components"]}


# The document


def test_the_document_is_valid_by_the_rules_of_openapi(told: Any) -> None:
    assert [
        error.message for error in jsonschema_rs.validator_for(OPENAPI_31).iter_errors(told)
    ] == []


def test_a_document_that_breaks_the_rules_is_noticed(told: Any) -> None:
    broken = {**told, "paths": {"/v1/me": {"get": {"responses": {"oops": {}}}}}}

    assert not jsonschema_rs.validator_for(OPENAPI_31).is_valid(broken)


def test_every_schema_of_it_is_a_schema(told: Any) -> None:
    for schema in told["components"]["schemas"].values():
        jsonschema_rs.meta.validate(
            {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema
        )
        jsonschema_rs.validator_for(schema_of(told, schema))


def test_every_reference_leads_somewhere_and_every_component_is_referred_to(told: Any) -> None:
    references = {part["$ref"] for part in every_part(told) if isinstance(part.get("$ref"), str)}
    kept = {
        f"#/components/{kind}/{name}"
        for kind, entries in told["components"].items()
        for name in entries
        if kind not in ("securitySchemes", "responses")
    }

    assert references == kept


def test_the_same_calls_give_the_same_bytes_in_every_process() -> None:
    source = (
        "import sys\n"
        "from truespan.http.openapi import document_operation, make_document\n"
        "from truespan.http.routes import OPERATIONS\n"
        "every = (*OPERATIONS, document_operation(OPERATIONS))\n"
        "sys.stdout.buffer.write(make_document(every, needs_token=False))\n"
    )
    written = [
        subprocess.run(
            [sys.executable, "-c", source],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]

    assert written[0] == written[1]
    assert written[0].startswith(b'{"openapi":"3.1.0"')


def test_it_names_the_version_and_the_licence(told: Any) -> None:
    assert told["info"]["version"] == truespan.__version__
    assert told["info"]["license"]["identifier"] == "Apache-2.0"


def test_it_says_whether_a_token_is_needed(told: Any) -> None:
    strict = json.loads(make_document(EVERY, needs_token=True))

    assert told["security"] == [{}, {"bearer": []}]
    assert strict["security"] == [{"bearer": []}]
    assert {call.name for call in EVERY if operation_of(strict, call).get("security") == []} == {
        call.name for call in EVERY if call.public
    }


# Its calls


def test_it_has_every_call_once(told: Any) -> None:
    listed = [entry["operationId"] for path in told["paths"].values() for entry in path.values()]

    assert sorted(listed) == sorted(call.name for call in EVERY)
    assert [tag["name"] for tag in told["tags"]] == [routes.topic for routes in ROUTES]


@each_call
def test_a_call_is_described_in_whole_sentences(told: Any, call: Operation) -> None:
    described = operation_of(told, call)

    assert re.fullmatch(r"[A-Z][^.]+[^.!?]", described["summary"])
    assert re.fullmatch(r"[A-Z].+\.", described["description"])
    for parameter in described["parameters"]:
        assert parameter["schema"]
        assert parameter["in"] == "query" or re.fullmatch(r"[A-Z].+\.", parameter["description"])


@each_call
def test_a_call_has_every_parameter_of_its_address(told: Any, call: Operation) -> None:
    listed = [one["name"] for one in operation_of(told, call)["parameters"] if one["in"] == "path"]

    assert listed == re.findall(r"{(\w+)", call.path)


@each_call
def test_a_call_lists_every_error_it_can_give_by_status_with_an_example(
    told: Any, call: Operation
) -> None:
    responses = operation_of(told, call)["responses"]
    expected = {*COMMON_ERRORS, *call.errors, *(() if call.public else TOKEN_ERRORS)}

    for kind in expected:
        told_of = responses[str(status_of(kind.__new__(kind)).http)]["content"][PROBLEM]
        example = told["components"]["examples"][kind.code]["value"]
        assert kind.code in told_of["schema"]["allOf"][1]["properties"]["code"]["enum"]
        assert told_of["examples"][kind.code] == {"$ref": f"#/components/examples/{kind.code}"}
        jsonschema_rs.validator_for(schema_of(told, told_of["schema"])).validate(example)
        assert f"`{kind.code}`" in responses[str(example["status"])]["description"]


def test_a_call_that_can_give_an_error_can_give_those_below_it() -> None:
    search = next(call for call in OPERATIONS if call.name == "search")

    assert {errors.ProviderUnavailable, errors.ProviderCoolingDown} <= {*errors_of(search)}


@each_call
def test_the_example_of_a_body_is_one(told: Any, call: Operation) -> None:
    if call.body_type is not None:
        body = operation_of(told, call)["requestBody"]["content"][JSON]
        jsonschema_rs.validator_for(schema_of(told, body["schema"])).validate(body["example"])


@each_call
def test_a_call_tells_the_kinds_of_its_reply_and_the_headers(told: Any, call: Operation) -> None:
    reply = operation_of(told, call)["responses"][str(call.status)]

    expected = {call.media_type, EVENTS} if call.streams else {call.media_type}
    assert {*reply["content"]} == expected
    assert ("Location" in reply.get("headers", {})) == (call.status in (201, 202))
    assert ("X-Answer-Mode" in reply.get("headers", {})) == call.streams


def test_the_modes_of_the_header_are_those_of_answers(told: Any) -> None:
    modes = told["components"]["headers"]["X-Answer-Mode"]["schema"]["enum"]

    assert sorted(modes) == sorted(AnswerMode)


def test_what_schemathesis_lets_pass_comes_from_calls_that_there_are() -> None:
    named = set().union(*fuzz_http_rules.BY_STATE.values())

    assert named <= {call.name for call in OPERATIONS}
    assert {call.name for call in OPERATIONS if call.writes} == fuzz_http_rules.WRITES


# The server


def test_schemathesis_finds_nothing_as_the_owner(tmp_path: Path) -> None:
    with library_of(tmp_path) as library, served_for(library, OWNER) as server:
        found = run(tmp_path, server, Course(examples=2))

    assert found.passed, found.report
