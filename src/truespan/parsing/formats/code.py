"""Source code: functions and classes as sections, with line numbers as places.

One regular expression without backtracking blanks strings and comments, so that brackets in them do
not count. The extent of a function or class is found by brackets, or by indentation in languages
without them. A misread definition loses a label, never a line.

A section begins on the line that completes the head of its function or class: the line of the
opening bracket, or of the name in languages with indentation. Comments, annotations and the first
lines of a longer head have the section before, because only later text shows what they belong to. A
line of closing brackets has the section of the line above.

All regular expressions of languages are possessive: an unclosed string or comment ends with its
line or file, and nothing is searched twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct, field

from truespan.parsing.detect import require_text
from truespan.text.clean import clean
from truespan.text.sentences import MAX_LINE_LENGTH
from truespan.types.text import Block, BlockKind, Loaded, PageStart

_OTHER_LINE_ENDS = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""Line separators that editors do not count."""
_MAX_LEVELS = 12
_MAX_HEAD_LENGTH = 2000
_MAX_NAME_LENGTH = 200
_MAX_OPEN = 100
"""Maximum number of open brackets compared with the indentation of a closing bracket."""

_NAME = r"[A-Za-z_$][\w$]*+"
_TYPE = re.compile(
    r"\b(?:class|interface|struct|enum|trait|union|object|record|protocol|extension|actor|module"
    r"|mod|mixin|contract|type)\s+(?!(?:class|struct|extends|implements|of)\b)"
    rf"(?P<name>{_NAME}(?:\.{_NAME})*+)"
)
_TRANSPARENT = re.compile(r"\b(?:(?:namespace|package)(?:\s+[\w.:\\]+)?|extern)\s*\Z")
_IMPLEMENTATION = re.compile(r"\bimpl\s+(?:[^\s]{1,200}\s+for\s+)?&?(?P<name>[\w:]+)")
_KEYWORD_FUNCTION = re.compile(
    r"\b(?:function(?:\s*\*)?|func|fn|fun|def|sub|macro_rules!)\s++"
    r"(?:\(\s*+(?:\w++\s++)?(?:\*\s*+)?(?P<owner>\w+)(?:\[[^\]]{0,200}\])?\s*\)\s*|<[^>]{0,200}>\s*)?"
    rf"(?:{_NAME}<[^>]{{0,200}}>\.)?(?P<name>{_NAME}(?:[.:]{_NAME})*+|`[^`]{{1,100}}`)"
)
_INITIALISER = re.compile(r"\b(?P<name>init|deinit|constructor)[?!]?\s*\(")
_ASSIGNED = re.compile(
    # Anchored at the start of a name; otherwise a long name would be tried at each letter.
    rf"(?<![\w$])(?<![\w$]\.)(?P<name>{_NAME}(?:\.{_NAME})*+)\s*(?::[^=()]{{0,200}})?(?:[:=]|<-)"
    r"\s*(?:async\s+)?"
    rf"(?:function\b|\\\(|\(\)|{_NAME}\s*=>)"
)
_BEFORE_BRACKET = re.compile(
    rf"(?<![\w$])(?<![\w$]::)(?<![\w$]::~)(?P<name>~?{_NAME}(?:::~?{_NAME})*+)\s*\("
)
_METHOD = re.compile(
    rf"(?<![\w$])(?P<name>\#?{_NAME})\s*+(?:<[^<>]{{0,200}}>\s*+)?\(\)\s*+(?::[^=]{{0,200}})?\Z"
)
_CONTROL = frozenset(
    """if for while switch catch with return sizeof synchronized using lock fixed else do try
    foreach when match unless until elseif elsif guard defer select go new throw typeof await case
    throws function operator delete super""".split()  # noqa: SIM905 -- a list of quoted words is no list of words
)
_ATTRIBUTES = frozenset({"__attribute__", "__declspec", "alignas", "decltype", "noexcept"})
_INSTANCE = re.compile(r"\b(?:new|return|throw|else|await|yield)\s+$")
_PARENTHESES = re.compile(r"\([^()]*\)")
_ANGLES = re.compile(r"<[^<>]*>")
_CONTAINER = re.compile(r"\s*+(?:cdef\s+)?(?:class|module|defmodule|(?:mutable\s+)?struct)\b")
_CLOSING = re.compile(r"[\s)}\];,]*+(?:(?:end|endif|fi|done|esac)\b[\s)};,]*+)?")


class _Section(NamedTuple):
    """A function or class, and its first and last line from 0."""

    name: str
    first: int
    last: int
    level: int


def load_code_file(name: str, data: bytes) -> Loaded:
    """Parse a file of source code or configuration, or raise `SourceNotText`."""
    return load_code(name, require_text(name, data))


