"""Errors of files and pages that cannot become documents."""

from __future__ import annotations

from typing import ClassVar

from truespan.errors.base import CallerError, ErrorCode

OCR_ADVICE = (
    'Text in pictures is recognised with the setting ocr = "auto", or with -o ocr=true, if '
    "Truespan is installed with the extra 'ocr'."
)
_FORMATS = (
    "Text, Markdown, HTML, DOCX, ODT, RTF, PPTX, ODP, EPUB, PDF, spreadsheets, CSV, JSON, "
    "e-mail, notebooks, source code and ZIP can be ingested."
)


class SourceRefused(CallerError):
    """A file that cannot be ingested."""

    code = "source_refused"
    text = "{name}: cannot be read."
    codes: ClassVar = {
        "source_missing": ErrorCode(
            "A file or folder that does not exist.", "{name}: no such file or folder."
        ),
        "source_outside": ErrorCode(
            "A path outside of the folders that files may be read from.",
            "{name}: not below a folder that files may be read from.",
        ),
        "source_unreadable": ErrorCode(
            "A file that cannot be opened.", "{name}: cannot be opened."
        ),
        "source_unsupported": ErrorCode(
            "A file of an unsupported format.", "{name}: unsupported file type.", _FORMATS
        ),
        "source_not_text": ErrorCode(
            "A file that is named as text, but whose bytes are not text.",
            "{name}: named like a text file, but its bytes are not text.",
            "Save it as UTF-8 text.",
        ),
        "page_refused": ErrorCode(
            "A web page whose address, robots.txt or server does not allow fetching it.",
            "{name}: may not be fetched.",
        ),
        "page_unavailable": ErrorCode(
            "A web page whose server did not answer as expected.",
            "{name}: could not be fetched.",
            "Try again later.",
            retryable=True,
        ),
        "source_empty": ErrorCode("A file without text.", "{name}: contains no text."),
        "source_copied": ErrorCode(
            "A file with the content of another document, where copies are refused.",
            "{name}: has the same content as another document.",
            "Remove it, or ingest it with copies='keep' (-o copies=keep).",
        ),
        "audience_missing": ErrorCode(
            "A new file without an audience, where the settings require one.",
            "{name}: has no audience.",
            "Name who may see it, with --audience, a manifest, a sidecar or a rule [[audience]].",
        ),
        "source_too_large": ErrorCode(
            "A file above a limit on sizes or counts.",
            "{name}: larger than a document may be.",
            "Split it into smaller files.",
        ),
        "source_encrypted": ErrorCode(
            "A file with a password or DRM.",
            "{name}: protected by a password.",
            "Save a copy without the password.",
        ),
        "source_scanned": ErrorCode(
            "A file with page images and no text.",
            "{name}: contains pictures of pages and no text.",
            OCR_ADVICE,
        ),
        "source_broken": ErrorCode(
            "A damaged file.",
            "{name}: damaged, or not the format it claims to be.",
            "Open it with the program that made it and save it again.",
        ),
        "source_unsafe": ErrorCode(
            "A file built in a way that could do harm.",
            "{name}: built in a way that could do harm.",
            "Do not trust its origin.",
        ),
        "source_too_costly": ErrorCode(
            "A file that exceeded the time or memory limit for reading.",
            "{name}: reading it takes more time or memory than is allowed.",
            "Split it.",
        ),
        "sidecar_invalid": ErrorCode(
            "A faulty description beside a document.",
            "{name}: cannot be used.",
            "Correct or remove the sidecar, and ingest the document again.",
        ),
        "record_invalid": ErrorCode(
            "A record or member of a file with a label that cannot be used.",
            "{name}: the record cannot be used.",
            "Correct the record in its file, and ingest the file again.",
        ),
        "fields_invalid": ErrorCode(
            "Declared fields that the records of a file do not have.",
            "{name}: the declared fields do not match its records.",
            "Name fields that the records have.",
        ),
        "assets_taken": ErrorCode(
            "Images whose folder belongs to a document of another world.",
            "{name}: the folder for its images belongs to a document of the same id in another "
            "world.",
            "Give it another doc_id, or set RAG_ASSETS_DIR to another folder.",
        ),
        "loader_crashed": ErrorCode(
            "A file whose parser process died.",
            "{name}: the process that parsed it ended without a result.",
            "Ingest the file again. If that fails too, please report a bug.",
        ),
        "loader_not_started": ErrorCode(
            "A parser process that could not start in time; nothing is wrong with the file.",
            "{name}: the process that parses it could not start in time.",
            "The machine is overloaded or short of memory; ingest it again.",
            retryable=True,
        ),
    }

    def __init__(
        self, code: str, name: str, *, reason: str = "", advice: str | None = None
    ) -> None:
        """`reason` replaces that of the code."""
        message = f"{name}: {reason}." if reason else None
        super().__init__(message, code=code, advice=advice, name=name)
        self.name = name


def source_refusal(code: str, name: str, advice: str | None = None) -> SourceRefused:
    """Return a refusal by a code from an untrusted process; unknown ones are `loader_crashed`."""
    known = code == SourceRefused.code or code in SourceRefused.codes
    return SourceRefused(code if known else "loader_crashed", name, advice=advice)
