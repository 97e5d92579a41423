"""The command line: the library's twin, for people (rich text) and for scripts (`--json`)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from truespan.errors import (
    InternalError,
    Interrupted,
    InvalidSettings,
    TruespanError,
    resource_error,
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with the code of the table in `truespan.serialize`."""
    sys.exit(run(list(sys.argv[1:] if arguments is None else arguments) or ["--help"]))


def run(arguments: list[str]) -> int:
    """Run one command; every error becomes one clear line and a code, never a traceback."""
    from typer.exceptions import Abort, Exit, TyperException

    try:
        for place, argument in enumerate(arguments, start=1):
            # Bytes that are not UTF-8 can neither be stored nor searched for.
            if any("\ud800" <= character <= "\udfff" for character in argument):
                raise InvalidSettings(
                    f"Argument {place} is not UTF-8.",
                    advice="Give names, paths and queries in UTF-8.",
                )
        code = make_commands()(arguments, standalone_mode=False, prog_name="truespan")
        # Here and not at the end of the process, which could only complain about a full disk.
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except Exit as exit:
        return exit.exit_code
    except TyperException as refusal:
        explain = getattr(refusal, "format_message", None)
        message = (explain() if explain else str(refusal)).strip().rstrip(".")
        return _report(InvalidSettings(f"{message}.", advice="See 'truespan --help'."), arguments)
    except (KeyboardInterrupt, Abort):
        return _report(Interrupted(), arguments)
    except BrokenPipeError:
        # The reader of our output has gone, for instance `| head`. Nothing more can be printed.
        sys.stdout = None  # type: ignore[assignment]
        return 0
    except TruespanError as error:
        return _report(error, arguments)
    except Exception as error:
        from truespan.settings import debugging

        if debugging():
            import traceback

            traceback.print_exception(error)
        return _report(resource_error(error) or InternalError(type(error).__name__), arguments)


@cache
def make_commands() -> Callable[..., Any]:
    """Make the commands from their functions, once: that is most of what a small one costs."""
    from typer.main import get_command

    from truespan.cli import documents, generations, maintenance, questions, serve
    from truespan.cli.app import app

    # In the order of the help.
    for command in (
        documents.init,
        questions.search,
        documents.show,
        documents.status,
        documents.defaults,
        serve.mcp,
        questions.ask,
        questions.usage,
        questions.explain,
        maintenance.backup,
        maintenance.restore,
        maintenance.delete,
        maintenance.doctor,
        maintenance.repair,
        generations.evaluate,
        generations.calibrate,
        generations.generations,
        generations.reindex,
        generations.promote,
        generations.rollback,
        generations.remove_generation,
        generations.domains,
        documents.ingest,
        maintenance.migrate,
        maintenance.prepare_store,
        questions.retrieve,
        serve.serve,
        serve.worker,
    ):
        app.command()(command)
    app.add_typer(generations.golden_app)
    app.add_typer(documents.jobs_app)
    app.add_typer(questions.reader_app)
    app.add_typer(questions.read_app)
    app.add_typer(serve.token_app)
    return get_command(app)


def _report(error: TruespanError, arguments: list[str]) -> int:
    """Print an error and return its exit code."""
    from truespan.serialize import problem, status_of, to_json

    streaming = [option for option in arguments if option in ("--stream", "--no-stream")]
    if "--json" not in arguments:
        sys.stderr.write(f"truespan: {error}\n")
    elif streaming[-1:] == ["--stream"]:
        import msgspec

        line = msgspec.json.encode({"event": "error"} | problem(error)).decode()
        sys.stdout.write(f"{line}\n")
    else:
        sys.stdout.write(to_json({"error": problem(error)}) + "\n")
    return status_of(error).exit_code
