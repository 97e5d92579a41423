"""Commands of the panel "Maintenance": doctor, repair, backups and restores."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from truespan.cli.commands import Argument, Option, WholeNumber
from truespan.cli.options import (
    AnyWorld,
    Folder,
    Json,
    NoFollow,
    RunHere,
    find_worlds,
    new_folder_of,
    open_library,
)
from truespan.cli.terminal import echo
from truespan.errors import InvalidArgument, InvalidConfiguration
from truespan.wire.serialize import EXIT_UNHEALTHY, members, record_data, to_json

if TYPE_CHECKING:
    from truespan.types.maintenance import Manifest

MAX_SAMPLES = 1_000_000


def doctor(
    world: AnyWorld = None,
    library: Folder = None,
    apply: Annotated[bool, Option(help="Apply the plan.")] = False,
    embed_sample: Annotated[
        int | None,
        Option(
            help="Number of texts per generation to embed again and compare.",
            type=WholeNumber(0, MAX_SAMPLES),
        ),
    ] = None,
    self_test: Annotated[
        bool, Option("--self-test/--no-self-test", help="Test the isolation between worlds.")
    ] = True,
    background: Annotated[bool, Option(help="Run as jobs on the workers, one per world.")] = False,
    claim_index: Annotated[
        bool,
        Option(help="First make this library the owner of its collections on the Qdrant server."),
    ] = False,
    no_follow: NoFollow = False,
    as_json: Json = False,
) -> int:
    """Compare store and index, and show a plan of repairs. The store is the source of truth."""
    from truespan.cli.follow import follow_maintenance, progress_bar
    from truespan.cli.output.maintenance import plan_data, repair_data, show_plan, show_repair
    from truespan.types.job import DoctorJob

    if background and claim_index:
        raise InvalidArgument("--claim-index cannot be combined with --background.")
    if background:
        with open_library(library) as opened:
            if not opened.has_workers:
                raise InvalidConfiguration(
                    "This library has no workers because its store is a file.",
                    advice="Leave --background out.",
                )
            request = DoctorJob(apply, embed_sample or 0, self_test)
            jobs = [
                (each, each.jobs.submit(request))
                for each in find_worlds(opened, world)
                if each.access.record().generation
            ]
            return follow_maintenance(jobs, as_json=as_json, leave=no_follow)
    with open_library(library) as opened, progress_bar(hidden=as_json) as on_progress:
        if claim_index:
            opened.maintenance.claim_index()
        plan = opened.doctor(
            None if world is None else [opened.world(world).name],
            embed_sample=embed_sample,
            self_test=self_test,
            machine=True,
            on_progress=on_progress,
        )
        result = opened.maintenance.apply_plan(plan, on_progress=on_progress) if apply else None
    if result is None:
        echo(to_json(plan_data(plan)) if as_json else show_plan(plan))
        return 0 if plan.healthy else EXIT_UNHEALTHY
    echo(to_json(repair_data(result)) if as_json else show_repair(result))
    return 0 if result.left.healthy and not plan.problems else EXIT_UNHEALTHY


def repair(
    world: AnyWorld = None,
    library: Folder = None,
    here: RunHere = False,
    no_follow: NoFollow = False,
    as_json: Json = False,
) -> int:
    """Delete stale points, restore text and write pending vectors, as retrieval noted them."""
    from truespan.cli.output.maintenance import show_repairs

    with open_library(library) as opened:
        worlds = find_worlds(opened, world)
        filled = [each for each in worlds if each.access.record().generation]
        if filled and opened.has_workers and not here:
            from truespan.cli.follow import follow_maintenance
            from truespan.types.job import RepairJob

            jobs = [(each, each.jobs.submit(RepairJob())) for each in filled]
            return follow_maintenance(jobs, as_json=as_json, leave=no_follow)
        reports = {each.name: each.repair() for each in worlds}
        # A deleted world cannot be repaired.
        opened.maintenance.erase()
    echo(to_json(reports) if as_json else show_repairs(reports))
    return 0


def backup(
    file: Annotated[Path, Argument(help="The file to write, or to verify.")],
    library: Folder = None,
    without_vectors: Annotated[
        bool,
        Option(help="Leave out vectors: smaller, but texts are embedded again after a restore."),
    ] = False,
    with_settings: Annotated[bool, Option(help="Add truespan.toml.")] = False,
    with_keys: Annotated[
        bool, Option(help="Add the library's own keys. Keep the file safe.")
    ] = False,
    force: Annotated[bool, Option(help="Replace an existing file.")] = False,
    verify: Annotated[bool, Option(help="Write nothing; verify an existing backup.")] = False,
    as_json: Json = False,
) -> None:
    """Write the whole library into one file and verify it. Other processes may keep working."""
    import truespan
    from truespan.cli.output.maintenance import show_manifest

    if verify:
        manifest = truespan.verify_backup(file)
        result: Any = {"verified": str(file), "manifest": _manifest_data(manifest)}
        echo(to_json(result) if as_json else f"{file} is intact: {show_manifest(manifest)}.")
        return
    with open_library(library) as opened:
        report = opened.backup(
            file, vectors=not without_vectors, settings=with_settings, keys=with_keys, replace=force
        )
    manifest = report.manifest
    if as_json:
        result = {"path": report.path, "bytes": report.bytes, "manifest": _manifest_data(manifest)}
        echo(to_json(result))
        return
    size = f"{report.bytes / (1 << 20):.1f} MiB"
    echo(f"Wrote and verified {report.path} ({size}): {show_manifest(manifest)}.")
    if manifest.has("keys"):
        echo("WARNING: the file contains the library's keys. Protect it like the keys.")
    if manifest.missing_images:
        echo(f"WARNING: images of {manifest.missing_images} documents are missing.")


def restore(
    file: Annotated[Path, Argument(help="A backup.")], library: Folder = None, as_json: Json = False
) -> None:
    """Restore a backup into a new or empty folder, or into an empty PostgreSQL store."""
    import truespan
    from truespan.cli.output.maintenance import show_manifest
    from truespan.cli.terminal import pluralize

    report = truespan.restore(file, new_folder_of(library))
    if as_json:
        result = members(report, "written", "pending", "settings_aside")
        manifest = _manifest_data(report.manifest)
        echo(to_json({"library": report.path, **result, "manifest": manifest}))
        return
    echo(f"Restored to {report.path}: {show_manifest(report.manifest)}.")
    echo(f"The index was rebuilt with {pluralize(report.written, 'point')}.")
    if report.pending:
        chunks = pluralize(report.pending, "chunk")
        echo(f"{chunks} must be embedded: run 'truespan repair --library {report.path}'.")
    if report.settings_aside:
        echo(f"The settings of the backup are not used; they are in {report.settings_aside}.")


def _manifest_data(manifest: "Manifest") -> dict[str, Any]:
    return {
        **record_data(manifest, "format", "schema", "truespan", "created_at", "vectors"),
        "settings": manifest.has("settings"),
        "keys": manifest.has("keys"),
        **members(manifest, "worlds", "documents", "chunks", "images", "missing_images"),
        "bytes": manifest.size,
    }
