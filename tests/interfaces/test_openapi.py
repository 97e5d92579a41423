"""The OpenAPI document is valid and complete, and the server does what it says (schemathesis)."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31
from tools import fuzz_http_rules
from tools.fuzz_http import OWNER, Course, library_of, run, served_for

import truespan
from tests.laws.examples import in_test_or_prove
from truespan import errors
from truespan.extensions.server.http.openapi import (
    COMMON_ERRORS,
    TOKEN_ERRORS,
    codes_of,
    document_operation,
    errors_of,
    make_document,
)
from truespan.extensions.server.http.operation import (
    EVENTS,
    JSON,
    CallContext,
    Events,
    Operation,
    Reply,
    Routes,
)
from truespan.extensions.server.http.replies import PROBLEM
from truespan.extensions.server.http.requests import NewWorld, PageQuery
from truespan.extensions.server.http.routes import OPERATIONS, ROUTES
from truespan.extensions.server.http.schemas import DocumentEntry, Health, JobSummary
from truespan.types.audience import check_labels
from truespan.types.decision import AnswerMode
from truespan.types.document import DocumentSort, DocumentStatus
from truespan.types.request import is_blank
from truespan.wire.serialize import status_of

EVERY = (*OPERATIONS, document_operation(OPERATIONS))


@pytest.fixture(scope="module")
def document() -> Any:
    return json.loads(make_document(EVERY, needs_token=False))


def operation_of(document: Any, operation: Operation) -> Any:
    return document["paths"][re.sub(r":\w+}", "}", operation.path)][operation.method.lower()]


def every_part(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of the document except examples."""
    if isinstance(value, dict):
        yield value
        for name, part in value.items():
            if name not in ("example", "value"):
                yield from every_part(part)
    elif isinstance(value, list):
        for part in value:
            yield from every_part(part)


def schema_of(document: Any, schema: Any) -> Any:
    """Return a schema with the components that it refers to: using all of them is slow."""
    known = document["components"]["schemas"]
    needed: dict[str, Any] = {}
    waiting = [schema]
    while waiting:
        for part in every_part(waiting.pop()):
            name = str(part.get("$ref")).removeprefix("#/components/schemas/")
            if name in known and name not in needed:
                needed[name] = known[name]
                waiting.append(known[name])
    return {**schema, "components": {"schemas": needed}}


# The document


