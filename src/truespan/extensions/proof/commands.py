"""Commands of the panel "Prove": signing keys, and the verification of receipts."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from truespan.cli.app import say
from truespan.cli.commands import Argument, CommandGroup, Option
from truespan.cli.options import Folder, Json, folder_of, open_library
from truespan.cli.terminal import echo
from truespan.errors import InvalidArgument, LibraryNotFound, ReceiptInvalid, resource_error
from truespan.wire.serialize import to_json

if TYPE_CHECKING:
    from truespan.extensions.proof.types import PublicKeys, VerifiedReceipt

keys_group = CommandGroup("keys", help="Keys that sign receipts.")

ReceiptFile = Annotated[Path, Argument(help="A signed receipt.", metavar="RECEIPT")]


@keys_group.register("list")
def list_keys(library: Folder = None, as_json: Json = False) -> None:
    """List the public keys; with --json, in the form that verifies receipts elsewhere."""
    with open_library(library) as opened:
        _print_keys(opened.keys.list(), as_json)


@keys_group.register("create")
def create_key(library: Folder = None, as_json: Json = False) -> None:
    """Create the key that signs receipts, unless there is one."""
    with open_library(library) as opened:
        _print_keys(opened.keys.create(), as_json)


@keys_group.register("rotate")
def rotate_key(library: Folder = None, as_json: Json = False) -> None:
    """Replace the signing key. Receipts that were signed with the old one stay valid."""
    with open_library(library) as opened:
        _print_keys(opened.keys.rotate(), as_json)


def _print_keys(found: "PublicKeys", as_json: bool) -> None:
    if as_json:
        echo(to_json(found))
        return
    if not found.keys:
        say("There is no signing key. Create one with 'truespan keys create'.")
    for key in found.keys:
        since = f"since {key.created_at}" if key.created_at else "from the settings"
        until = f", retired {key.retired_at}" if key.retired_at else ""
        echo(f"{key.key_id}  {since}{until}")


def verify(
    receipt: ReceiptFile,
    keys: Annotated[
        Path | None,
        Option(
            help="Public keys as 'truespan keys list --json' prints them; default: the library's."
        ),
    ] = None,
    source: Annotated[
        Path | None, Option(help="File that the passages must be read from, at the same places.")
    ] = None,
    library: Folder = None,
    as_json: Json = False,
) -> int:
    """Verify a signed receipt: signature, key and texts.

    The exit code is 0 if it is valid, and otherwise identifies the failure; see docs/proofs.md.
    """
    import truespan
    from truespan.extensions.proof.verify import EXIT_CODES

    data = _read(receipt)
    try:
        found = truespan.verify_receipt(
            data,
            _read_keys(keys, library),
            source=source,
            settings_folder=folder_of(library),
        )
    except ReceiptInvalid as error:
        failed = {"valid": False, "failure": error.failure, "message": error.message}
        shown = f"Not valid ({error.failure}): {error.message}"
        echo(to_json(failed) if as_json else shown, err=not as_json)
        return EXIT_CODES[error.failure]
    echo(to_json({"valid": True, "receipt": found}) if as_json else _show(found))
    return 0


def _show(found: "VerifiedReceipt") -> str:
    from truespan.extensions.proof.verify import Verified, describe

    claims = found.claims
    lines = [f"Valid. {describe(Verified(found.key_id, claims, found.texts))}"]
    if "scope" in claims:
        lines.append(f"Scope: {claims['scope']['text']}.")
    for place in found.places:
        sentences = f"sentences {place.first_sentence}-{place.last_sentence}"
        where = ", ".join(filter(None, (place.location, sentences)))
        lines.append(f"Passage {place.passage} is in the file: {where}.")
    return "\n".join(lines)


def _read(path: Path) -> bytes:
    from truespan.extensions.proof.verify import read_file

    try:
        return read_file(path)
    except OSError as error:
        refusal = InvalidArgument(f"Cannot read {path}: {error.strerror}.")
        raise resource_error(error) or refusal from None


def _read_keys(path: Path | None, library: Path | None) -> "PublicKeys | dict[str, Any]":
    from truespan.core.strict_json import JsonError, parse_json_object

    if path is None:
        try:
            with open_library(library) as opened:
                return opened.keys.list()
        except LibraryNotFound as error:
            error.advice = (
                "Elsewhere, name the public keys of the library with --keys; "
                "its owner writes them with 'truespan keys list --json'."
            )
            raise
    try:
        return parse_json_object(_read(path))
    except JsonError as error:
        raise InvalidArgument(f"The file of keys {path} is wrong: {error}.") from None
