"""Errors of a request: the caller must change it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from truespan.errors.base import CallerError, TruespanError

MAX_WORLDS = 10
"""Maximum number of worlds that a message lists."""
MAX_MATCHES = 10
"""Maximum number of documents of one name that a message lists."""


class InvalidArgument(CallerError):
    """An argument with a wrong type, or a value out of range."""

    code = "invalid_argument"


class BlankQuery(CallerError):
    """A query without text."""

    code = "blank_query"
    text = "The query is empty."
    advice = "Pass a question or some words."


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

    kind = ""
    """Noun and place, such as "document in this world"."""

    def __init__(self, reference: str = "") -> None:
        thing, _, place = self.kind.partition(" in ")
        where = f" in {place}" if place else ""
        super().__init__(f"There is no {thing} {reference!r}{where}." if thing else None)


class WorldNotFound(NotFound):
    """A world that does not exist, or that the caller may not see."""

    code = "world_not_found"
    kind = "world"
    advice = "'truespan status' lists the worlds; 'truespan init --world NAME' creates one."


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


class DocumentNotFound(NotFound):
    """A reference that matches no document."""

    code = "document_not_found"
    kind = "document in this world"
    advice = "'truespan status --world NAME' lists its documents."


class ChunkNotFound(NotFound):
    """A chunk that the world does not have."""

    code = "chunk_not_found"
    kind = "chunk in this world"


class JobNotFound(NotFound):
    """A job that the world does not have."""

    code = "job_not_found"
    kind = "job in this world"
    advice = "'truespan jobs show' lists the jobs."


class DomainNotFound(NotFound):
    """A domain that does not exist, or whose world the caller may not see."""

    code = "domain_not_found"
    kind = "domain"
    advice = "'truespan generations' lists the domains of a world."


class GenerationNotFound(NotFound):
    """A generation that the world does not have."""

    code = "generation_not_found"
    advice = "'truespan generations' lists the generations."

    def __init__(self, number: int) -> None:
        TruespanError.__init__(self, f"This world has no generation {number}.")


class ConversationNotFound(NotFound):
    """A conversation that does not exist, or that the caller may not see."""

    code = "conversation_not_found"
    kind = "conversation"
    advice = "Leave the id out to begin a new conversation."


class NoteNotFound(NotFound):
    """A note that does not exist, or was written past the reader's position."""

    code = "note_not_found"
    kind = "note"


class ImageNotFound(NotFound):
    """An image that does not exist, is of another world, or is not read yet."""

    code = "image_not_found"
    text = "There is no such image."


class TokenNotFound(NotFound):
    """A token that does not exist."""

    code = "token_not_found"
    text = "There is no token with that id or name."
    advice = "'truespan token list' lists the tokens."


class PositionNotFound(NotFound):
    """A book without a recorded reading position."""

    code = "no_reading_position"
    text = "No reading position is recorded, so nothing is readable."
    advice = "The owner records one with 'truespan reader set'."


class PassageNotFound(NotFound):
    """A passage that does not occur in the document."""

    code = "passage_not_found"
    text = "This document does not contain that passage."
    advice = "Pass a few more words, exactly as they appear in the text."


class RouteNotFound(NotFound):
    """An endpoint that the server does not have."""

    code = "route_not_found"
    text = "There is no such endpoint."
    advice = "/openapi.json lists all endpoints."


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


class PassageAmbiguous(CallerError):
    """A passage that occurs more than once."""

    code = "passage_ambiguous"
    advice = "Pass a longer passage."

    def __init__(self, count: int) -> None:
        super().__init__(f"The document contains this passage {count} times.")


class ScopeViolation(CallerError):
    """A query whose results are unrelated to the selected text."""

    code = "scope_violation"
    text = "No result for the query is related to the selected text."
    advice = "Select another passage, or ask without a selection."


class NotAllowed(CallerError):
    """A request beyond the rights of the caller."""

    code = "not_allowed"

    advice = "Use a token with that permission; the owner creates tokens."

    def __init__(self, verb: str) -> None:
        super().__init__(f"This caller may not {verb}.")


class ConversationsOff(CallerError):
    """Conversations, where the operator turned them off."""

    code = "conversations_off"
    text = "Conversations are turned off."
    advice = "Ask without a conversation; the operator allows them with 'conversations = true'."


class Unauthorized(CallerError):
    """A missing, unknown, wrong, expired or revoked token; the reply is the same."""

    code = "unauthorized"
    text = "This needs a valid token."
    advice = "Send it as 'Authorization: Bearer TOKEN'; the owner creates tokens."


