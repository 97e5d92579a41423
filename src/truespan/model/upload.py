"""Files that are handed over instead of being named where they lie."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import BinaryIO

from truespan.errors import InvalidSettings

MAX_NAME_BYTES = 255
_JOINERS = "\u200c\u200d"
"""Cannot be printed by themselves; names in some scripts are not spelled right without them."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A file with the name that its owner gave it. The content is read once, from where it stands.

    Within a world the name is the identity: another upload of the same name is a new revision.
    """

    name: str
    content: bytes | PurePath | BinaryIO


def checked_name(name: object) -> str:
    """Return a name in its one spelling.

    Raises:
        InvalidSettings: it is empty, too long, has parts of a path, or cannot be printed in a line.
    """
    if not isinstance(name, str):
        raise InvalidSettings("The name of an upload must be text.")
    spelled = unicodedata.normalize("NFC", name)
    if not spelled.strip(" .") or spelled != spelled.strip():
        raise InvalidSettings(
            "The name of an upload must not be blank or only dots, nor have blanks around it."
        )
    if "/" in spelled or "\\" in spelled:
        raise InvalidSettings("The name of an upload is that of a file, without any folder.")
    if not all(char.isprintable() or char in _JOINERS for char in spelled):
        raise InvalidSettings("The name of an upload has characters that cannot be printed.")
    if len(spelled.encode()) > MAX_NAME_BYTES:
        raise InvalidSettings(f"The name of an upload has more than {MAX_NAME_BYTES} bytes.")
    return spelled


def checked_uploads(uploads: Sequence[Upload]) -> tuple[Upload, ...]:
    """Return uploads with their names in one spelling.

    Raises:
        InvalidSettings: there are none, a name is wrong, or two of them are the same.
    """
    checked = tuple(Upload(checked_name(one.name), one.content) for one in uploads)
    if not checked:
        raise InvalidSettings("There is no file to be taken in.")
    if len({one.name for one in checked}) < len(checked):
        raise InvalidSettings(
            "Two files have the same name.", advice="The name tells documents apart: rename one."
        )
    return checked
