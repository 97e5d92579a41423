"""The chat model that a user connected: two marked blocks of `truespan.toml`, and a key file.

Settings are in a block at the beginning of the file, because settings after a table belong to the
table; the key has a block at the end. Other lines are never changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from truespan.core.disk import replace_file
from truespan.errors import InvalidConfiguration, resource_error
from truespan.settings import FILE_NAME, explain_settings, read_file, read_settings
from truespan.settings.catalogue import Settings
from truespan.types.token import Secret

KEY_FILE = "chat.key"
_BEGIN = "# Connected chat model; 'truespan models connect' writes these lines."
_END = "# End of the connected chat model."


def write_connection(
    folder: Path, values: Mapping[str, str | bool], key: Secret | None
) -> Settings:
    """Write the settings of a chat model and its key; return the new settings of the library.

    Raises:
        InvalidConfiguration: Other lines or variables set the chat model, or the files cannot be
            written.
    """
    own_lines = _own_lines(folder)
    for entry in explain_settings(folder, text=own_lines)[1]:
        if entry.name in values and entry.source != "default":
            raise InvalidConfiguration(
                f"The chat model is set already: {entry.name} in {entry.place}.",
                advice=f"Remove {entry.name} there, then connect the model again.",
            )
    text = _block([f"{name} = {_quote(value)}" for name, value in values.items()]) + own_lines
    if key is not None:
        models = f"models = [{_quote(values['chat_model'])}]"
        source = ['provider = "openai"', 'name = "connected-chat"', f'file = "{KEY_FILE}"']
        text += _block(["[[keys]]", *source, models])
    return _write(folder, text, key)


def remove_connection(folder: Path) -> Settings:
    """Remove the connected chat model and its key; return the new settings of the library."""
    return _write(folder, _own_lines(folder), None)


def _own_lines(folder: Path) -> str:
    """Return the lines of the settings file that are not in marked blocks."""
    own: list[str] = []
    block: list[str] = []
    text = read_file(folder)
    for line in text.removesuffix("\n").split("\n") if text else ():
        if line == _END and block:
            block.clear()
        elif line == _BEGIN or block:
            block.append(line)
        else:
            own.append(line)
    # A block without its end is not ours alone.
    return "".join(f"{line}\n" for line in own + block)


def _block(lines: Sequence[str]) -> str:
    return "\n".join([_BEGIN, *lines, _END, ""])


def _quote(value: str | bool) -> str:
    return json.dumps(value, ensure_ascii=False)


def _write(folder: Path, text: str, key: Secret | None) -> Settings:
    file, key_file = folder / FILE_NAME, folder / KEY_FILE
    try:
        if key is not None:
            replace_file(key_file, key.reveal().encode())
        # The text is valid before it replaces the file.
        explain_settings(folder, text=text)
        mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
        replace_file(file, text.encode(), mode)
        if key is None:
            key_file.unlink(missing_ok=True)
    except OSError as error:
        refusal = InvalidConfiguration(f"{FILE_NAME} cannot be written: {error.strerror}.")
        raise resource_error(error) or refusal from None
    return read_settings(folder)