def test_document_is_valid_and_described(document: Any) -> None:
    assert [
        error.message for error in jsonschema_rs.validator_for(OPENAPI_31).iter_errors(document)
    ] == []

    broken = {**document, "paths": {"/v1/me": {"get": {"responses": {"oops": {}}}}}}

    assert not jsonschema_rs.validator_for(OPENAPI_31).is_valid(broken)

    for schema in document["components"]["schemas"].values():
        jsonschema_rs.meta.validate(
            {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema
        )
        jsonschema_rs.validator_for(schema_of(document, schema))

    schemas = document["components"]["schemas"]

    assert [name for name, schema in schemas.items() if not schema.get("description")] == []


def test_references_and_components_match(document: Any) -> None:
    references = {
        part["$ref"] for part in every_part(document) if isinstance(part.get("$ref"), str)
    }
    kept = {
        f"#/components/{kind}/{name}"
        for kind, entries in document["components"].items()
        for name in entries
        if kind not in ("securitySchemes", "responses")
    }

    assert references == kept


def test_document_is_the_same_in_every_process() -> None:
    source = (
        "import sys\n"
        "from truespan.extensions.server.http.openapi import document_operation, make_document\n"
        "from truespan.extensions.server.http.routes import OPERATIONS\n"
        "every = (*OPERATIONS, document_operation(OPERATIONS))\n"
        "sys.stdout.buffer.write(make_document(every, needs_token=False))\n"
    )
    # This process hashes strings with another seed.
    done = subprocess.run(
        [sys.executable, "-c", source],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        check=True,
    )
    assert done.stdout == make_document(EVERY, needs_token=False)
    assert done.stdout.startswith(b'{"openapi":"3.1.0"')


def test_document_states_version_modes_and_orders(document: Any) -> None:
    assert document["info"]["version"] == truespan.__version__
    assert document["info"]["license"]["identifier"] == "Apache-2.0"

    modes = document["components"]["headers"]["X-Answer-Mode"]["schema"]["enum"]

    assert sorted(modes) == sorted(AnswerMode)

    parameters = document["paths"]["/v1/worlds/{world}/documents"]["get"]["parameters"]
    schemas = {one["name"]: one["schema"] for one in parameters if "schema" in one}

    assert set(re.findall(r'"([a-z]+)"', json.dumps(schemas["status"]))) >= {*DocumentStatus}
    assert set(re.findall(r'"([a-z]+)"', json.dumps(schemas["sort"]))) >= {*DocumentSort}


def test_document_says_whether_a_token_is_needed(document: Any) -> None:
    strict = json.loads(make_document(EVERY, needs_token=True))

    assert document["security"] == [{}, {"bearer": []}]
    assert strict["security"] == [{"bearer": []}]
    assert {
        operation.name
        for operation in EVERY
        if operation_of(strict, operation).get("security") == []
    } == {operation.name for operation in EVERY if operation.public}


# Its operations


def failing(check: Callable[[Operation], None]) -> list[str]:
    """Run a check on every operation, and return the failing ones with the reason."""
    found: list[str] = []
    for operation in EVERY:
        try:
            check(operation)
        except (AssertionError, jsonschema_rs.ValidationError) as error:
            found.append(f"{operation.name}: {error}")
    return found


def test_every_operation_is_listed_once(document: Any) -> None:
    listed = [
        entry["operationId"] for path in document["paths"].values() for entry in path.values()
    ]

    assert sorted(listed) == sorted(operation.name for operation in EVERY)
    assert [tag["name"] for tag in document["tags"]] == [routes.topic for routes in ROUTES]


def test_operation_is_derived_from_its_handler() -> None:
    routes = Routes("Things", "Things.")

    @routes.post("/v1/things/{name}", status=201, writes=True)
    def make_thing(
        context: CallContext, body: NewWorld, query: PageQuery
    ) -> Reply[Health] | Events:
        """Make a thing.

        The first line is the summary,
        the others are the description.
        """
        return Reply(Health(status=body.name, version=str(query.offset)))

    (operation,) = routes.operations

    assert operation.name == "makeThing"
    assert operation.summary == "Make a thing"
    assert operation.description == "The first line is the summary, the others are the description."
    assert (operation.body_type, operation.query_type) == (NewWorld, PageQuery)
    assert (operation.reply_type, operation.streams) == (Health, True)
    assert make_thing.__name__ == "make_thing"


def test_every_operation_is_described_in_whole_sentences(document: Any) -> None:
    def check(operation: Operation) -> None:
        described = operation_of(document, operation)
        assert re.fullmatch(r"[A-Z][^.]+[^.!?]", described["summary"])
        assert re.fullmatch(r"[A-Z].+\.", described["description"])
        for entry in described["parameters"]:
            assert entry["schema"]
            assert entry["in"] == "query" or re.fullmatch(r"[A-Z].+\.", entry["description"])

    assert failing(check) == []


def test_every_operation_has_the_parameters_of_its_path(document: Any) -> None:
    def check(operation: Operation) -> None:
        parameters = operation_of(document, operation)["parameters"]
        names = [entry["name"] for entry in parameters if entry["in"] == "path"]
        assert names == re.findall(r"{(\w+)", operation.path)

    assert failing(check) == []


def test_operation_lists_its_errors_by_status(document: Any) -> None:
    def check(operation: Operation) -> None:
        responses = operation_of(document, operation)["responses"]
        token_errors = () if operation.public else TOKEN_ERRORS
        for code in codes_of({*COMMON_ERRORS, *operation.errors, *token_errors}):
            status = str(status_of(errors.error_of(code)).http)
            problem = responses[status]["content"][PROBLEM]
            assert code in problem["schema"]["allOf"][1]["properties"]["code"]["enum"]
            assert f"`{code}`" in responses[status]["description"]

    assert failing(check) == []


def test_operation_with_an_error_also_lists_its_subclasses() -> None:
    search = next(operation for operation in OPERATIONS if operation.name == "search")

    assert {"provider_unavailable", "provider_cooldown"} <= {*errors_of(search)}


def test_every_body_has_a_valid_example(document: Any) -> None:
    def check(operation: Operation) -> None:
        if operation.body_type is not None:
            body = operation_of(document, operation)["requestBody"]["content"][JSON]
            validator = jsonschema_rs.validator_for(schema_of(document, body["schema"]))
            validator.validate(body["example"])

    assert failing(check) == []


def test_operation_lists_media_types_and_headers(document: Any) -> None:
    def check(operation: Operation) -> None:
        reply = operation_of(document, operation)["responses"][str(operation.status)]
        expected = {operation.media_type, *operation.other_media_types}
        expected |= {EVENTS} if operation.streams else set()
        headers = reply.get("headers", {})
        assert {*reply["content"]} == expected
        assert ("Location" in headers) == (operation.status in (201, 202))
        answers = operation.streams and operation.events is None
        assert ("X-Answer-Mode" in headers) == answers

    assert failing(check) == []


def test_schemas_refuse_labels_and_queries_that_the_engine_refuses(document: Any) -> None:
    schemas = document["components"]["schemas"]
    audience = {"$defs": schemas, **schemas["NewWorld"]["properties"]["audience"]["anyOf"][0]}
    labels = ("group:legal", "ana maria", "\u6cd5", "", " a", "a ", "a\x07", "a\u200b", "x" * 201)

    def is_label(label: str) -> bool:
        with suppress(errors.InvalidArgument):
            return bool(check_labels([label]))
        return False

    valid = jsonschema_rs.validator_for(audience).is_valid
    assert [valid([label]) for label in labels] == [is_label(label) for label in labels]
    query = jsonschema_rs.validator_for(schemas["SearchArguments"]["properties"]["query"]).is_valid
    queries = ("key", "\u6cd5", "e\u0301", " ", "\0", "\u0301", "\u200b", "\ufe0f", "\u3164")
    assert [query(text) for text in queries] == [not is_blank(text) for text in queries]


def test_fuzzer_rules_name_existing_operations() -> None:
    named = set().union(*fuzz_http_rules.BY_STATE.values())

    assert named <= {call.name for call in OPERATIONS}
    assert {call.name for call in OPERATIONS if call.writes} == fuzz_http_rules.WRITES

    bodies = {call.name: set(members_of(call)) for call in OPERATIONS}
    others = set().union(*(bodies[name] for name in bodies.keys() - ALIKE), {"stream"})
    missing = {name: bodies[name] - others for name in ALIKE}

    assert {name: members for name, members in missing.items() if members} == OWN


# The server

ALIKE = {
    "answer", "startConversation", "continueConversation", "whyNot", "answerAsReader", "chat",
    "startConversationAsReader", "continueConversationAsReader", "search",
}  # fmt: skip
"""Calls whose bodies have the members of other calls, hundreds of cases each."""
OWN = {"search": {"floor"}, "chat": {"world", "conversation_id"}}
"""Members that only these calls have; `test_hostile_names.py` gives them values of other types."""


def members_of(call: Operation) -> tuple[str, ...]:
    return call.body_type.__struct_fields__ if call.body_type is not None else ()


def test_fuzzer_finds_nothing_as_the_owner(tmp_path: Path) -> None:
    with library_of(tmp_path) as library, served_for(library, OWNER) as server:
        # Random requests are made by `test_openapi_bearers.py`, series of them in `make prove`.
        phases = in_test_or_prove("examples,coverage", Course.phases)
        calls = tuple(call.name for call in EVERY if call.name not in in_test_or_prove(ALIKE, ()))
        found = run(tmp_path, server, Course(examples=1, phases=phases, calls=calls))

    assert found.passed, found.report


def test_replies_about_jobs_and_documents_have_no_internal_members() -> None:
    assert not {"request", "process"} & {*JobSummary.__struct_fields__}
    assert not {"origin", "recipe", "source_hash"} & {*DocumentEntry.__struct_fields__}
