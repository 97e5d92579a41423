"""The sanitizer from the settings, with the profile and the key that they name."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from truespan.core.disk import create_once
from truespan.errors import InvalidConfiguration, resource_error
from truespan.extensions.checks.sanitize.findings import Mode, Style
from truespan.extensions.checks.sanitize.profile import Profile, parse_profile
from truespan.extensions.checks.sanitize.sanitizer import Sanitizer
from truespan.settings.catalogue import SanitizeSettings


def make_sanitizer(folder: Path, settings: SanitizeSettings, own_key: Path) -> Sanitizer:
    """Return the sanitizer with its key from `own_key`, which is generated if it is missing."""
    mode, style = Mode(settings.enabled), Style(settings.style)
    path, profile = settings.profile, Profile()
    if path:
        try:
            text = (folder / path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            refusal = InvalidConfiguration("The file named by sanitize_profile cannot be read.")
            raise resource_error(error) or refusal from None
        profile = parse_profile(text, Path(path).name)
    # Refused, because documents would be stored as if nothing were to be found in them.
    needed = ["stdnum", *(["phonenumbers"] if profile.finds_phones else [])]
    if missing := [name for name in needed if find_spec(name) is None]:
        advice = "Install Truespan with the extra 'sanitize'"
        if missing == ["phonenumbers"]:
            advice += ", or exclude PHONE in a file that sanitize_profile names"
        text = "Sanitising is on, and its packages are missing."
        raise InvalidConfiguration(text, advice=f"{advice}.")
    key = b""
    if mode is Mode.ON and style is Style.PSEUDONYM:
        try:
            if not own_key.exists():
                create_once(own_key, os.urandom(32).hex().encode())
            key = own_key.read_bytes().strip()
        except OSError as error:
            refusal = InvalidConfiguration(
                f"The key file {own_key.name} cannot be read or written."
            )
            raise resource_error(error) or refusal from None
    return Sanitizer(mode=mode, style=style, key=key, profile=profile)
