"""Commands about the program itself: its settings, and shell completion."""

from typing import Annotated

from typer import Argument, Option

import truespan.cli.app as cli
from truespan.cli.terminal import echo
from truespan.cli.written_files import new_file
from truespan.errors import InvalidArgument, LibraryNotFound, resource_error
from truespan.wire.serialize import to_json

SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_TRUESPAN_COMPLETE"


def config(
    name: Annotated[
        str | None, Argument(help="Show only this setting, with its meaning.", metavar="SETTING")
    ] = None,
    library: cli.Folder = None,
    changed: Annotated[
        bool, Option("--changed", help="Show only settings that differ from their default.")
    ] = False,
    write: Annotated[
        bool, Option("--write", help="Write a commented truespan.toml into the library's folder.")
    ] = False,
    as_json: cli.Json = False,
) -> None:
    """Show every setting, its value and where it comes from. Passwords and keys are not shown."""
    from truespan.cli.output.results import show_setting, show_settings
    from truespan.settings import FILE_NAME, explain_settings, settings_file
    from truespan.settings.tables import convert_setting

    folder = cli.folder_of(library)
    file = folder / FILE_NAME
    if write:
        if not folder.is_dir():
            raise LibraryNotFound(str(folder))
        with new_file(file) as output:
            output.write(settings_file().encode())
        echo(to_json({"written": str(file)}) if as_json else f"Wrote {file}.")
        return
    settings, explained = explain_settings(folder)
    if name is not None:
        wanted = name.removeprefix("TRUESPAN_").lower()
        explained = [entry for entry in explained if entry.name == wanted]
        if not explained:
            # It says which setting was probably meant.
            convert_setting(wanted, None, "this command")
    elif changed:
        explained = [entry for entry in explained if entry.source != "default"]
    keys = [{"provider": key.provider, "name": key.name} for key in settings.keys]
    if as_json:
        result = {"library": str(folder), "file": str(file) if file.exists() else None}
        echo(to_json(result | {"settings": explained, "keys": keys}))
    elif name is not None:
        echo(show_setting(explained[0]))
    else:
        from_file = str(file) if file.exists() else f"{file} (not there)"
        echo(show_settings(from_file, explained, keys))


def completion(
    shell: Annotated[str, Argument(help="bash, zsh or fish.", metavar="SHELL")],
    install: Annotated[
        bool, Option("--install", help="Add it to the start-up files of the shell.")
    ] = False,
) -> None:
    """Print the script that completes commands in a shell, or install it."""
    from typer import completion as typer_completion

    if shell not in SHELLS:
        raise InvalidArgument(
            f"There is no completion for the shell {shell!r}.",
            advice=f"Name one of: {', '.join(SHELLS)}.",
        )
    if not install:
        make = typer_completion.get_completion_script  # pyright: ignore[reportPrivateImportUsage]
        echo(make(prog_name="truespan", complete_var=_VARIABLE, shell=shell))
        return
    try:
        install_script = typer_completion.install  # pyright: ignore[reportPrivateImportUsage]
        _, path = install_script(shell, "truespan", _VARIABLE)
    except OSError as error:
        refusal = InvalidArgument(
            f"The completion for {shell} cannot be installed: {error.strerror}.",
            advice=f"Print it with 'truespan completion {shell}' and install it yourself.",
        )
        raise resource_error(error) or refusal from None
    echo(f"Installed completion for {shell} in {path}. Open a new terminal to use it.")
