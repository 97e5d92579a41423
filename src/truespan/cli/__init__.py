"""The command line: the library's twin, for people (rich text) and for scripts (`--json`)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from truespan.errors import InternalError, Interrupted, InvalidSettings, TruespanError


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and leave with the exit code of the table in `wire`."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(run(given or ["--help"]))


def run(arguments: list[str]) -> int:
    """Run one command; every error becomes one clear line and a code, never a traceback."""
    from typer.exceptions import Abort, Exit, TyperException

    try:
        _require_text(arguments)
        code = _commands()(arguments, standalone_mode=False, prog_name="truespan")
        return code if isinstance(code, int) else 0
    except Exit as leaving:
        return leaving.exit_code
    except TyperException as refusal:
        return _report(_misuse(refusal), arguments)
    except (KeyboardInterrupt, Abort):
        return _report(Interrupted(), arguments)
    except BrokenPipeError:
        # The reader of our output has gone, for instance `| head`. Nothing more can be printed.
        sys.stdout = None  # type: ignore[assignment]
        return 0
    except TruespanError as error:
        return _report(error, arguments)
    except Exception as error:
        return _report(_unexpected(error), arguments)


@cache
def _commands() -> Callable[..., Any]:
    """Make the commands from their functions, once: that is most of what a small one costs."""
    from typer.main import get_command

    from truespan.cli import answers as answer
    from truespan.cli import (
        backup,
        doctor,
        evaluate,
        generations,
        ingest,
        migrate,
        reading,
        serve,
        tokens,
    )
    from truespan.cli import doctor as repair
    from truespan.cli import migrate as store
    from truespan.cli import serve as worker
    from truespan.cli.app import app

    # Imported so that their commands are known.
    del answer, backup, doctor, evaluate, generations, ingest, migrate, reading, repair, serve
    del store, tokens, worker
    return get_command(app)


def _require_text(arguments: Sequence[str]) -> None:
    """Refuse what is no text: bytes that are not UTF-8 can neither be kept nor looked for."""
    for place, argument in enumerate(arguments, start=1):
        if not _is_text(argument):
            raise InvalidSettings(
                f"Argument {place} is not UTF-8.", advice="Give names, paths and queries in UTF-8."
            )


def _is_text(argument: str) -> bool:
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


def _misuse(refusal: Exception) -> InvalidSettings:
    """Return what is wrong with a command's arguments as an error of ours."""
    explain = getattr(refusal, "format_message", None)
    message = (explain() if explain else str(refusal)).strip().rstrip(".")
    return InvalidSettings(f"{message}.", advice="See 'truespan --help'.")


def _unexpected(error: Exception) -> InternalError:
    from truespan.settings import debugging

    if debugging():
        import traceback

        traceback.print_exception(error)
    return InternalError(type(error).__name__)


def _in_events(arguments: Sequence[str]) -> bool:
    """Return whether the output is one event per line, errors included."""
    wishes = [one for one in arguments if one in ("--stream", "--no-stream")]
    return "--json" in arguments and wishes[-1:] == ["--stream"]


def _report(error: TruespanError, arguments: list[str]) -> int:
    from truespan.serialize import problem, status_of, to_json

    if _in_events(arguments):
        from truespan.cli.answers import error_line

        sys.stdout.write(error_line(error) + "\n")
    elif "--json" in arguments:
        sys.stdout.write(to_json({"error": problem(error)}) + "\n")
    else:
        sys.stderr.write(f"truespan: {error}\n")
    return status_of(error).exit_code
