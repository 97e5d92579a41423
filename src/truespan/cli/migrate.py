"""The command that moves a library between one machine and many."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from truespan.cli.app import AsJson, LibraryPath, app, folder_of, say
from truespan.serialize import EXIT_UNHEALTHY, to_json

if TYPE_CHECKING:
    from truespan.types.maintenance import MigrationReport


@app.command()
def migrate(
    source: Annotated[Path, typer.Argument(help="The folder of the library to move.")],
    library: LibraryPath = None,
    as_json: AsJson = False,
) -> int:
    """Move a library into another one: files into PostgreSQL and Qdrant, or back; all is verified.

    Its own settings say where the source is; those of --library and the environment say where to.
    """
    import truespan

    report = truespan.migrate(source, folder_of(library))
    say(to_json({**_told(report)}) if as_json else _show(report))
    return EXIT_UNHEALTHY if report.findings else 0


def _told(report: MigrationReport) -> dict[str, object]:
    return {
        "library": report.path,
        "worlds": report.worlds,
        "rows": report.rows,
        "tables": {
            name: {"rows": one.rows, "digest": one.digest} for name, one in report.tables.items()
        },
        "files": report.files,
        "points": report.points,
        "pending": report.pending,
        "findings": report.findings,
    }


def _show(report: MigrationReport) -> str:
    from truespan.cli.output import counted

    lines = [
        f"Moved to {report.path} and verified: {counted(report.worlds, 'world')}, "
        f"{counted(report.rows, 'row')} in {len(report.tables)} tables, "
        f"{counted(report.files, 'file')}.",
        f"The index has {counted(report.points, 'point')}.",
    ]
    if report.pending:
        lines.append(f"{counted(report.pending, 'chunk')} wait to be embedded: 'truespan repair'.")
    if report.findings:
        told = ", ".join(f"{code}: {count}" for code, count in report.findings.items())
        lines.append(f"'truespan doctor' has something to say: {told}.")
    return "\n".join(lines)


@app.command("prepare-store")
def prepare_store(library: LibraryPath = None, as_json: AsJson = False) -> None:
    """Make or update the tables of a PostgreSQL store, as the role of store_owner_url."""
    import truespan

    before, now = truespan.prepare_store(folder_of(library))
    if as_json:
        say(to_json({"schema_before": before, "schema": now}))
    elif before == now:
        say(f"The tables are up to date, at schema {now}; rights and policies were renewed.")
    else:
        say(f"The tables were brought from schema {before} to {now}.")
