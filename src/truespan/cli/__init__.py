"""The command line: the library for people (rich text) and for scripts (`--json`)."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence

from truespan import errors

_COMMAND_OPTIONS = ("--json", "--library", "-L", "--world", "-w")
"""Options of most commands that users also try before the command."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with the code of the table in `truespan.wire.serialize`."""
    code = run(list(sys.argv[1:] if arguments is None else arguments) or ["--help"])
    if threading.active_count() == 1:
        sys.exit(code)
    from truespan.core.clock import end_process

    end_process(code)


def run(arguments: list[str]) -> int:
    """Run one command; every error becomes one clear line and a code, never a traceback."""
    from click.exceptions import Abort, ClickException

    from truespan.cli.app import ARGUMENTS, make_commands
    from truespan.cli.options import CHOSEN_WORLD

    ARGUMENTS.set(tuple(arguments))
    CHOSEN_WORLD.set(None)
    try:
        for place, argument in enumerate(arguments, start=1):
            # Bytes that are not UTF-8 can neither be stored nor searched for.
            if any("\ud800" <= character <= "\udfff" for character in argument):
                raise errors.InvalidArgument(
                    f"Argument {place} is not UTF-8.",
                    advice="Give names, paths and queries in UTF-8.",
                )
        code = make_commands()(arguments, standalone_mode=False, prog_name="truespan")
        # Here and not at the end of the process, which could only complain about a full disk.
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except ClickException as refusal:
        message, context = refusal.format_message().strip(), getattr(refusal, "ctx", None)
        command = context.command_path if context else "truespan"
        advice = f"See '{command} --help'."
        option = getattr(refusal, "option_name", None)
        if command == "truespan" and option in _COMMAND_OPTIONS:
            message = f"No such option {option!r}."
            advice = f"Give options after the command, as in 'truespan status --json'. {advice}"
        if context and "query" in context.params and "extra argument" in message:
            advice = f"A query of several words needs quotes. {advice}"
        if not message.endswith((".", "?", "?)")):
            message += "."
        return _report(errors.InvalidArgument(message, advice=advice), arguments)
    except (KeyboardInterrupt, Abort):
        return _report(errors.Interrupted(), arguments)
    except BrokenPipeError:
        # The reader of our output has gone, for instance `| head`. Nothing more can be printed.
        sys.stdout = None  # type: ignore[assignment]
        return 0
    except errors.TruespanError as error:
        return _report(error, arguments)
    except Exception as error:
        from truespan.settings import debugging

        if debugging():
            import traceback

            traceback.print_exception(error)
        return _report(
            errors.resource_error(error) or errors.InternalError(type(error).__name__), arguments
        )


def _report(error: errors.TruespanError, arguments: list[str]) -> int:
    from truespan.cli.app import complete
    from truespan.cli.terminal import echo, write_error
    from truespan.wire.serialize import problem, status_of, to_json

    error.advice = complete(error.advice)
    streaming = [option for option in arguments if option in ("--stream", "--no-stream")]
    if "--json" not in arguments:
        write_error(f"truespan: {error}\n")
    elif streaming[-1:] == ["--stream"]:
        import msgspec

        echo(msgspec.json.encode({"event": "error"} | problem(error)).decode())
    else:
        echo(to_json({"error": problem(error)}))
    return status_of(error).exit_code
