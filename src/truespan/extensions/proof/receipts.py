"""Verify a signed receipt, and compare its passages with the file that they were read from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from truespan.errors import ReceiptInvalid, SourceRefused, resource_error
from truespan.extensions.proof.types import PublicKeys, SignedReceipt, SourcePlace, VerifiedReceipt
from truespan.extensions.proof.verify import ReceiptError, check_source, read_file, verify
from truespan.settings import read_settings
from truespan.types.request import Defaults
from truespan.types.source import UNDECLARED
from truespan.types.text import CanonicalText
from truespan.wiring import make_parser, make_preparation


def verify_receipt(
    receipt: SignedReceipt | bytes | str,
    keys: PublicKeys | dict[str, Any],
    *,
    source: Path | None,
    settings_folder: Path,
) -> VerifiedReceipt:
    """Verify a receipt, as `truespan.verify_receipt` does."""
    data = msgspec.json.encode(receipt) if isinstance(receipt, SignedReceipt) else receipt
    try:
        found = verify(data, msgspec.to_builtins(keys))
        compared = _compare(found.claims, found.texts, source, settings_folder) if source else ()
        places = tuple(compared)
    except ReceiptError as error:
        raise ReceiptInvalid(error.failure, str(error)) from None
    return VerifiedReceipt(found.key_id, found.claims, found.texts, places)


def _compare(
    claims: dict[str, Any], texts: tuple[str, ...], source: Path, settings_folder: Path
) -> Iterator[SourcePlace]:
    """Yield the place of each passage that was read from a file; raises ReceiptError."""
    try:
        data = read_file(source)
    except OSError as error:
        raise resource_error(error) or SourceRefused("source_unreadable", source.name) from None
    for document in check_source(claims, data):
        canonical = _read_text(source.name, document["doc_id"], data, claims, settings_folder)
        for number, passage in enumerate(claims["passages"]):
            if passage["document"] != document["document"] or passage["kind"] != "text":
                continue
            start, end = passage["start"], passage["end"]
            if canonical.text[start:end] != texts[number]:
                raise ReceiptError(
                    "source_text_differs",
                    f"The file has another text at the place of passage {number + 1}. It may have "
                    "been read with other settings.",
                )
            yield SourcePlace(
                passage=number + 1,
                first_sentence=passage["first_sentence"],
                last_sentence=passage["last_sentence"],
                location=canonical.location(start, end),
            )


def _read_text(
    name: str, doc_id: str, data: bytes, claims: dict[str, Any], settings_folder: Path
) -> CanonicalText:
    """Return the text of a file as an ingestion with these settings reads it."""
    from truespan.ingest.draft import make_text
    from truespan.parsing.detect import known_format

    settings = read_settings(settings_folder)
    preparation = make_preparation(settings_folder, settings)
    preparation = preparation.for_world(Defaults(claims["defaults"]))
    parser = make_parser()
    try:
        options = preparation.parse_options(UNDECLARED, known_format(name, data))
        loaded = parser.parse(name, data, options)
    finally:
        parser.close()
    return make_text(doc_id, name, loaded, preparation)[1]
