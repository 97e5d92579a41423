"""The texts of the page: one table for each language, and no text anywhere else."""

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

from truespan.errors import error_codes
from truespan.extensions.server.http.pages import page_files

PLACEHOLDER = re.compile(r"\{(\w+)\}")
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`')
LOOKS_LIKE_TEXT = re.compile(r"^[A-Z][a-z]+|[A-Za-z]{2,},? [a-z]{2,}")
NOT_SHOWN = re.compile(
    # Names of classes, selectors, paths of SVG and URLs, headers, keys, errors for developers.
    r"class(Name|List)?\b[^,;]*$|querySelector\w*\($|closest\($|matches\($|matchMedia\($|rel: $"
    r"|new Error\($|\.(key|name) [!=]== $|getRandomValues|case $"
)
NAMES = re.compile(
    r"[=<>{}\[\]#/\\^]|^(Truespan|Problem|Authorization|Bearer|Content-Type|Idempotency-Key|Accept"
    r"|(Abort|Not\w+)Error|Escape|Enter|Tab|Home|End|Page(Up|Down)|Arrow\w+|DejaVu.*)$"
)
SPOKEN = ("aria-label", "title", "placeholder", "alt")
WITHOUT_SCRIPT = {"title", "noscript", "kbd", "h1"}
"""What is shown before or without the script, names of keys, and the name of the program."""


def texts_in_script(source: str) -> list[str]:
    """Return the literals of a module that look like English, without names of styles."""
    styles = set(re.findall(r"\.([a-z][\w-]*)", css()))
    code = re.sub(r"(?m)^\s*(//|/\*\*|\*).*$|(?<=[\s;])// .*$", "", source)
    found: list[str] = []
    for line in code.splitlines():
        for match in LITERAL.finditer(line):
            text = match[1] if match[1] is not None else match[2]
            plain = re.sub(r"\$\{[^}]*\}", "", text).strip()
            known = NAMES.search(plain) or NOT_SHOWN.search(line[: match.start()])
            known = known or set(plain.split()) <= styles or line.startswith("import")
            if LOOKS_LIKE_TEXT.search(plain) and not known:
                found.append(text)
    return found


def css() -> str:
    """Return all stylesheets of the page."""
    return "".join(one.decode() for name, one in page_files().items() if name.endswith(".css"))


class Markup(HTMLParser):
    """Collects the texts of a page that are not named by `data-text`."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: list[str] = []
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [f"{tag} {name}" for name, value in attrs if name in SPOKEN and spoken(value)]
        if tag not in ("meta", "link", "input", "br", "img"):
            self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if spoken(data) and not WITHOUT_SCRIPT & set(self.inside):
            self.found.append(data.strip())


def spoken(text: str | None) -> bool:
    """Return whether a text has words of English; `ts_…` is the beginning of a token."""
    return bool(text and re.search(r"[A-Za-z]{2}", text.replace("ts_", "")))


def tables() -> dict[str, Any]:
    """Return the tables of texts by language."""
    names = (name for name in page_files() if name.startswith("texts/"))
    return {name[6:-5]: json.loads(page_files()[name]) for name in names}


def scripts() -> dict[str, str]:
    """Return the modules of the page by their path."""
    return {name: one.decode() for name, one in page_files().items() if name.endswith(".js")}


def entries(table: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each text of a table with its path; plural forms are one text."""
    for name, entry in table.items():
        if isinstance(entry, dict) and "other" not in entry:
            yield from entries(entry, f"{path}{name}.")
        else:
            yield path + name, entry


def placeholders(entry: Any) -> list[set[str]]:
    """Return the placeholders of each form of a text; a sentence without its number is allowed."""
    forms = entry.values() if isinstance(entry, dict) else [entry]
    found = [set(PLACEHOLDER.findall(str(form))) for form in forms]
    return [names | {"count"} for names in found] if isinstance(entry, dict) else found


def differences(table: Any, english: Any) -> list[str]:
    """Return the missing, extra and differing texts of a translation."""
    own, known = dict(entries(table)), dict(entries(english))
    found = [f"{name} is missing" for name in known if name not in own]
    found += [f"{name} is superfluous" for name in own if name not in known]
    for name in known.keys() & own.keys():
        if type(own[name]) is not type(known[name]) or bool(own[name]) != bool(known[name]):
            found.append(f"{name} is of another kind")
        elif {frozenset(one) for one in placeholders(own[name]) + placeholders(known[name])} != {
            frozenset(placeholders(known[name])[0])
        }:
            found.append(f"{name} has other placeholders")
    return sorted(found)


def calls(source: str) -> Iterator[tuple[str, set[str]]]:
    """Yield the path of each text that a module fills in, and the names of the values."""
    aliases = {
        "texts": "",
        **{
            name: f"{path}." for name, path in re.findall(r"const (\w+) = texts\.([\w.]+);", source)
        },
    }
    for match in re.finditer(r"\b(\w+)\.([\w.]+)\(\{ ", source):
        if match[1] in aliases:
            yield aliases[match[1]] + match[2], keys_of(source[match.end() :])


def keys_of(literal: str) -> set[str]:
    """Return the keys of an object literal whose opening brace is cut off."""
    depth, top = 1, ""
    for sign in literal:
        depth += (sign in "([{") - (sign in ")]}")
        if not depth:
            break
        top += sign if depth == 1 else ""
    return {part.split(":")[0].strip() for part in top.split(",")}


def test_texts_occur_only_in_the_tables() -> None:
    found = {name: texts_in_script(source) for name, source in scripts().items()}
    markup = Markup()
    markup.feed(page_files()["index.html"].decode())
    assert {name: texts for name, texts in found.items() if texts} == {}
    assert markup.found == []
    planted = (
        'make("p", { title: "Similar words" }, "Nothing found.", `all of ${n}`, "small quiet");'
    )
    assert texts_in_script(planted) == ["Similar words", "Nothing found.", "all of ${n}"]


def test_every_language_has_all_english_texts() -> None:
    found = {name: differences(table, tables()["en"]) for name, table in tables().items()}
    assert found == {"en": [], "de": []}
    offered = re.search(r"LANGUAGES = (\[.*\]);", scripts()["common/texts.js"])
    assert offered
    assert json.loads(offered[1]) == ["en", "de"]

    english = {"a": {"b": "{n} of {m}", "c": {"one": "{count} file", "other": "{count} files"}}}
    german = {"a": {"b": "{n} von {k}", "c": "Dateien", "d": "mehr"}}
    assert differences(german, english) == [
        "a.b has other placeholders", "a.c is of another kind", "a.d is superfluous",
    ]  # fmt: skip
    assert differences({"a": {}}, english) == ["a.b is missing", "a.c is missing"]


def test_modules_fill_in_the_placeholders_of_their_texts() -> None:
    known = dict(entries(tables()["en"]))
    wrong = [
        (module, path, names)
        for module, source in scripts().items()
        for path, names in calls(source)
        if path in known and names != placeholders(known[path])[0]
    ]

    assert wrong == []
    assert [*calls("t.range({ first, last: a(b, {c}) })")] == []
    planted = "const t = texts.library; t.range({ first, last: at(b, { c }), count: 3 })"
    assert [*calls(planted)] == [("library.range", {"first", "last", "count"})]


def test_every_text_is_used() -> None:
    source = "".join(scripts().values()) + page_files()["index.html"].decode()
    unused: list[str] = []
    for path, _ in entries(tables()["en"]):
        *above, name = path.split(".")
        # A table that is used as a whole is looked up by a code.
        whole = re.search(rf"\.{above[-1]}\b(?![\w.])", source) if len(above) > 1 else None
        if not whole and not re.search(rf"\.{name}\b", source):
            unused.append(path)
    assert unused == []


def test_every_named_text_and_translated_error_exists() -> None:
    named = re.findall(r'data-text[\w-]*="([\w.]+)"', page_files()["index.html"].decode())
    known = dict(entries(tables()["en"]))
    assert named
    assert [name for name in named if not isinstance(known.get(name), str)] == []
    codes = tables()["en"]["codes"]
    assert {*codes["problems"], *codes["sources"]} <= {*error_codes()}
