"""The page of the HTTP server lists what there is: calls, headers, limits, options and settings."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import fields

from tests.support.docs_reader import DOCS, blocks_of, prose_of, sections_of, table_rows
from truespan.cli.app import make_commands
from truespan.http import app, bodies, pool, replies, server
from truespan.http.openapi import HEADERS, document_operation
from truespan.http.operation import EVENTS, Operation
from truespan.http.routes import OPERATIONS, ROUTES
from truespan.settings.catalogue import Settings
from truespan.types import token as replay

PAGE = DOCS / "http.md"
DOCUMENT = document_operation(OPERATIONS)
EVERY = (*OPERATIONS, DOCUMENT)
TOPICS = {routes.topic: routes.operations for routes in ROUTES}
MARKS = {"key": "Idempotency-Key", "domain": "X-RAG-Domain", "events": EVENTS}


def address_of(call: Operation) -> str:
    return re.sub(r":\w+}", "}", call.path)


def marks_of(call: Operation) -> str:
    told = {
        "domain": call.domains,
        "key": call.writes,
        "events": call.streams or call.media_type == EVENTS,
    }
    return ", ".join(mark for mark in told if told[mark])


@pytest.mark.parametrize("topic", TOPICS)
def test_each_topic_has_a_table_of_its_calls(topic: str) -> None:
    calls = [*TOPICS[topic], *([DOCUMENT] if topic == "Server" else ())]

    rows = table_rows(sections_of(PAGE)[topic])

    assert [row[:4] for row in rows] == [
        [call.name, call.method, address_of(call), marks_of(call)] for call in calls
    ]


@pytest.mark.parametrize("topic", TOPICS)
def test_what_can_be_left_to_the_query_string_is_named(topic: str) -> None:
    rows = {row[0]: row[4] for row in table_rows(sections_of(PAGE)[topic])}

    for call in TOPICS[topic]:
        for name in getattr(call.query_type, "__struct_fields__", ()):
            assert name in re.findall(r"\w+", rows[call.name])


@pytest.mark.parametrize("call", EVERY, ids=lambda call: call.name)
def test_each_call_has_an_example_that_is_run(call: Operation) -> None:
    if call.name == "metrics":
        return  # What it prints is long; the page on observability has it.
    shown = "\n".join(block.body for block in blocks_of(PAGE))
    pattern = re.escape(address_of(call)).replace(r"\{", "{").replace(r"\}", "}")
    spelled = re.sub(r"{image_ref}", r"[^/\\s]+/[^/\\s\"]+", pattern)
    spelled = re.sub(r"{\w+}", r"[^/\\s\"?]+", spelled)

    found = [
        line
        for line in shown.splitlines()
        if re.search(rf"8700{spelled}(?=[\s\"?]|$)", line) and method_of(line) == call.method
    ]
    assert found


def method_of(line: str) -> str:
    """Return the method that curl takes, or that Python does where nothing is said."""
    said = re.search(r"-X (\w+)", line)
    if said:
        return said[1]
    return "POST" if re.search(r"--json|-F ", line) else "GET"


def test_every_header_that_counts_is_listed() -> None:
    listed = {row[0] for row in table_rows(sections_of(PAGE)["Headers"])}

    assert {name.removeprefix("Maybe-") for name in HEADERS} <= listed
    # The last one is there if requests are logged.
    assert listed - set(HEADERS) == {"Authorization", "Idempotency-Key", "X-Request-Id"}


def test_the_limits_are_those_that_hold() -> None:
    settings, limits = Settings(), app.Limits()

    rows = table_rows(sections_of(PAGE)["Limits"])

    assert [(row[1], row[2]) for row in rows] == [
        (f"{settings.http_body_max_kib} KiB", "http_body_max_kib"),
        (f"{settings.source_max_mib} MiB", "source_max_mib"),
        (f"{bodies.MAX_FILES}", ""),
        (f"{bodies.MAX_FIELDS}", ""),
        (f"{bodies.MAX_FIELD_BYTES} bytes", ""),
        (f"{server.MAX_HEAD_BYTES // 1024} KiB", ""),
        (f"{bodies.MAX_QUERY_STRING} bytes", ""),
        (f"{settings.http_timeout_seconds} seconds", "http_timeout_seconds"),
        (f"{server.HEAD_SECONDS:g} seconds", ""),
        (f"{limits.body_seconds:g} seconds", ""),
        (f"{limits.upload_seconds:g} seconds", ""),
        ("any number", "http_requests_per_minute"),
        (f"{app.THREADS}", ""),
        (f"{app.CALLS_AT_ONCE}", ""),
        (f"{app.WAITING}", ""),
        (f"{app.STREAMS}", ""),
        (f"{replay.KEPT_SECONDS // 3600} hours", ""),
    ]
    assert rows[13][0] == f"of these, begun within the last {pool.PATIENCE * 1000:g} ms"
    assert settings.http_requests_per_minute == 0


def test_numbers_in_the_text_are_those_that_hold() -> None:
    text = " ".join(prose_of(PAGE).split())

    assert f"up to {server.SHUTDOWN_SECONDS} seconds" in text
    assert f"at most {server.MAX_RESTARTS} times" in text
    assert f"for {replies.HEARTBEAT_SECONDS:g} seconds" in text
    assert f"1 to {replay.MAX_KEY_LENGTH} printable" in text


def test_every_setting_of_the_server_is_named() -> None:
    named = [entry.name for entry in fields(Settings) if entry.name.startswith("http_")]

    assert [name for name in named if f"`{name}`" not in prose_of(PAGE)] == []


def test_options_that_the_page_names_are_options_of_the_command() -> None:
    known = make_commands().commands["serve"]  # type: ignore[attr-defined]
    options = {spelled for option in known.params for spelled in option.opts}

    assert set(re.findall(r"`(--[\w-]+)", prose_of(PAGE))) <= options
