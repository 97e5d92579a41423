"""Errors of a request: the caller must change it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from truespan.errors.base import CallerError, ErrorCode

MAX_WORLDS = 10
"""Maximum number of worlds that a message lists."""
MAX_MATCHES = 10
"""Maximum number of documents of one name that a message lists."""


class InvalidArgument(CallerError):
    """An argument with a wrong type, or a value out of range."""

    code = "invalid_argument"
    codes: ClassVar = {
        "blank_query": ErrorCode(
            "A query without text.", "The query is empty.", "Pass a question or some words."
        ),
        "passage_ambiguous": ErrorCode(
            "A passage that occurs more than once.",
            "The document contains this passage {count} times.",
            "Pass a longer passage.",
        ),
    }


class QueryTooLong(InvalidArgument):
    """A query with more tokens or characters than are accepted."""

    code = "query_too_long"
    advice = "Shorten the query."

    def __init__(self, count: int, limit: int, unit: str = "tokens") -> None:
        by = "the embedding model accepts" if unit == "tokens" else "the limit is"
        super().__init__(f"The query has {count} {unit}; {by} {limit}.")
        self.count, self.limit, self.unit = count, limit, unit


class NotFound(CallerError):
    """Something absent, or hidden from this caller: the reply is the same."""

    codes: ClassVar = {
        "world_not_found": ErrorCode(
            "A world that does not exist, or that the caller may not see.",
            "There is no world {reference!r}.",
            "'truespan status' lists the worlds; 'truespan init --world NAME' creates one.",
        ),
        "document_not_found": ErrorCode(
            "A reference that matches no document.",
            "There is no document {reference!r} in this world.",
            "'truespan status --world NAME' lists its documents.",
        ),
        "chunk_not_found": ErrorCode(
            "A chunk that the world does not have.",
            "There is no chunk {reference!r} in this world.",
        ),
        "job_not_found": ErrorCode(
            "A job that the world does not have.",
            "There is no job {reference!r} in this world.",
            "'truespan jobs show' lists the jobs.",
        ),
        "domain_not_found": ErrorCode(
            "A domain that does not exist, or whose world the caller may not see.",
            "There is no domain {reference!r}.",
            "'truespan generations' lists the domains of a world.",
        ),
        "generation_not_found": ErrorCode(
            "A generation that the world does not have.",
            "This world has no generation {reference}.",
            "'truespan generations' lists the generations.",
        ),
        "conversation_not_found": ErrorCode(
            "A conversation that does not exist, or that the caller may not see.",
            "There is no conversation {reference!r}.",
            "Leave the id out to begin a new conversation.",
        ),
        "note_not_found": ErrorCode(
            "A note that does not exist, or was written past the reader's position.",
            "There is no note {reference!r}.",
        ),
        "image_not_found": ErrorCode(
            "An image that does not exist, is of another world, or is not read yet.",
            "There is no such image.",
        ),
        "token_not_found": ErrorCode(
            "A token that does not exist.",
            "There is no token with that id or name.",
            "'truespan token list' lists the tokens.",
        ),
        "no_reading_position": ErrorCode(
            "A book without a recorded reading position.",
            "No reading position is recorded, so nothing is readable.",
            "The owner records one with 'truespan reader set'.",
        ),
        "passage_not_found": ErrorCode(
            "A passage that does not occur in the document.",
            "This document does not contain that passage.",
            "Pass a few more words, exactly as they appear in the text.",
        ),
        "route_not_found": ErrorCode(
            "An endpoint that the server does not have.",
            "There is no such endpoint.",
            "/openapi.json lists all endpoints.",
        ),
    }

    def __init__(self, kind: str, reference: object = "") -> None:
        """`kind` is the noun of the code, such as "world"; "position" is a reading position."""
        code = "no_reading_position" if kind == "position" else f"{kind}_not_found"
        super().__init__(code=code, reference=reference)
        self.kind = kind


class WorldNotNamed(InvalidArgument):
    """A request without a world, where there is not exactly one."""

    code = "world_not_named"
    advice = "Pass the name of one world."

    def __init__(self, names: Sequence[str]) -> None:
        if not names:
            message = "There is no world yet."
            self.advice = "Create one with 'truespan init --world NAME'."
        elif len(names) > MAX_WORLDS:
            message = f"There are {len(names)} worlds."
        else:
            message = f"There are {len(names)} worlds: {', '.join(names)}."
        super().__init__(message)
        self.names = tuple(names)


class DocumentAmbiguous(CallerError):
    """A name of several documents; `matches` has what to write instead."""

    code = "document_ambiguous"
    advice = "Use one of these paths, a longer one, or the number."

    def __init__(self, reference: str, matches: Sequence[tuple[int, str]]) -> None:
        self.matches = tuple(matches)
        listed = [f"{path} (number {number})" for number, path in self.matches[:MAX_MATCHES]]
        more = len(self.matches) - MAX_MATCHES
        listed += [f"{more} more"] if more > 0 else []
        super().__init__(f"{len(self.matches)} documents match {reference!r}: {', '.join(listed)}.")


class ScopeViolation(CallerError):
    """A query whose results are unrelated to the selected text."""

    code = "scope_violation"
    text = "No result for the query is related to the selected text."
    advice = "Select another passage, or ask without a selection."


class NotAllowed(CallerError):
    """A request beyond the rights of the caller."""

    code = "not_allowed"
    advice = "Use a token with that permission; the owner creates tokens."
    codes: ClassVar = {
        "conversations_off": ErrorCode(
            "Conversations, where the operator turned them off.",
            "Conversations are turned off.",
            "Ask without a conversation; the operator allows them with conversation_days.",
        ),
        "unauthorized": ErrorCode(
            "A missing, unknown, wrong, expired or revoked token; the reply is the same.",
            "This needs a valid token.",
            "Send it as 'Authorization: Bearer TOKEN'; the owner creates tokens.",
        ),
        "host_refused": ErrorCode(
            "A Host header that is not a name of this server.",
            "This server does not answer under that host name.",
            "Use its address, or add the name to http_hosts in the server's settings.",
        ),
        "origin_refused": ErrorCode(
            "A request from a page of another origin.",
            "Pages of that origin may not call this server.",
            "Add the origin to http_origins in the server's settings.",
        ),
    }

    def __init__(self, verb: str) -> None:
        super().__init__(f"This caller may not {verb}.")


class Conflict(CallerError):
    """A request that the present state of the library does not permit."""

    codes: ClassVar = {
        "world_exists": ErrorCode(
            "The name of a world that exists already.",
            "A world named {name!r} already exists.",
            "Choose another name.",
        ),
        "world_busy": ErrorCode(
            "A world that cannot be deleted while one of its jobs is running.",
            "The job {job} of world {world!r} is running.",
            "Wait for the job, or stop it with 'truespan jobs cancel'.",
        ),
        "job_not_resumable": ErrorCode(
            "A job that is running or done.",
            "The job {job!r} is {state}, so there is nothing to resume.",
        ),
        "generation_in_use": ErrorCode(
            "A generation that cannot be removed while an alias names it.",
            "Generation {number} is in use by {names}.",
            "Move the alias to another generation first.",
        ),
        "generation_incomplete": ErrorCode(
            "A generation without some documents or vectors, which cannot be put into use.",
            "Generation {number} lacks {lacking}.",
            "'truespan reindex --generation {number}' completes it.",
        ),
        "idempotency_key_reused": ErrorCode(
            "An idempotency key that was used for a different request.",
            "This idempotency key was used for another request.",
            "Create a new key for each new request.",
        ),
        "idempotency_key_busy": ErrorCode(
            "An idempotency key whose first request is still running.",
            "The first request with this idempotency key is still running.",
            "Try again in a moment.",
            retryable=True,
        ),
    }


class PromotionRefused(CallerError):
    """A generation that is worse than the current one, or could not be verified.

    `report` is the report of the ingestion that built it, if any.
    """

    code = "promotion_refused"

    def __init__(
        self, message: str, *, advice: str | None = None, report: object | None = None
    ) -> None:
        super().__init__(message, advice=advice)
        self.report = report


class LinesInvalid(CallerError):
    """A manifest or golden queries with wrong lines; `lines` has their numbers and reasons."""

    codes: ClassVar = {
        "manifest_invalid": ErrorCode(
            "A manifest with wrong lines; `lines` has their numbers and reasons.",
            advice="Nothing of the manifest was ingested.",
        ),
        "golden_invalid": ErrorCode(
            "Wrong golden queries; `lines` has their numbers and reasons.",
            advice="No query was used.",
        ),
    }

    def __init__(self, code: str, name: str, lines: list[tuple[int, str]]) -> None:
        listed = "; ".join(f"line {number}: {reason}" for number, reason in lines[:10])
        more = f"; and {len(lines) - 10} more" if len(lines) > 10 else ""
        super().__init__(f"{name}: {listed}{more}.", code=code)
        self.lines = lines


class BackupInvalid(CallerError):
    """A file that is not a backup, or has changed since it was written."""

    code = "backup_invalid"
    advice = "Nothing of the file was used. Use another copy of the backup, or an earlier backup."


class ReceiptInvalid(CallerError):
    """A signed receipt that is not valid; `failure` says why."""

    code = "receipt_invalid"
    advice = "Do not rely on it. Ask the owner of the library for the receipt and the public keys."

    def __init__(self, failure: str, message: str) -> None:
        super().__init__(message)
        self.failure = failure


# Errors of requests over HTTP


class RequestRefused(CallerError):
    """A request over HTTP that the server does not read."""

    codes: ClassVar = {
        "method_not_allowed": ErrorCode(
            "A method that the address does not take.",
            "This endpoint does not accept that method.",
            "Use {allowed}.",
        ),
        "media_type_unsupported": ErrorCode(
            "An unsupported Content-Type.", "Unsupported Content-Type.", "Send {wanted}."
        ),
        "request_too_large": ErrorCode(
            "A body, upload or query string above its limit.",
            "The {part} of the request has more than {limit} bytes.",
            "Send less at once.",
        ),
    }


class TooManyRequests(CallerError):
    """More requests than the rate limit of the token allows."""

    code = "too_many_requests"
    retryable = True

    def __init__(self, retry_after: float) -> None:
        super().__init__(
            "This caller exceeded its request rate.",
            advice=f"Wait {retry_after:.0f} s, and send requests more slowly.",
            retry_after=retry_after,
        )
