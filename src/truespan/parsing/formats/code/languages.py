"""Programming languages: their strings, comments and definitions.

All regular expressions are possessive: an unclosed string or comment ends with its line or file,
and nothing is searched twice.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_SLASHES = r"//[^\n]*+"
_STARS = r"/\*[^*]*+(?:\*(?!/)[^*]*+)*+(?:\*/)?"
_HASH = r"\#[^\n]*+"
_DASHES = r"--[^\n]*+"
_DOUBLE = r'"[^"\\\n]*+(?:\\(?:.|\n)[^"\\\n]*+)*+"?'
_SINGLE = r"'[^'\\\n]*+(?:\\(?:.|\n)[^'\\\n]*+)*+'?"
_CHARACTER = r"'(?:\\[^'\n]{1,10}|[^'\\\n])'"
_BACKTICK = r"`[^`\\]*+(?:\\(?:.|\n)[^`\\]*+)*+`?"
_TRIPLE = r'"""[^"\\]*+(?:(?:\\(?:.|\n)|"(?!""))[^"\\]*+)*+(?:""")?'
_TRIPLE_SINGLE = r"'''[^'\\]*+(?:(?:\\(?:.|\n)|'(?!''))[^'\\]*+)*+(?:''')?"
_HERE_DOCUMENT = (
    r"<<[-~]?[\"']?(?P<here>[A-Z_][A-Z_0-9]++)[\"']?[^\n]*+(?:\n|\Z)"
    r"(?:(?![ \t]*+(?P=here)[ \t]*+;?(?:\n|\Z))(?:\n|[^\n]++(?:\n|\Z)))*+"
)
_DIRECTIVE = r"(?m:^)[ \t]*+\#[^\\\n]*+(?:\\(?:.|\n)[^\\\n]*+)*+"
_RAW_OF_CPP = r'R"(?P<raw>[^()\\\s]{0,16})\([^)]*+(?:\)(?!(?P=raw)")[^)]*+)*+(?:\)(?P=raw)")?'
_RAW_OF_CSHARP = r'\$?@\$?"[^"]*+(?:""[^"]*+)*+"?'
_RAW_OF_RUST = r'\br(?P<raw>\#{0,8})"[^"]*+(?:"(?!(?P=raw))[^"]*+)*+"?'
_RAW_OF_LUA = r"(?:--)?\[(?P<raw>={0,9})\[[^\]]*+(?:\](?!(?P=raw)\])[^\]]*+)*+(?:\](?P=raw)\])?"
_RAW_OF_SQL = r"\$(?P<raw>\w{0,20})\$[^$]*+(?:\$(?!(?P=raw)\$)[^$]*+)*+(?:\$(?P=raw)\$)?"
_PATTERN = (
    r"(?P<lead>[=(,:;!&|?]\s{0,9})/(?![/*])"
    r"(?:[^/\\\n[]{1,80}+|\\.|\[(?:[^\]\\\n]|\\.){0,40}+\]){1,30}+/[a-z]*+"
)
"""A regular expression between slashes, and the sign before it, which does count."""


class Language(NamedTuple):
    """Rules of a language; sections are found by `definition` and indentation, or by brackets."""

    skipped: re.Pattern[str] | None
    """Comments, strings and other text whose brackets do not count."""
    definition: re.Pattern[str] | None = None
    """The beginning of a line that defines something, with its name as the first group that
    matches."""
    flat: bool = False
    """Whether a definition ends only at the next definition."""
    ends_statements: bool = True
    """Whether statements end with a semicolon, so that the lines before a name belong to it."""
    needs_keyword: bool = False
    """Whether a keyword precedes each function name."""
    is_c: bool = False


def _by_brackets(
    *skipped: str, ends_statements: bool = True, needs_keyword: bool = False, is_c: bool = False
) -> Language:
    pattern = re.compile("|".join(skipped))
    return Language(
        skipped=pattern,
        definition=None,
        flat=False,
        ends_statements=ends_statements,
        needs_keyword=needs_keyword,
        is_c=is_c,
    )


def _by_indentation(definition: str, *skipped: str, flat: bool = False) -> Language:
    pattern = re.compile("|".join(skipped)) if skipped else None
    return Language(pattern, re.compile(definition), flat)


def _pod(first: str, last: str) -> str:
    return rf"(?m:^)={first}[^\n]*+(?:\n(?!={last})[^\n]*+)*+(?:\n={last})?"


