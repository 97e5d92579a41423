"""Commands to back up, restore and delete."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from truespan.cli.app import AsJson, LibraryPath, WorldName, app, echo, open_at
from truespan.errors import InvalidSettings
from truespan.serialize import to_json

if TYPE_CHECKING:
    from truespan.maintenance.delete import Receipt
    from truespan.types.maintenance import Manifest
    from truespan.world import World


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(help="The file to write, or to verify.")],
    library: LibraryPath = None,
    without_vectors: Annotated[
        bool,
        typer.Option(
            "--without-vectors",
            help="Leave out vectors: smaller, but texts are embedded again after a restore.",
        ),
    ] = False,
    with_settings: Annotated[
        bool, typer.Option("--with-settings", help="Add truespan.toml.")
    ] = False,
    with_keys: Annotated[
        bool, typer.Option("--with-keys", help="Add the library's own keys. Keep the file safe.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Write nothing; verify an existing backup.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write the whole library into one file and verify it. Other processes may keep working."""
    import truespan

    if verify:
        manifest = truespan.verify_backup(file)
        result: Any = {"verified": str(file), "manifest": manifest_to_json(manifest)}
        echo(to_json(result) if as_json else f"{file} is intact: {_contents(manifest)}.")
        return
    with open_at(library) as opened:
        report = opened.backup(
            file,
            vectors=not without_vectors,
            settings=with_settings,
            keys=with_keys,
            replace=force,
        )
    if as_json:
        result = {
            "path": report.path,
            "bytes": report.bytes,
            "manifest": manifest_to_json(report.manifest),
        }
        echo(to_json(result))
        return
    echo(f"Wrote and verified {report.path} ({_size(report.bytes)}): {_contents(report.manifest)}.")
    for line in _warnings(report.manifest):
        echo(line)


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="A backup.")],
    library: LibraryPath = None,
    as_json: AsJson = False,
) -> None:
    """Restore a backup into a new or empty folder, or into an empty PostgreSQL store."""
    import truespan
    from truespan.settings import default_library

    folder = library or default_library()
    report = truespan.restore(file, folder)
    result = {
        "library": report.path,
        "written": report.written,
        "pending": report.pending,
        "settings_aside": report.settings_aside,
        "manifest": manifest_to_json(report.manifest),
    }
    if as_json:
        echo(to_json(result))
        return
    echo(f"Restored to {report.path}: {_contents(report.manifest)}.")
    echo(f"The index was rebuilt with {report.written} points.")
    if report.pending:
        echo(
            f"{report.pending} chunks must be embedded: "
            f"run 'truespan repair --library {report.path}'."
        )
    if report.settings_aside:
        echo(f"The settings of the backup are not used; they are in {report.settings_aside}.")


@app.command()
def delete(
    world: WorldName,
    reference: Annotated[
        str | None, typer.Argument(help="A document: number, id or file name.")
    ] = None,
    library: LibraryPath = None,
    whole: Annotated[bool, typer.Option("--all", help="Delete the world itself.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --all: confirm.")] = False,
    no_erase: Annotated[
        bool, typer.Option("--no-erase", help="Leave erasing from files to 'truespan repair'.")
    ] = False,
    receipt: Annotated[
        Path | None, typer.Option("--receipt", help="Write the receipt to this file, as JSON.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Delete a document or a world permanently: text, points, vectors, images and all files."""
    if whole == (reference is not None):
        raise InvalidSettings("Name a document, or pass --all for the whole world.")
    if receipt is not None and (whole <= yes):
        # Created before anything is deleted: a receipt cannot be issued a second time.
        _make_room(receipt)
    with open_at(library) as opened:
        chosen = opened.world(world)
        if whole and not yes:
            _preview(chosen, as_json)
            return
        erase = not no_erase
        if reference is not None:
            gone = chosen.documents.delete(reference, erase=erase)
        else:
            gone = opened.delete_world(chosen.id, erase=erase)
    if receipt is not None:
        receipt.write_text(to_json(gone.to_json()) + "\n", encoding="utf-8")
    result = {"deleted": gone.number, "doc_id": gone.doc_id, "name": gone.name}
    echo(to_json({**result, "receipt": gone.to_json()}) if as_json else _show(gone))


def _make_room(receipt: Path) -> None:
    """Create the empty file of a receipt; refuse if it exists or cannot be written."""
    try:
        receipt.touch(exist_ok=False)
    except FileExistsError:
        raise InvalidSettings(f"The file {receipt} already exists.") from None
    except OSError as error:
        raise InvalidSettings(f"{receipt} cannot be written: {error.strerror}.") from None


def _preview(world: World, as_json: bool) -> None:
    status = world.status()
    result = {
        "deleted": None,
        "would_delete": {
            "world": world.name,
            "documents": status.documents,
            "chunks": status.chunks,
        },
    }
    echo(
        to_json(result)
        if as_json
        else f"World {world.name!r} has {status.documents} documents with {status.chunks} chunks. "
        "Nothing was deleted; add --yes to delete all of it."
    )


def _show(receipt: Receipt) -> str:
    what = (
        f"world {receipt.name}"
        if receipt.number is None
        else f"document {receipt.number}, {receipt.name}"
    )
    lines = [f"Deleted {what}."]
    if receipt.erased:
        lines.append("Erased from every file of the library.")
    if receipt.waiting:
        why = ", ".join(f"{kind}: {code}" for kind, code in receipt.waiting.items())
        lines.append(f"Not erased from all files yet ({why}); 'truespan repair' does that.")
    lines += [_OUTSIDE[became].format(kind) for kind, became in receipt.outside.items()]
    if receipt.check is not None and receipt.check.found:
        lines.append(f"{receipt.check.found} traces of it were still found in files.")
    return "\n".join(lines)


_OUTSIDE = {
    "requested": "The {} server was asked to remove it from its files, which Truespan cannot "
    "inspect.",
    "left_to_operator": "The {} server keeps it in its files until its operator vacuums them.",
}


def manifest_to_json(manifest: Manifest) -> dict[str, Any]:
    return {
        "format": manifest.format,
        "schema": manifest.schema,
        "truespan": manifest.truespan,
        "created_at": manifest.created_at,
        "vectors": manifest.vectors,
        "settings": manifest.has("settings"),
        "keys": manifest.has("keys"),
        "worlds": manifest.worlds,
        "documents": manifest.documents,
        "chunks": manifest.chunks,
        "images": manifest.images,
        "missing_images": manifest.missing_images,
        "bytes": manifest.size,
    }


def _contents(manifest: Manifest) -> str:
    from truespan.cli.output import pluralize

    vectors = "with vectors" if manifest.vectors else "without vectors"
    return (
        f"{pluralize(manifest.worlds, 'world')}, {pluralize(manifest.documents, 'document')}, "
        f"{pluralize(manifest.chunks, 'chunk')}, "
        f"{manifest.images} images, {vectors}"
    )


def _warnings(manifest: Manifest) -> list[str]:
    lines = []
    if manifest.has("keys"):
        lines.append("WARNING: the file contains the library's keys. Protect it like the keys.")
    if manifest.missing_images:
        lines.append(f"WARNING: images of {manifest.missing_images} documents are missing.")
    return lines


def _size(count: int) -> str:
    return f"{count / (1 << 20):.1f} MiB"
