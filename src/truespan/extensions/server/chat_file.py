"""The chat model that a user connected: a file of settings, and a file with its key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from truespan.core.disk import replace_file
from truespan.errors import InvalidConfiguration, resource_error
from truespan.settings import CHAT_FILE, explain_settings, read_settings
from truespan.settings.catalogue import Settings
from truespan.types.token import Secret

KEY_FILE = "chat.key"
_HEAD = "# The connected chat model; 'truespan models connect' writes this file."


def write_connection(
    folder: Path, values: Mapping[str, str | bool], key: Secret | None
) -> Settings:
    """Write the settings of a chat model and its key; return the new settings of the library."""
    for entry in explain_settings(folder)[1]:
        if entry.name in values and entry.place and not entry.place.startswith(CHAT_FILE):
            raise InvalidConfiguration(
                f"The chat model is set already: {entry.name} in {entry.place}.",
                advice=f"Remove {entry.name} there, then connect the model again.",
            )
    lines = [_HEAD, *(f"{name} = {_quote(value)}" for name, value in values.items())]
    try:
        if key is not None:
            replace_file(folder / KEY_FILE, key.reveal().encode())
            source = ['provider = "openai"', 'name = "connected-chat"', f'file = "{KEY_FILE}"']
            lines += ["[[keys]]", *source, f"models = [{_quote(values['chat_model'])}]"]
        replace_file(folder / CHAT_FILE, "".join(f"{line}\n" for line in lines).encode())
        if key is None:
            (folder / KEY_FILE).unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(error) from None
    return read_settings(folder)


def remove_connection(folder: Path) -> Settings:
    """Remove the connected chat model and its key; return the new settings of the library."""
    try:
        for name in (CHAT_FILE, KEY_FILE):
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(error) from None
    return read_settings(folder)


def _quote(value: str | bool) -> str:
    return json.dumps(value, ensure_ascii=False)


def _unwritable(error: OSError) -> Exception:
    refusal = InvalidConfiguration(f"{CHAT_FILE} cannot be written: {error.strerror}.")
    return resource_error(error) or refusal
