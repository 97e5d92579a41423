"""Errors of files and pages that cannot become documents."""

from __future__ import annotations

from truespan.errors.base import CallerError


class SourceRefused(CallerError):
    """Family of errors for a file that cannot be ingested."""

    code = "source_refused"
    reason = "cannot be read"

    def __init__(self, name: str, *, advice: str | None = None) -> None:
        super().__init__(f"{name}: {self.reason}.", advice=advice)
        self.name = name


class SourceMissing(SourceRefused):
    """A file or folder that does not exist."""

    code = "source_missing"
    reason = "no such file or folder"


class SourceOutside(SourceRefused):
    """A path outside of the folders that files may be read from."""

    code = "source_outside"
    reason = "not below a folder that files may be read from"


class SourceUnreadable(SourceRefused):
    """A file that cannot be opened."""

    code = "source_unreadable"
    reason = "cannot be opened"


class SourceUnsupported(SourceRefused):
    """A file of an unsupported format."""

    code = "source_unsupported"
    reason = "unsupported file type"
    advice = (
        "Text, Markdown, HTML, DOCX, ODT, RTF, PPTX, ODP, EPUB, PDF, spreadsheets, CSV, JSON, "
        "e-mail, notebooks, source code and ZIP can be ingested."
    )


class SourceNotText(SourceRefused):
    """A file that is named as text, but whose bytes are not text."""

    code = "source_not_text"
    reason = "named like a text file, but its bytes are not text"
    advice = "Save it as UTF-8 text."


class PageRefused(SourceRefused):
    """A web page whose address, robots.txt or server does not allow fetching it."""

    code = "page_refused"
    reason = "may not be fetched"


class PageUnavailable(SourceRefused):
    """A web page whose server did not answer as expected."""

    code = "page_unavailable"
    reason = "could not be fetched"
    retryable = True
    advice = "Try again later."


class SourceEmpty(SourceRefused):
    """A file without text."""

    code = "source_empty"
    reason = "contains no text"


class SourceCopied(SourceRefused):
    """A file with the content of another document, where copies are refused."""

    code = "source_copied"
    reason = "has the same content as another document"
    advice = "Remove it, or ingest it with copies='keep' (-o copies=keep)."

    def __init__(self, name: str, original: str = "", *, advice: str | None = None) -> None:
        if original:
            self.reason = f"has the same content as {original}"
        super().__init__(name, advice=advice)


class AudienceMissing(SourceRefused):
    """A new file without an audience, where the settings require one."""

    code = "audience_missing"
    reason = "has no audience"
    advice = "Name who may see it, with --audience, a manifest, a sidecar or a rule [[audience]]."


class SourceTooLarge(SourceRefused):
    """A file above a limit on sizes or counts."""

    code = "source_too_large"
    reason = "larger than a document may be"
    advice = "Split it into smaller files."


class SourceEncrypted(SourceRefused):
    """A file with a password or DRM."""

    code = "source_encrypted"
    reason = "protected by a password"
    advice = "Save a copy without the password."


OCR_ADVICE = (
    'Text in pictures is recognised with the setting ocr = "auto", or with -o ocr=true, if '
    "Truespan is installed with the extra 'ocr'."
)


class SourceScanned(SourceRefused):
    """A file with page images and no text."""

    code = "source_scanned"
    reason = "contains pictures of pages and no text"
    advice = OCR_ADVICE


class SourceBroken(SourceRefused):
    """A damaged file."""

    code = "source_broken"
    reason = "damaged, or not the format it claims to be"
    advice = "Open it with the program that made it and save it again."


class SourceUnsafe(SourceRefused):
    """A file built in a way that could do harm."""

    code = "source_unsafe"
    reason = "built in a way that could do harm"
    advice = "Do not trust its origin."


class SourceTooCostly(SourceRefused):
    """A file that exceeded the time or memory limit for reading."""

    code = "source_too_costly"
    reason = "reading it takes more time or memory than is allowed"
    advice = "Split it, or raise loader_memory_mib."


class SidecarInvalid(SourceRefused):
    """A faulty description beside a document."""

    code = "sidecar_invalid"
    reason = "cannot be used"
    advice = "Correct or remove the sidecar, and ingest the document again."

    def __init__(self, name: str, fault: str) -> None:
        self.reason = fault
        super().__init__(name)


class RecordInvalid(SourceRefused):
    """A record or member of a file with a label that cannot be used."""

    code = "record_invalid"
    reason = "the record cannot be used"
    advice = "Correct the record in its file, and ingest the file again."


class FieldsInvalid(SourceRefused):
    """Declared fields that the records of a file do not have."""

    code = "fields_invalid"
    reason = "the declared fields do not match its records"
    advice = "Name fields that the records have."


class AssetsTaken(SourceRefused):
    """Images whose folder belongs to a document of another world."""

    code = "assets_taken"
    reason = "the folder for its images belongs to a document of the same id in another world"
    advice = "Give it another doc_id, or set RAG_ASSETS_DIR to another folder."


class LoaderCrashed(SourceRefused):
    """A file whose parser process died."""

    code = "loader_crashed"
    reason = "the process that parsed it ended without a result"
    advice = "Ingest the file again. If that fails too, please report a bug."


class LoaderNotStarted(SourceRefused):
    """A parser process that could not start in time; nothing is wrong with the file."""

    code = "loader_not_started"
    retryable = True
    reason = "the process that parses it could not start in time"
    advice = "The machine is overloaded or short of memory; ingest it again."


def source_refusal(kind: str, name: str, advice: str | None = None) -> SourceRefused:
    """Return a refusal by the name of its class, which an untrusted process may have sent.

    An unknown name becomes LoaderCrashed.
    """
    kinds = {known.__name__: known for known in (SourceRefused, *SourceRefused.__subclasses__())}
    kinds.pop(SidecarInvalid.__name__)
    return kinds.get(kind, LoaderCrashed)(name, advice=advice)
