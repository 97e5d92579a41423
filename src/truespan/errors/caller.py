"""Errors of a request: it must change."""

from __future__ import annotations

from truespan.errors.families import CallerError


class InvalidSettings(CallerError):
    """A retrieval setting has a wrong type or lies outside its range."""

    code = "invalid_settings"


class BlankQuery(CallerError):
    code = "blank_query"

    def __init__(self) -> None:
        super().__init__("The query is empty.", advice="Ask for something in words.")


class QueryTooLong(CallerError):
    code = "query_too_long"

    def __init__(self, tokens: int, limit: int) -> None:
        super().__init__(
            f"The query has {tokens} tokens; the embedding model reads {limit}.",
            advice="Shorten the query.",
        )
        self.tokens, self.limit = tokens, limit


class WorldNotFound(CallerError):
    code = "world_not_found"

    def __init__(self, reference: str) -> None:
        super().__init__(
            f"There is no world {reference!r} here.",
            advice="'truespan status' lists the worlds; 'truespan init --world NAME' makes one.",
        )


class WorldExists(CallerError):
    code = "world_exists"

    def __init__(self, name: str) -> None:
        super().__init__(f"A world named {name!r} exists already.", advice="Choose another name.")


class DocumentNotFound(CallerError):
    code = "document_not_found"

    def __init__(self, reference: str) -> None:
        super().__init__(
            f"There is no document {reference!r} in this world.",
            advice="'truespan status --world NAME' lists its documents.",
        )


class ChunkNotFound(CallerError):
    code = "chunk_not_found"

    def __init__(self, reference: str) -> None:
        super().__init__(f"There is no chunk {reference!r} in this world.")


class ImageNotFound(CallerError):
    """Absent, of another world, or not read yet: the same answer."""

    code = "image_not_found"

    def __init__(self) -> None:
        super().__init__("There is no such image here.")


class NotAllowed(CallerError):
    code = "not_allowed"

    def __init__(self, verb: str) -> None:
        super().__init__(f"This caller may not {verb} here.")


class Unauthorized(CallerError):
    """No valid token. It never says why: unknown, wrong, expired and revoked are one answer."""

    code = "unauthorized"

    def __init__(self) -> None:
        super().__init__(
            "This needs a valid token.",
            advice="Send it as 'Authorization: Bearer TOKEN'; the owner makes them.",
        )


class TokenNotFound(CallerError):
    """There is no token of that id. What was given is not repeated: it may be a secret."""

    code = "token_not_found"

    def __init__(self) -> None:
        super().__init__(
            "There is no token of that id.", advice="'truespan token list' shows them."
        )


class PositionNotFound(CallerError):
    code = "no_reading_position"

    def __init__(self) -> None:
        super().__init__(
            "No reading position is recorded there, so nothing is readable.",
            advice="The owner records one with 'truespan reader set'.",
        )


class PassageNotFound(CallerError):
    code = "passage_not_found"

    def __init__(self) -> None:
        super().__init__(
            "No such passage stands in this document.",
            advice="Give a few more words, exactly as they stand in the text.",
        )


class PassageAmbiguous(CallerError):
    code = "passage_ambiguous"

    def __init__(self, count: int) -> None:
        super().__init__(
            f"This passage stands in the document {count} times.",
            advice="Give a longer passage.",
        )


class ScopeViolation(CallerError):
    code = "scope_violation"

    def __init__(self) -> None:
        super().__init__(
            "Nothing that answers the query is related to the selected text.",
            advice="Select another passage, or ask without a selection.",
        )


class JobNotFound(CallerError):
    code = "job_not_found"

    def __init__(self, reference: str) -> None:
        super().__init__(
            f"There is no job {reference!r} in this world.",
            advice="'truespan jobs list' shows them.",
        )


class JobNotResumable(CallerError):
    code = "job_not_resumable"

    def __init__(self, reference: str, state: str) -> None:
        super().__init__(f"The job {reference!r} is {state}, so there is nothing to go on with.")


class DomainNotFound(CallerError):
    code = "domain_not_found"

    def __init__(self, key: str) -> None:
        super().__init__(
            f"There is no domain {key!r} here.", advice="'truespan domains' lists them."
        )


class GenerationNotFound(CallerError):
    code = "generation_not_found"

    def __init__(self, number: int) -> None:
        super().__init__(
            f"This world has no generation {number}.",
            advice="'truespan generations' lists them.",
        )


class GenerationInUse(CallerError):
    code = "generation_in_use"

    def __init__(self, number: int, names: str) -> None:
        super().__init__(
            f"Generation {number} is what {names} names.", advice="Move that to another one first."
        )


class GenerationIncomplete(CallerError):
    """A generation lacks documents or vectors, so that nobody may be sent to it."""

    code = "generation_incomplete"

    def __init__(self, number: int, missing: int, pending: int) -> None:
        super().__init__(
            f"Generation {number} lacks {missing} documents and {pending} vectors.",
            advice=f"'truespan reindex --generation {number}' completes it.",
        )


class PromotionRefused(CallerError):
    """A generation is not as good as the one it would replace, or could not be verified."""

    code = "promotion_refused"


class GoldenInvalid(CallerError):
    """Golden queries that cannot be used. `lines` are numbers with what is wrong there."""

    code = "golden_invalid"

    def __init__(self, name: str, lines: list[tuple[int, str]]) -> None:
        shown = "; ".join(f"line {number}: {reason}" for number, reason in lines[:10])
        more = f"; and {len(lines) - 10} more" if len(lines) > 10 else ""
        super().__init__(f"{name}: {shown}{more}.", advice="None of its queries was used.")
        self.lines = lines


class WorldBusy(CallerError):
    code = "world_busy"

    def __init__(self, world: str, job: str) -> None:
        super().__init__(
            f"The job {job} of world {world!r} is running.",
            advice="Wait for it, or stop it with 'truespan jobs cancel'.",
        )


class BackupInvalid(CallerError):
    """A file that is no backup, or not as it was written."""

    code = "backup_invalid"


class RecordNotFound(CallerError):
    code = "record_not_found"

    def __init__(self, reference: str) -> None:
        super().__init__(
            f"There is no record {reference!r} in the usage log of this world.",
            advice="'truespan usage' lists what is kept.",
        )
