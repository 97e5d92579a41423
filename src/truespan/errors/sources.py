"""Errors of what was to become a document: it must change, or cannot."""

from __future__ import annotations

from truespan.errors.families import CallerError


class SourceRefused(CallerError):
    """A source that cannot become a document."""

    code = "source_refused"
    reason = "cannot be read"

    def __init__(self, name: str, *, advice: str | None = None) -> None:
        super().__init__(f"{name}: {self.reason}.", advice=advice)
        self.name = name


class SourceMissing(SourceRefused):
    code = "source_missing"
    reason = "no such file or folder"


class SourceUnreadable(SourceRefused):
    code = "source_unreadable"
    reason = "cannot be opened"


class SourceUnsupported(SourceRefused):
    code = "source_unsupported"
    reason = "not a kind of file that can be ingested"
    advice = "Text, Markdown, HTML, DOCX, EPUB and PDF can."


class SourceNotText(SourceRefused):
    code = "source_not_text"
    reason = "named like a text file, but its bytes are not text"
    advice = "Save it as UTF-8 text."


class SourceEmpty(SourceRefused):
    code = "source_empty"
    reason = "holds no text"


class SourceTooLarge(SourceRefused):
    code = "source_too_large"
    reason = "larger than a document may be"


class SourceEncrypted(SourceRefused):
    code = "source_encrypted"
    reason = "protected by a password"
    advice = "Save a copy without the password."


class SourceScanned(SourceRefused):
    code = "source_scanned"
    reason = "holds pictures of pages and no text"
    advice = "Run text recognition over it first."


class SourceBroken(SourceRefused):
    code = "source_broken"
    reason = "damaged, or not what its beginning says"
    advice = "Open it with the program that made it and save it again."


class SourceUnsafe(SourceRefused):
    """It is built in a way that no honest program builds documents."""

    code = "source_unsafe"
    reason = "built in a way that could do harm"
    advice = "Do not trust where it came from."


class SourceTooCostly(SourceRefused):
    code = "source_too_costly"
    reason = "reading it takes more time or memory than is allowed"
    advice = "Split it, or raise loader_cpu_seconds or loader_memory_mib."


class AssetsTaken(SourceRefused):
    code = "assets_taken"
    reason = "the folder for its images belongs to a document of the same id in another world"
    advice = "Give it another doc_id, or set RAG_ASSETS_DIR to another folder."


class LoaderCrashed(SourceRefused):
    code = "loader_crashed"
    reason = "the process that read it ended without an answer"


class ManifestInvalid(CallerError):
    """Lines of a manifest that cannot be used. `lines` are numbers with what is wrong there."""

    code = "manifest_invalid"

    def __init__(self, name: str, lines: list[tuple[int, str]]) -> None:
        shown = "; ".join(f"line {number}: {reason}" for number, reason in lines[:10])
        more = f"; and {len(lines) - 10} more" if len(lines) > 10 else ""
        super().__init__(f"{name}: {shown}{more}.", advice="Nothing of it was ingested.")
        self.lines = lines