_PYTHON = _by_indentation(
    r"[ \t]*(?:(?:async\s+)?def|class|cdef\s+class|cpdef)\s+(\w+)",
    _HASH, _TRIPLE, _TRIPLE_SINGLE, _DOUBLE, _SINGLE,
)  # fmt: skip
_RUBY = _by_indentation(
    r"[ \t]*(?:def|class|module)\s+([\w.:]+[?!=]?)",
    _pod("begin", "end"), _HASH, _HERE_DOCUMENT, _DOUBLE, _SINGLE,
)  # fmt: skip
_ELIXIR = _by_indentation(r"[ \t]*def(?:p|module|macrop?)?\s+([\w.?!]+)", _HASH, _TRIPLE, _DOUBLE)
_JULIA = _by_indentation(
    r"[ \t]*(?:function|module|(?:mutable\s+)?struct|macro)\s+([\w.!]+)", _HASH, _TRIPLE, _DOUBLE
)
_LUA = _by_indentation(
    r"[ \t]*(?:local\s+)?(?:function\s+([\w.:]+)|([\w.:]+)\s*=\s*function\b)",
    _RAW_OF_LUA, _DASHES, _DOUBLE, _SINGLE,
)  # fmt: skip
_SHELL = _by_indentation(
    r"[ \t]*+(?:function\s++([\w:.-]+)|([\w:.-]+)[ \t]*+\([ \t]*+\))"
    r"[ \t]*+(?:\(\))?\s*+(?:[{(]|$)",
    _HERE_DOCUMENT, r"(?<![^\s;(])\#[^\n]*+", _DOUBLE, r"'[^'\n]*+'?",
)  # fmt: skip
_SQL = _by_indentation(
    r"(?i)[ \t]*(?:create|alter)\s+(?:\w+\s+){0,4}?"
    r"(?:table|view|function|procedure|trigger|index|type|schema|package)\s+"
    r"(?:(?:body|concurrently|if\s+not\s+exists|if\s+exists)\s+){0,2}([\w.\"`\[\]]+)",
    _DASHES, _STARS, _RAW_OF_SQL, r"'[^']*+(?:''[^']*+)*+'?",
)  # fmt: skip
_INI = _by_indentation(
    r"\[++[ \t]*+([^\[\]\s](?:[^\[\]\n]*[^\[\]\s])?)[ \t]*+\]++[ \t]*+(?:[;#].*)?$", flat=True
)
_YAML = _by_indentation(r"([\w./-]+)[ \t]*:(?=\s|$)", r"(?:(?<=\s)|(?m:^))\#[^\n]*+", flat=True)

_C = _by_brackets(
    _DIRECTIVE, _SLASHES, _STARS, _RAW_OF_CPP, _DOUBLE, _CHARACTER, is_c=True
)  # fmt: skip
_JAVA = _by_brackets(_SLASHES, _STARS, _TRIPLE, _DOUBLE, _CHARACTER)
_CSHARP = _by_brackets(_DIRECTIVE, _SLASHES, _STARS, _TRIPLE, _RAW_OF_CSHARP, _DOUBLE, _CHARACTER)
_DART = _by_brackets(_SLASHES, _STARS, _TRIPLE, _TRIPLE_SINGLE, _DOUBLE, _SINGLE)
_SCRIPT = _by_brackets(
    _SLASHES, _STARS, _PATTERN, _DOUBLE, _SINGLE, _BACKTICK, ends_statements=False
)
_KOTLIN = _by_brackets(
    *(_SLASHES, _STARS, _TRIPLE, _DOUBLE, _CHARACTER), ends_statements=False, needs_keyword=True
)
_GO = _by_brackets(
    *(_SLASHES, _STARS, _DOUBLE, _CHARACTER, _BACKTICK), ends_statements=False, needs_keyword=True
)
_RUST = _by_brackets(_SLASHES, _STARS, _RAW_OF_RUST, _DOUBLE, _CHARACTER, needs_keyword=True)
_PHP = _by_brackets(
    *(_SLASHES, _STARS, _HERE_DOCUMENT, r"\#(?!\[)[^\n]*+", _DOUBLE, _SINGLE), needs_keyword=True
)
_PERL = _by_brackets(
    *(_pod("[a-z]", "cut"), r"(?<![$&])\#[^\n]*+", _HERE_DOCUMENT, _DOUBLE, _SINGLE),
    needs_keyword=True,
)
_R = _by_brackets(*(_HASH, _DOUBLE, _SINGLE, _BACKTICK), ends_statements=False, needs_keyword=True)
_POWERSHELL = _by_brackets(
    *(r"<\#[^#]*+(?:\#(?!>)[^#]*+)*+(?:\#>)?", _HASH, _DOUBLE, _SINGLE),
    ends_statements=False, needs_keyword=True,
)  # fmt: skip

PLAIN = Language(None, re.compile(r"(?!)"))
"""Lines without any structure."""

LANGUAGES = {
    **dict.fromkeys(("py", "pyi", "pyw", "pyx", "gd", "nim", "coffee"), _PYTHON),
    **dict.fromkeys(("c", "h", "cc", "cpp", "cxx", "hh", "hpp", "hxx", "ino", "cu"), _C),
    **dict.fromkeys(("java", "groovy", "gradle", "proto", "sol"), _JAVA),
    **dict.fromkeys(("js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx"), _SCRIPT),
    **dict.fromkeys(("kt", "kts", "swift", "scala"), _KOTLIN),
    **dict.fromkeys(("go", "zig"), _GO),
    **dict.fromkeys(("rb", "rake", "cr"), _RUBY),
    **dict.fromkeys(("pl", "pm"), _PERL),
    **dict.fromkeys(("ex", "exs"), _ELIXIR),
    **dict.fromkeys(("sh", "bash", "zsh"), _SHELL),
    **dict.fromkeys(("ps1", "psm1"), _POWERSHELL),
    **dict.fromkeys(("ini", "cfg", "conf", "toml", "properties"), _INI),
    **dict.fromkeys(("yaml", "yml"), _YAML),
    "cs": _CSHARP,
    "rs": _RUST,
    "php": _PHP,
    "dart": _DART,
    "r": _R,
    "jl": _JULIA,
    "lua": _LUA,
    "sql": _SQL,
}
"""By the endings of their files, which are also listed in `detect`."""
