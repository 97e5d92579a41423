"""Every English text of the page is in `common/texts.js`, so that the page can be translated."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from truespan.http.pages import page_files

TEXTS = "common/texts.js"
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
    """Return the literals of a module that look like English; names of styles are none."""
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
    """Say whether a text has words of English; `ts_…` is how a token begins."""
    return bool(text and re.search(r"[A-Za-z]{2}", text.replace("ts_", "")))


def test_english_texts_are_in_one_file() -> None:
    scripts = {
        name: texts_in_script(content.decode())
        for name, content in page_files().items()
        if name.endswith(".js") and name != TEXTS
    }
    markup = Markup()
    markup.feed(page_files()["index.html"].decode())

    assert {name: found for name, found in scripts.items() if found} == {}
    assert markup.found == []


def test_texts_elsewhere_are_found() -> None:
    planted = (
        'make("p", { title: "Similar words" }, "Nothing found.", `all of ${n}`, "small quiet");'
    )

    assert texts_in_script(planted) == ["Similar words", "Nothing found.", "all of ${n}"]


def test_every_text_that_the_markup_names_exists() -> None:
    named = re.findall(r'data-text[\w-]*="(\w+)\.(\w+)"', page_files()["index.html"].decode())
    texts = page_files()[TEXTS].decode()
    sections = dict(re.findall(r"(?ms)^  (\w+): \{\n(.*?)^  \},", texts))

    assert named
    assert [
        f"{section}.{name}" for section, name in named if f"    {name}:" not in sections[section]
    ] == []
