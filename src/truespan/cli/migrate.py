"""Commands that move a library between stores and prepare a PostgreSQL store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from truespan.cli.app import AsJson, LibraryPath, app, echo, folder_of
from truespan.serialize import EXIT_UNHEALTHY, to_json

if TYPE_CHECKING:
    from truespan.types.maintenance import MigrationReport


@app.command()
def migrate(
    source: Annotated[Path, typer.Argument(help="The folder of the library to move.")],
    library: LibraryPath = None,
    as_json: AsJson = False,
) -> int:
    """Move a library from files to PostgreSQL and Qdrant, or back, and verify every row.

    The source is described by its own settings, the target by those of --library and the
    environment.
    """
    import truespan

    report = truespan.migrate(source, folder_of(library))
    echo(to_json({**_told(report)}) if as_json else _show(report))
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
    from truespan.cli.output import pluralize

    lines = [
        f"Moved to {report.path} and verified: {pluralize(report.worlds, 'world')}, "
        f"{pluralize(report.rows, 'row')} in {len(report.tables)} tables, "
        f"{pluralize(report.files, 'file')}.",
        f"The index has {pluralize(report.points, 'point')}.",
    ]
    if report.pending:
        lines.append(
            f"{pluralize(report.pending, 'chunk')} must be embedded: run 'truespan repair'."
        )
    if report.findings:
        told = ", ".join(f"{code}: {count}" for code, count in report.findings.items())
        lines.append(f"'truespan doctor' reports: {told}.")
    return "\n".join(lines)


@app.command("prepare-store")
def prepare_store(library: LibraryPath = None, as_json: AsJson = False) -> None:
    """Create or update the tables of a PostgreSQL store, as the role of store_owner_url."""
    import truespan

    before, now = truespan.prepare_store(folder_of(library))
    if as_json:
        echo(to_json({"schema_before": before, "schema": now}))
    elif before == now:
        echo(f"The tables are up to date (schema {now}); grants and policies were renewed.")
    else:
        echo(f"The tables were updated from schema {before} to {now}.")
