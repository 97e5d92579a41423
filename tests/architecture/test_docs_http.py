"""The page of the HTTP server lists headers, limits, options and settings as they are."""

import re

import click
from msgspec.structs import fields

from tests.support.docs_reader import DOCS, prose_of, sections_of, table_rows
from truespan.cli.app import make_commands
from truespan.extensions.server.http import app, bodies, pool, replies, server
from truespan.extensions.server.http.openapi import HEADERS
from truespan.extensions.server.library import MAX_KEY_LENGTH
from truespan.extensions.server.request_rows import KEPT_SECONDS
from truespan.settings.catalogue import Settings

PAGE = DOCS / "http.md"


def test_every_significant_header_is_listed() -> None:
    listed = {row[0] for row in table_rows(sections_of(PAGE)["Headers"])}
    assert {name.removeprefix("Maybe-") for name in HEADERS} <= listed
    # The last one is there if requests are logged.
    sent = {"Authorization", "Idempotency-Key", "X-Truespan-Audience", "X-Request-Id"}
    assert listed - set(HEADERS) == sent


def test_documented_limits_match_the_server() -> None:
    settings, limits = Settings(), app.Limits()

    rows = table_rows(sections_of(PAGE)["Limits"])

    assert [(row[1], row[2]) for row in rows] == [
        (f"{limits.body // 1024} KiB", ""),
        (f"{settings.source_max_mib} MiB", "source_max_mib"), (f"{bodies.MAX_FILES}", ""),
        (f"{bodies.MAX_FIELDS}", ""), (f"{bodies.MAX_FIELD_BYTES} bytes", ""),
        (f"{server.MAX_HEAD_BYTES // 1024} KiB", ""), (f"{bodies.MAX_QUERY_STRING} bytes", ""),
        (f"{limits.seconds:g} seconds, or longer as this setting", "chat_timeout_seconds"),
        (f"{server.HEAD_SECONDS:g} seconds", ""), (f"{limits.body_seconds:g} seconds", ""),
        (f"{limits.upload_seconds:g} seconds", ""), ("any number", "http_requests_per_minute"),
        (f"{app.THREADS}", ""), (f"{app.CALLS_AT_ONCE}", ""), (f"{app.WAITING}", ""),
        (f"{app.STREAMS}", ""), (f"{KEPT_SECONDS // 3600} hours", ""),
    ]  # fmt: skip
    assert rows[13][0] == f"of these, begun within the last {pool.PATIENCE * 1000:g} ms"
    assert settings.http.requests_per_minute == 0


def test_documented_numbers_and_settings_match_the_server() -> None:
    text = " ".join(prose_of(PAGE).split())
    assert f"up to {server.SHUTDOWN_SECONDS} seconds" in text
    assert f"for {replies.HEARTBEAT_SECONDS:g} seconds" in text
    assert f"1 to {MAX_KEY_LENGTH} printable" in text
    named = [entry.name for entry in fields(Settings) if entry.name.startswith("http_")]
    assert [name for name in named if f"`{name}`" not in prose_of(PAGE)] == []


def test_options_that_the_page_names_are_options_of_the_command() -> None:
    commands = make_commands().commands  # type: ignore[attr-defined]
    token = commands["token"]
    assert isinstance(token, click.Group)
    known = [commands["serve"], token.commands["create"]]
    options = {spelled for one in known for option in one.params for spelled in option.opts}
    assert set(re.findall(r"`(--[\w-]+)", prose_of(PAGE))) <= options