class WorldExists(CallerError):
    """The name of a world that exists already."""

    code = "world_exists"
    advice = "Choose another name."

    def __init__(self, name: str) -> None:
        super().__init__(f"A world named {name!r} already exists.")


class WorldBusy(CallerError):
    """A world that cannot be deleted while one of its jobs is running."""

    code = "world_busy"
    advice = "Wait for the job, or stop it with 'truespan jobs cancel'."

    def __init__(self, world: str, job: str) -> None:
        super().__init__(f"The job {job} of world {world!r} is running.")


class JobNotResumable(CallerError):
    """A job that is running or done."""

    code = "job_not_resumable"

    def __init__(self, reference: str, state: str) -> None:
        super().__init__(f"The job {reference!r} is {state}, so there is nothing to resume.")


class GenerationInUse(CallerError):
    """A generation that cannot be removed while an alias names it."""

    code = "generation_in_use"
    advice = "Move the alias to another generation first."

    def __init__(self, number: int, names: str) -> None:
        super().__init__(f"Generation {number} is in use by {names}.")


class GenerationIncomplete(CallerError):
    """A generation without some documents or vectors, which cannot be put into use."""

    code = "generation_incomplete"

    def __init__(self, number: int, missing: int, pending: int) -> None:
        counts = {"document": missing, "vector": pending}
        lacking = " and ".join(
            f"{count} {noun}{'' if count == 1 else 's'}" for noun, count in counts.items() if count
        )
        super().__init__(
            f"Generation {number} lacks {lacking}.",
            advice=f"'truespan reindex --generation {number}' completes it.",
        )


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


class _InvalidLines(CallerError):
    """Invalid lines of a file; `lines` has their numbers and reasons."""

    def __init__(self, name: str, lines: list[tuple[int, str]]) -> None:
        listed = "; ".join(f"line {number}: {reason}" for number, reason in lines[:10])
        more = f"; and {len(lines) - 10} more" if len(lines) > 10 else ""
        super().__init__(f"{name}: {listed}{more}.")
        self.lines = lines


class ManifestInvalid(_InvalidLines):
    """A manifest with wrong lines; `lines` has their numbers and reasons."""

    code = "manifest_invalid"
    advice = "Nothing of the manifest was ingested."


class GoldenInvalid(_InvalidLines):
    """Wrong golden queries; `lines` has their numbers and reasons."""

    code = "golden_invalid"
    advice = "No query was used."


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


class MethodNotAllowed(CallerError):
    """A method that the address does not take; `allowed` has those it takes."""

    code = "method_not_allowed"

    def __init__(self, allowed: Iterable[str]) -> None:
        self.allowed = tuple(sorted(allowed))
        super().__init__(
            "This endpoint does not accept that method.", advice=f"Use {', '.join(self.allowed)}."
        )


class MediaTypeUnsupported(CallerError):
    """An unsupported Content-Type."""

    code = "media_type_unsupported"

    def __init__(self, wanted: str) -> None:
        super().__init__("Unsupported Content-Type.", advice=f"Send {wanted}.")


class RequestTooLarge(CallerError):
    """A body, upload or query string above its limit."""

    code = "request_too_large"
    advice = "Send less at once."

    def __init__(self, limit: int, part: str = "body", *, setting: str = "") -> None:
        """`setting` is the name of the setting with the limit, if there is one."""
        raised = f"Send less at once, or raise {setting} in the server's settings."
        super().__init__(
            f"The {part} of the request has more than {limit} bytes.",
            advice=raised if setting else None,
        )
        self.limit = limit


class HostRefused(CallerError):
    """A Host header that is not a name of this server."""

    code = "host_refused"
    text = "This server does not answer under that host name."
    advice = "Use its address, or add the name to http_hosts in the server's settings."


class OriginRefused(CallerError):
    """A request from a page of another origin."""

    code = "origin_refused"
    text = "Pages of that origin may not call this server."
    advice = "Add the origin to http_origins in the server's settings."


class TooManyRequests(CallerError):
    """More requests than the rate limit of the token allows."""

    code = "too_many_requests"
    retryable = True

    def __init__(self, retry_after: float) -> None:
        super().__init__(
            "This caller exceeded its request rate.",
            advice=f"Wait {retry_after:.0f} s, and send requests more slowly.",
        )
        self.retry_after = retry_after


class KeyReused(CallerError):
    """An idempotency key that was used for a different request."""

    code = "idempotency_key_reused"
    text = "This idempotency key was used for another request."
    advice = "Create a new key for each new request."


class KeyBusy(CallerError):
    """An idempotency key whose first request is still running."""

    code = "idempotency_key_busy"
    retryable = True
    retry_after = 1.0
    text = "The first request with this idempotency key is still running."
    advice = "Try again in a moment."