def load_code(name: str, text: str) -> Loaded:
    """Parse source code or a configuration file; functions and classes are sections."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = clean(_OTHER_LINE_ENDS.sub(" ", text))
    language = LANGUAGES.get(name.rpartition(".")[2].lower(), PLAIN)
    source = _Source(text, language)
    sections = source.by_indentation() if language.definition else source.by_brackets()
    labels: list[str | None] = [None] * len(source.lines)
    for section in sorted(sections, key=lambda section: section.level):
        first = section.first
        if len(source.lines[first].rstrip()) > MAX_LINE_LENGTH:
            # The line is several sentences, and the head may end in the last one.
            first += 1
        labels[first : section.last + 1] = [section.name] * (section.last + 1 - first)
    return Loaded(tuple(_to_blocks(name, source.lines, labels)))


def _to_blocks(name: str, lines: list[str], labels: list[str | None]) -> Iterator[Block]:
    """Yield a block for each run of lines with the same label, without blank lines around it."""
    runs: list[tuple[str | None, list[int]]] = []
    for number, line in enumerate(lines):
        if not line or line.isspace():
            continue
        if runs and (runs[-1][0] == labels[number] or _CLOSING.fullmatch(line)):
            runs[-1][1].append(number)
        else:
            runs.append((labels[number], [number]))
    for label, numbers in runs:
        first, offset = numbers[0], 0
        shown = {*numbers}
        marks: list[PageStart] = []
        for number in range(first, numbers[-1] + 1):
            if number in shown:
                marks.append(PageStart(offset, number + 1, "line"))
            offset += len(lines[number]) + 1
        text = "\n".join(lines[first : numbers[-1] + 1])
        yield Block(BlockKind.CODE, text, name, label, pages=tuple(marks))


class _Open(NamedTuple):
    """An open bracket, with the indentation of its head and its line.

    `path` is the innermost class or function around the following text.
    """

    indents: tuple[int, int]
    path: str = ""
    level: int = 0
    first: int | None = None
    """First line of the section that the bracket begins; None if it begins none."""
    is_function: bool = False
    at: int = 0
    head: int = 0
    rounds: int = 0


class _Indented(NamedTuple):
    """A function or class whose lines are indented more than `indent`."""

    indent: int
    first: int
    path: str
    is_function: bool = False


class _Source(Struct):
    """Source code, and the same with comments and strings blanked."""

    text: str
    language: Language
    lines: list[str] = field(default_factory=list)
    _code: str = ""
    _code_lines: list[str] = field(default_factory=list)
    _indents: list[int] = field(default_factory=list)
    """Indentation of each line; -1 for a line without code."""

    def __post_init__(self) -> None:
        self.lines = self.text.split("\n")
        skipped = self.language.skipped
        self._code = skipped.sub(_blank, self.text) if skipped else self.text
        self._code_lines = self._code.split("\n")
        self._indents = [_indent(line) for line in self._code_lines]

    def by_indentation(self) -> Iterator[_Section]:
        """Yield definitions; all lines with a larger indentation belong to a definition."""
        assert self.language.definition is not None
        match, flat = self.language.definition.match, self.language.flat
        open_sections: list[_Indented] = []
        depth = 0
        for number, line in enumerate([*self._code_lines, "end"]):
            indent = self._indents[number] if number < len(self.lines) else 0
            if indent < 0:
                continue
            found = match(line)
            is_end = number == len(self.lines)
            if found or is_end or (depth <= 0 and not flat):
                depth = 0
                while open_sections and indent <= open_sections[-1].indent:
                    section = open_sections.pop()
                    yield _Section(section.path, section.first, number - 1, len(open_sections))
                outer = open_sections[-1] if open_sections else _Indented(-1, 0, "")
                # A nested function is part of the outer function.
                if found and len(open_sections) < _MAX_LEVELS and not outer.is_function:
                    name = next(filter(None, found.groups()))[:_MAX_NAME_LENGTH]
                    path = f"{outer.path}.{name}" if outer.path else name
                    is_function = _CONTAINER.match(line) is None
                    open_sections.append(_Indented(indent, number, path, is_function))
            depth += sum(map(line.count, "([{")) - sum(map(line.count, ")]}"))

    def by_brackets(self) -> Iterator[_Section]:
        """Yield definitions whose name precedes an opening bracket, up to the closing bracket."""
        stack: list[_Open] = []
        head, number, line_start, rounds = 0, 0, 0, 0
        for found in re.finditer(r"[{}();\n]", self._code):
            sign, at = found[0], found.start()
            if sign == "\n":
                number, line_start = number + 1, at + 1
            elif sign in "()":
                rounds = max(rounds + (1 if sign == "(" else -1), 0)
            elif sign == ";":
                head = at + 1
            elif sign == "{":
                outer = stack[-1] if stack else _Open((0, 0))
                stack.append(self._open(outer, head, at, number, rounds))
                head, rounds = at + 1, 0
            elif stack:
                count = 1
                if at - line_start == self._indents[number]:
                    # If the indentation matches an outer bracket, the inner ones were not closed.
                    for back, each in enumerate(reversed(stack[-_MAX_OPEN:]), 1):
                        if at - line_start in each.indents:
                            count = back
                            break
                opened, closed = stack[-count], stack[-count:]
                del stack[-count:]
                for each in closed:
                    if each.first is not None:
                        yield _Section(each.path, each.first, number, each.level)
                rounds = opened.rounds
                is_argument = rounds and at - opened.at < _MAX_HEAD_LENGTH // 2
                if is_argument and self._code.find(";", opened.at, at) < 0:
                    # The head continues: the brackets are a default value or a pattern.
                    head = opened.head
                else:
                    head = at + 1
        for opened in stack:
            if opened.first is not None:
                yield _Section(opened.path, opened.first, number, opened.level)

    def _open(self, outer: _Open, head: int, at: int, number: int, rounds: int) -> _Open:
        """Return the bracket at an offset of a line; the text of its head begins at `head`.

        `rounds` is the number of round brackets opened since the previous bracket.
        """
        indent = self._indents[number]
        before = max(head, at - _MAX_HEAD_LENGTH)
        text = self._code[before:at]
        begins = self._indents[number - text.lstrip().count("\n")]
        anonymous = outer._replace(
            indents=(begins, indent), first=None, at=at, head=head, rounds=rounds
        )
        # A nested function is part of the outer function.
        if outer.is_function or outer.level >= _MAX_LEVELS:
            return anonymous
        found = _find_name(text, self.language, in_call=rounds > 0)
        if found is None:
            return anonymous
        path = f"{outer.path}.{found.name}" if outer.path else found.name
        return anonymous._replace(
            path=path[:_MAX_NAME_LENGTH],
            level=outer.level + 1,
            first=number,
            is_function=found.is_function,
        )


class _Found(NamedTuple):
    name: str
    is_function: bool


def _find_name(head: str, language: Language, *, in_call: bool) -> _Found | None:
    """Return the definition in the text before an opening bracket; None if there is none.

    With `in_call` the bracket is inside the arguments of a call or the parameters of a function.
    """
    if not head or head.isspace() or _TRANSPARENT.search(head[-300:]):
        return None
    flat = head
    for _ in range(3):
        flat = _PARENTHESES.sub(lambda group: "()" + " " * (len(group[0]) - 2), flat)
    if found := _KEYWORD_FUNCTION.search(head):
        owner = found["owner"]
        name = f"{owner}.{found['name']}" if owner else found["name"]
        is_open = head.count("(", found.end()) > head.count(")", found.end())
        return None if is_open else _Found(name.strip("`"), True)
    if in_call:
        return None
    if "impl" in head:
        bare = head
        for _ in range(3):
            bare = _ANGLES.sub(lambda group: " " * len(group[0]), bare)
        if found := _IMPLEMENTATION.search(bare):
            return _Found(found["name"].rpartition(":")[2], False)
    if found := _TYPE.search(flat):
        # In C a function may return a struct, and a variable may be one.
        rest = flat[found.end() :]
        if not language.is_c or not ("(" in rest or "=" in rest):
            return _Found(found["name"], False)
    if found := _INITIALISER.search(head):
        return _Found(found["name"], True)
    if not language.ends_statements:
        found = _ASSIGNED.search(flat)
        if not found and not language.needs_keyword:
            found = _METHOD.search(flat)
        is_name = found is not None and found["name"] not in _CONTROL
        return _Found(found["name"], True) if found and is_name else None
    if language.needs_keyword:
        return None
    for found in _BEFORE_BRACKET.finditer(flat):
        if found["name"] in _ATTRIBUTES:
            continue
        before = flat[: found.start()]
        if found["name"] in _CONTROL or "=" in before or _INSTANCE.search(before[-20:]):
            return None
        return _Found(found["name"], True)
    return None


def _indent(line: str) -> int:
    """Return the indentation of a line; -1 for a blank line."""
    text = line.lstrip()
    return len(line) - len(text) if text else -1


def _blank(found: re.Match[str]) -> str:
    text = found[0]
    lead = found.groupdict().get("lead") or ""
    rest = text[len(lead) :]
    if "\n" not in rest:
        return lead + " " * len(rest)
    return lead + "\n".join(" " * len(line) for line in rest.split("\n"))


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
