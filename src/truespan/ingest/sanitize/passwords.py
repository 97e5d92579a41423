"""Passwords: what stands after a word for one, and between the user and the host of a URL."""

from __future__ import annotations

import re
from collections.abc import Iterator

from truespan.ingest.sanitize.audit import PASSWORD, Finding
from truespan.ingest.sanitize.fold import HIDDEN, before, by_part, lowered, places

_WORDS = (
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "passwort",
    "kennwort",
    "pwd",
    "mot de passe",
    "contraseña",
    "contrasena",
    "senha",
    "wachtwoord",
    "lösenord",
    "passord",
    "adgangskode",
    "salasana",
    "hasło",
    "heslo",
    "jelszó",
    "parola",
    "şifre",
    "пароль",
    "κωδικός",
    "密码",
    "密碼",
    "パスワード",
    "비밀번호",
    "pass=",
)
_BY_PART = by_part(_WORDS, ("pass", "w"))
_ASSIGNS = re.compile(
    r"(?:(?<==)|[0-9A-Za-z_]{0,16}[\"'`\])]{0,2}[ \t]{0,4}(?::=|=>|[:=]))[ \t]{0,4}"
)
_OPTION = re.compile(r"(?<![0-9A-Za-z_-])--[0-9A-Za-z_-]{0,12}$")
_ARGUMENT = re.compile(r"[ \t]{1,4}(?!-)")
_ELEMENT = re.compile(rf">([^<>\s{HIDDEN}]{{1,128}})</")
_STATED = re.compile(r"[ \t]{1,2}(?:is|was|ist|lautet|war|est|es|è|é|:)[ \t]{1,2}", re.IGNORECASE)
_QUOTED = re.compile(
    rf"\"([^\"\n{HIDDEN}]{{1,128}})\"|'([^'\n{HIDDEN}]{{1,128}})'|`([^`\n{HIDDEN}]{{1,128}})`"
    rf"|“([^”\n{HIDDEN}]{{1,128}})”|„([^“”\n{HIDDEN}]{{1,128}})[“”]|«([^»\n{HIDDEN}]{{1,128}})»"
)
_BARE = re.compile(rf"[^\s\"'`<>{HIDDEN}]{{3,256}}")
_NEXT_FIELD = re.compile(r"[&;,|](?=[A-Za-z_][0-9A-Za-z_ ]{0,30}=)")
_NAME = "[A-Za-z_][0-9A-Za-z_]{0,64}"
_CODE = re.compile(
    rf"{_NAME}(?:\.{_NAME}){{0,8}}[(\[].{{0,256}}|[A-Za-z_]{{1,64}}(?:\.[A-Za-z_]{{1,64}}){{1,8}}"
    rf"|\$\{{?{_NAME}\}}?|\$\(.{{0,256}}|%[({{]?[A-Za-z_]{{0,64}}[)}}]?s?|\{{\{{?.{{0,256}}"
    r"|<.{0,256}|[-*x.•_#?…=/\\]{1,256}",
    re.IGNORECASE,
)
"""What a program would have in place of a password: a call, a variable, a blank."""
_WORDS_AFTER = (
    "required optional string str text none null nil undefined true false yes no see the your this "
    "that must should may can not and for with from only mandatory empty blank hidden redacted "
    "changed expired reset forgotten invalid incorrect wrong varchar char bool int any unknown "
    "enter type input please expected who what how when you are was"
)
_NO_PASSWORDS = frozenset([*_WORDS, *_WORDS_AFTER.split()])


def scan_passwords(view: str) -> Iterator[Finding]:
    """Give the passwords of a text, overlapping ones too."""
    for at, word in places(lowered(view), _BY_PART):
        if span := _value_after(view, at, at + len(word)):
            yield Finding(*span, PASSWORD, "password.assigned")
    yield from _in_urls(view)


def _value_after(view: str, at: int, end: int) -> tuple[int, int] | None:
    if assigns := _ASSIGNS.match(view, end):
        return _value(view, assigns.end())
    if _OPTION.search(before(view, at, 16)):
        option = _ARGUMENT.match(view, end)
        return _value(view, option.end()) if option else None
    if element := _ELEMENT.match(view, end):
        return element.span(1)
    stated = _STATED.match(view, end)
    return _value(view, stated.end(), stated=True) if stated else None


def _value(view: str, start: int, *, stated: bool = False) -> tuple[int, int] | None:
    """Return where the value is that begins at `start`; None when it is no password.

    In a sentence only what cannot be a word is taken for one, or what stands in quotes.
    """
    if quoted := _QUOTED.match(view, start):
        place = next(group for group in range(1, 7) if quoted[group] is not None)
        value, span = quoted[place], quoted.span(place)
    elif bare := _BARE.match(view, start):
        field = _NEXT_FIELD.search(bare[0])
        value = (bare[0][: field.start()] if field else bare[0]).rstrip(".,;:)]}")
        span = (start, start + len(value))
        if len(value) < 3 or (stated and not _is_no_word(value)):
            return None
    else:
        return None
    plain = value.strip().casefold()
    return None if plain in _NO_PASSWORDS or _CODE.fullmatch(value.strip()) else span


def _is_no_word(value: str) -> bool:
    return len(value) >= 6 and any(char.isdigit() or char in "!#$%&*@^_~+=" for char in value)


# URLs

_USER = re.compile(rf"[^\s/@:?#{HIDDEN}]{{0,128}}:([^\s/@{HIDDEN}]{{1,256}})@")


def _in_urls(view: str) -> Iterator[Finding]:
    for at, _ in places(view, {"": ("://",)}):
        found = _USER.match(view, at + 3)
        if found and not _CODE.fullmatch(found[1]):
            yield Finding(*found.span(1), PASSWORD, "password.url")
