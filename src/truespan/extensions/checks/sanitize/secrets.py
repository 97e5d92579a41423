"""API keys, tokens, private keys and passwords.

Known prefixes are searched as plain strings, which is fast; a pattern runs only on a text that
contains its prefix. Each pattern matches a whole run of key characters and cannot begin inside a
run, so the time is linear.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from truespan.extensions.checks.sanitize.findings import (
    API_KEY,
    HIDDEN,
    PASSWORD,
    Finding,
    find_words,
    group_words,
    text_before,
    to_lower,
)
from truespan.extensions.checks.sanitize.numbers import looks_random

_MAX_LENGTH = 2000
_RUN, _ALNUM = "[0-9A-Za-z_-]", "[0-9A-Za-z]"
_SLACK_HOOK = re.compile("(?<=hooks.slack.com/services/)[0-9A-Za-z/]{20,120}(?![0-9A-Za-z/])")


def _compile(body: str, edge: str = _RUN) -> re.Pattern[str]:
    return re.compile(rf"(?<!{edge})(?:{body})(?!{edge})")


_Keys = tuple[tuple[str, str, re.Pattern[str]], ...]

_PREFIX_KEYS: _Keys = (
    ("sk", "sk-", _compile(rf"sk-{_RUN}{{20,{_MAX_LENGTH}}}")),
    ("aws", "AKIA ASIA", _compile("A[KS]IA[0-9A-Z]{16}")),
    ("github", "ghp_ gho_ ghu_ ghs_ ghr_", _compile("gh[pousr]_[0-9A-Za-z]{36,255}", _ALNUM)),
    ("github", "github_pat_", _compile("github_pat_[0-9A-Za-z_]{22,255}", _ALNUM)),
    ("gitlab", "glpat-", _compile(rf"glpat-{_RUN}{{20,300}}")),
    ("slack", "xox", _compile("xox[abceoprs]-[0-9][0-9A-Za-z-]{9,300}")),
    ("slack", "xapp-", _compile("xapp-[0-9A-Za-z-]{20,300}")),
    ("google", "AIza", _compile(rf"AIza{_RUN}{{35}}")),
    ("google", "ya29.", _compile(rf"ya29\.{_RUN}{{20,{_MAX_LENGTH}}}")),
    ("google", "GOCSPX-", _compile(rf"GOCSPX-{_RUN}{{28}}")),
    ("stripe", "whsec_", _compile("whsec_[0-9A-Za-z]{24,255}")),
    ("twilio", "SK", _compile("SK[0-9a-f]{32}")),
    ("sendgrid", "SG.", _compile(rf"SG\.{_RUN}{{16,64}}\.{_RUN}{{16,128}}")),
    ("npm", "npm_", _compile("npm_[0-9A-Za-z]{36}")),
    ("pypi", "pypi-", _compile(rf"pypi-{_RUN}{{50,{_MAX_LENGTH}}}")),
    ("huggingface", "hf_", _compile("hf_[0-9A-Za-z]{30,64}")),
    ("shopify", "shp", _compile("shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{32}")),
    ("mailgun", "key-", _compile("key-[0-9a-f]{32}")),
    ("databricks", "dapi", _compile("dapi[0-9a-f]{32}(?:-[0-9])?")),
    ("groq", "gsk_", _compile("gsk_[0-9A-Za-z]{40,80}")),
    ("xai", "xai-", _compile("xai-[0-9A-Za-z]{40,100}")),
    ("replicate", "r8_", _compile("r8_[0-9A-Za-z]{32,64}")),
    ("age", "AGE-SECRET-KEY-1", _compile("AGE-SECRET-KEY-1[0-9A-Z]{58}")),
    ("jwt", "eyJ", _compile(rf"eyJ{_RUN}{{8,4000}}\.eyJ{_RUN}{{8,8000}}\.{_RUN}{{0,2000}}")),
)
"""The service, the prefixes of its keys, and their pattern."""
_BY_PREFIX = {
    beginning: (rule, pattern)
    for rule, beginnings, pattern in _PREFIX_KEYS
    for beginning in beginnings.split()
}
_BY_PART = group_words(_BY_PREFIX, ("_", "-"))

_OTHER_KEYS: _Keys = (
    ("stripe", "_live_ _test_", _compile("[spr]k_(?:live|test)_[0-9A-Za-z]{16,255}")),
    ("digitalocean", "_v1_", _compile("do[opr]_v1_[0-9a-f]{64}")),
    ("telegram", ":AA", _compile(rf"[0-9]{{8,10}}:AA{_RUN}{{33}}")),
    ("slack", "hooks.slack.com/services/", _SLACK_HOOK),
)
"""The service, strings that its keys contain, and their pattern."""

_WORDS = ("key", "token", "secret", "credential", "authorization", "bearer")
_OF_A_KEY = re.compile(
    r"(?:api|app|access|account|auth|client|encryption|hmac|license|master|secret|service|shared|"
    r"signing|subscription|webhook)(?:[ _-]?secret)?[ _-]?$",
    re.IGNORECASE,
)
_VALUE = r"([0-9A-Za-z_+/.~-]{16,512}={0,2})(?![0-9A-Za-z_+/~@(\[-])"
_ASSIGNED = re.compile(
    r"[0-9A-Za-z_]{0,16}[\"'`\])]{0,2}[ \t]{0,4}(?::=|=>|[:=])[ \t]{0,4}[\"'`]?"
    rf"(?:(?:bearer|basic|token) )?{_VALUE}",
    re.IGNORECASE,
)
_BEARER_VALUE = re.compile(rf"[ \t]{{1,4}}{_VALUE}")


def scan_api_keys(view: str) -> Iterator[Finding]:
    """Yield the API keys of a text, which may overlap."""
    for at, beginning in find_words(view, _BY_PART):
        rule, pattern = _BY_PREFIX[beginning]
        found = pattern.match(view, at)
        if found and (rule != "sk" or _has_random_part(found[0])):
            yield Finding(*found.span(), API_KEY, f"api_key.{rule}")
    for rule, needles, pattern in _OTHER_KEYS:
        if any(needle in view for needle in needles.split()):
            for found in pattern.finditer(view):
                yield Finding(*found.span(), API_KEY, f"api_key.{rule}")
    if "PRIVATE KEY" in view:
        yield from _private_keys(view)
    for at, word in find_words(to_lower(view), {"": _WORDS}):
        if word == "key" and not _OF_A_KEY.search(text_before(view, at, 24)):
            continue  # Many keys are not API keys.
        found = (_BEARER_VALUE if word == "bearer" else _ASSIGNED).match(view, at + len(word))
        if found and looks_random(found[1]):
            yield Finding(*found.span(1), API_KEY, "api_key.assigned")


def _has_random_part(key: str) -> bool:
    """Return whether a part of a key is long and random; other names begin with `sk-` too."""
    longest = max(re.split("[-_]", key), key=len)
    return len(longest) >= 16 and any(map(str.isdigit, longest)) and looks_random(longest)


_PEM_LENGTH = 20_000
_PEM_BEGIN = re.compile("-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile("-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_LINE = re.compile(r"[0-9A-Za-z+/=]{16,80}[ \t]{0,4}\n")
_MAX_PEM_LINES = 400


def _private_keys(view: str) -> Iterator[Finding]:
    """Yield private keys. A key that ends in another block extends to the end of this block."""
    done = 0
    for begin in _PEM_BEGIN.finditer(view):
        if begin.start() < done:
            continue
        limit = min(begin.start() + _PEM_LENGTH, len(view))
        hidden = view.find(HIDDEN, begin.end(), limit)
        limit = hidden if hidden >= 0 else limit
        end = _PEM_END.search(view, begin.end(), limit)
        done = end.end() if end else limit
        yield Finding(begin.start(), done, API_KEY, "api_key.private_key")
    for end in _PEM_END.finditer(view, done):
        first = max(end.start() - _PEM_LENGTH, done)
        done = end.end()
        start = _first_key_line(view, first, end.start())
        if start < end.start():
            yield Finding(start, end.end(), API_KEY, "api_key.private_key")


def _first_key_line(view: str, first: int, end: int) -> int:
    """Return the start of the lines of a key that end at `end`; `end` if there are none."""
    start = end
    for _ in range(_MAX_PEM_LINES):
        before = max(view.rfind("\n", first, max(start - 1, first)) + 1, first)
        if not _PEM_LINE.fullmatch(view, before, start):
            break
        start = before
    return start


_WORDS_BEFORE = (
    "password|passwd|passphrase|passcode|passwort|kennwort|pwd|mot de passe|contraseña|contrasena"
    "|senha|wachtwoord|lösenord|passord|adgangskode|salasana|hasło|heslo|jelszó|parola|şifre|пароль"
    "|κωδικός|密码|密碼|パスワード|비밀번호|pass="
)
_PASSWORD_WORDS = _WORDS_BEFORE.split("|")
_PASSWORD_WORDS_BY_PART = group_words(_PASSWORD_WORDS, ("pass", "w"))
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
"""Code or a placeholder instead of a password: a call, a variable, a blank."""
_WORDS_AFTER = (
    "required optional string str text none null nil undefined true false yes no see the your this "
    "that must should may can not and for with from only mandatory empty blank hidden redacted "
    "changed expired reset forgotten invalid incorrect wrong varchar char bool int any unknown "
    "enter type input please expected who what how when you are was"
)
_NO_PASSWORDS = frozenset([*_PASSWORD_WORDS, *_WORDS_AFTER.split()])
_URL_USER = re.compile(rf"[^\s/@:?#{HIDDEN}]{{0,128}}:([^\s/@{HIDDEN}]{{1,256}})@")


def scan_passwords(view: str) -> Iterator[Finding]:
    """Yield the passwords of a text, which may overlap."""
    for at, word in find_words(to_lower(view), _PASSWORD_WORDS_BY_PART):
        if span := _value_after(view, at, at + len(word)):
            yield Finding(*span, PASSWORD, "password.assigned")
    for at, _ in find_words(view, {"": ("://",)}):
        found = _URL_USER.match(view, at + 3)
        if found and not _CODE.fullmatch(found[1]):
            yield Finding(*found.span(1), PASSWORD, "password.url")


def _value_after(view: str, at: int, end: int) -> tuple[int, int] | None:
    if assigns := _ASSIGNS.match(view, end):
        return _value(view, assigns.end())
    if _OPTION.search(text_before(view, at, 16)):
        option = _ARGUMENT.match(view, end)
        return _value(view, option.end()) if option else None
    if element := _ELEMENT.match(view, end):
        return element.span(1)
    stated = _STATED.match(view, end)
    return _value(view, stated.end(), stated=True) if stated else None


def _value(view: str, start: int, *, stated: bool = False) -> tuple[int, int] | None:
    """Return the span of the value at `start`; None if it is not a password.

    In a sentence, only quoted text and values that cannot be words are passwords.
    """
    if quoted := _QUOTED.match(view, start):
        place = next(group for group in range(1, 7) if quoted[group] is not None)
        value, span = quoted[place], quoted.span(place)
    elif bare := _BARE.match(view, start):
        field = _NEXT_FIELD.search(bare[0])
        value = (bare[0][: field.start()] if field else bare[0]).rstrip(".,;:)]}")
        span = (start, start + len(value))
        is_word = len(value) < 6 or not any(c.isdigit() or c in "!#$%&*@^_~+=" for c in value)
        if len(value) < 3 or (stated and is_word):
            return None
    else:
        return None
    plain = value.strip().casefold()
    return None if plain in _NO_PASSWORDS or _CODE.fullmatch(value.strip()) else span
