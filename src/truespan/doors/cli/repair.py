"""The command that has done what searches found: here, or by workers where there are some."""

from __future__ import annotations

from truespan.doors.cli.app import (
    AnyWorld,
    AsJson,
    Here,
    LibraryPath,
    NoFollow,
    app,
    chosen_worlds,
    open_at,
    say,
)
from truespan.doors.wire import to_json


@app.command()
def repair(
    world: AnyWorld = None,
    library: LibraryPath = None,
    here: Here = False,
    no_follow: NoFollow = False,
    as_json: AsJson = False,
) -> int:
    """Apply what retrieval found: delete stale points, restore text, embed what is pending."""
    from truespan.doors.cli.show import show_repairs

    with open_at(library) as opened:
        chosen = chosen_worlds(opened, world)
        filled = [one for one in chosen if one.generations.list()]
        if filled and opened.has_workers and not here:
            from truespan.doors.cli.follow import followed_upkeep

            jobs = [(one, one.submit_repair()) for one in filled]
            return followed_upkeep(jobs, as_json=as_json, leave=no_follow)
        reports = {one.name: one.repair() for one in chosen}
        # A world that was deleted has nobody left to repair it.
        opened.erase()
    say(to_json(reports) if as_json else show_repairs(reports))
    return 0
