"""Every regular expression takes linear time."""

import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import translate
from pathlib import Path

import truespan
from tests.support.regex_growth import Expression, find_expressions, find_slow_input

ROOT = Path(truespan.__file__).parent

GLOBS = ("*a*a*a*b", "**/*?x", "[!a]*[ab]*")


def _said_by_providers() -> Iterator[str]:
    from truespan.providers import chat, http, ollama, openai

    for module in (http, chat, ollama, openai):
        names = ("_NO_SUCH_MODEL", "_BATCH_TOO_LARGE", "_TEXT_TOO_LONG", "_PERMANENT")
        for name in (*names, "_NO_TEMPERATURE", "_CANNOT_CHAT", "_WITHHELD", "_NOT_FINITE"):
            if isinstance(pattern := getattr(module, name, None), str):
                yield pattern


def _keys() -> Iterator[str]:
    from truespan.extensions.checks.sanitize import secrets

    for value in vars(secrets).values():
        if isinstance(value, tuple):
            yield from (
                part.pattern
                for entry in value
                if isinstance(entry, tuple)
                for part in entry
                if isinstance(part, re.Pattern)
            )


def _words() -> Iterator[str]:
    from truespan.words import terms

    yield terms._pattern().pattern


BUILT: dict[str, Callable[[], Iterable[str]]] = {
    "answers/quotes.py:_nested": lambda: ["[“”]"],
    "answers/reply.py:_skip_reasoning": lambda: [r"(?i)</think\s*>"],
    "ingest/manifest.py:_name_test": lambda: map(translate, GLOBS),
    "parsing/formats/ooxml.py:_split": lambda: ["[;,]", ";"],
    "providers/http.py:says": _said_by_providers,
    "types/audience.py:_compile": lambda: [r"\A(?:.*/)?hr/[^/]*\.md"],
    "words/terms.py:_pattern": _words,
    "extensions/checks/sanitize/findings.py:hide_markers": lambda: [
        r"\[(?:EMAIL|PHONE)(?::[0-9a-f]{10})?\]"
    ],
    "extensions/checks/sanitize/numbers.py:_is_valid": lambda: [r"(?<!\w)steuer"],
    "extensions/checks/sanitize/numbers.py:_iban_pattern": lambda: [
        r"(?:[ \n-]?[0-9A-Za-z]){22}(?![0-9A-Za-z])"
    ],
    "extensions/checks/sanitize/profile.py:compile_pattern": lambda: ["[A-Z]{2}[0-9]{6}"],
    "extensions/checks/sanitize/secrets.py:_compile": _keys,
    "store/integrity/erasure.py:_names_pattern": lambda: [r"(?<![\w-])(?:a\.txt|b)(?![\w-])"],
    "types/catalog.py:from_source": lambda: map(translate, GLOBS),
}
"""Patterns that are put together when they are needed. Those of an operator are checked when they
are read: see `compile_pattern`."""

PASSED_ON = {
    "ingest/manifest.py:_name_test": frozenset({"match"}),
    "words/terms.py:_pattern": frozenset({"finditer"}),
    "types/catalog.py:from_source": frozenset({"match"}),
}

BOUNDED = {
    "answers/reply.py:_UNDECIDED": "is searched for in 40 characters",
    "parsing/formats/pdf/paragraphs.py:_BROKEN": "is searched for in 100 characters",
    "extensions/formats/sheets/number_format.py:_TOKEN": "a code has at most 255 characters",
}
"""Expressions that grow faster, on input of a small fixed length."""


def test_expression_is_linear_in_its_input() -> None:
    found = list(find_expressions(ROOT, BUILT, PASSED_ON))
    different = {(one.pattern, one.flags, one.methods): one for one in found}
    slow = {
        f"{one.place} (line {one.line})": result
        for one in different.values()
        if one.place not in BOUNDED and (result := find_slow_input(one)) is not None
    }
    assert slow == {}
    assert len(found) > 400
    assert {*BUILT, *PASSED_ON, *BOUNDED} - {one.place for one in found} == set()


def test_growth_check_finds_known_cases() -> None:
    cases = {
        r"\s*(\*\*|__)[^*_]+\1\s*:?\s*": "fullmatch", r"(?:<!--.*?-->\s*)*<html": "match",
        r"<!--.*?-->": "search", r"(?:a|aa)+$": "match", r"[ \t]*[\r\n]\s*": "sub",
        r"\S+@\S+\.\S+": "fullmatch", r"(\w+\s?)*:": "match",
    }  # fmt: skip
    missed = [
        pattern
        for pattern, method in cases.items()
        if find_slow_input(Expression("", 0, pattern, re.DOTALL, frozenset({method}))) is None
    ]

    assert missed == []
    linear = {
        r"\s*+(\*\*|__)[^*_]++\1\s*+:?\s*+": "fullmatch",
        r"(?<![ \t])[ \t]*+[\r\n]\s*+": "sub",
    }
    for pattern, method in linear.items():
        assert find_slow_input(Expression("", 0, pattern, 0, frozenset({method}))) is None
