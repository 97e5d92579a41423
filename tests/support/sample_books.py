"""Fictional books with every kind of sentence that was ever cut wrongly, in two forms.

Every sentence carries a canary, a word that occurs only there, so that a test that finds it in an
answer knows which sentence it came from. Repeated sentences share theirs: a repeated sentence
counts as read. A book is a function of its seed, so that a finding can be named by a number.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

CANARY = re.compile("zq[0-9]+x", re.IGNORECASE)

WORDS = [
    "harbour", "garden", "lamp", "key", "boat", "night", "clock", "wood", "lake", "town", "hill",
    "stone", "letter", "river", "window", "the", "of", "and", "a", "slowly", "never", "under",
]  # fmt: skip
_CJK = "港湾の灯は夜通し燃えていた庭師薔薇切列車遅れ時計止手紙川窓"
_ARABIC = ["كان", "الليل", "طويلا", "والمصباح", "مضيئا", "فوق", "الميناء", "القديم", "قرب", "النهر"]
_HEBREW = ["הלילה", "היה", "ארוך", "והפנס", "דלק", "מעל", "הנמל", "הישן", "ליד", "הנהר"]
_NUMBERS = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII")
_LONG = 5000

FORMS = ("md", "txt")


@dataclass
class Writer:
    """Writes paragraphs in one form; `canary` numbers the sentences from where it is set."""

    rng: Random
    form: str
    canary: int = 0
    chapter: int = 0
    longest: int = _LONG
    _echoes: list[str] = field(default_factory=list)

    def paragraphs(self, count: int) -> list[str]:
        """Return blocks of text, headings among them, as they stand in the source."""
        return [self._paragraph() for _ in range(count)]

    def sentence(self) -> str:
        """Return one sentence of any kind that needs no structure around it."""
        return self.rng.choices(_SENTENCES, _SENTENCE_WEIGHTS)[0](self)

    def heading(self) -> str:
        """Return the heading of a chapter, a section or, in Markdown, of anything."""
        return self._markdown_heading() if self.form == "md" else self._text_heading()

    def _paragraph(self) -> str:
        return self.rng.choices(_PARAGRAPHS, _PARAGRAPH_WEIGHTS)[0](self)

    # Sentences

    def _name(self) -> str:
        self.canary += 1
        return f"Zq{self.canary:05}x"

    def _words(self, least: int, most: int) -> str:
        return " ".join(self.rng.choices(WORDS, k=self.rng.randint(least, most)))

    def _plain(self) -> str:
        return f"The {self._words(1, 5)} {self._name()} {self._words(2, 9)}{self._end()}"

    def _end(self) -> str:
        return self.rng.choice([".", ".", ".", ".", "!", "?", "...", "…", "."])

    def _one_word(self) -> str:
        return self._name() + self._end()

    def _spoken(self) -> str:
        said = self.rng.choice(
            ["“{0} {1}!” said he.", '"{0} {1}," she said.', "‘{0}? {1}’", "— {0} {1}."]
        )
        return said.format(self._words(1, 4).capitalize(), self._name())

    def _abbreviated(self) -> str:
        return (
            f"Mr. {self._name()} met Dr. {self._words(1, 1)} at 3.15 p.m. on Jan. 4th, i.e. in St. "
            f"{self._words(1, 1)}, vol. 2, p. {self.rng.randint(1, 99)}."
        )

    def _long(self) -> str:
        length = self.rng.choice([400, 1200, self.longest])
        half = " ".join(self.rng.choices(WORDS, k=length // 12))
        middle = self.rng.choice([", ", "; ", " ", ": "])
        return f"The {half}{middle}{self._name()} {half}."

    def _solid(self) -> str:
        """Return a word that cannot be cut."""
        return f"{self._name()}{'ab' * self.rng.choice([20, 300, 700])}."

    def _echo(self) -> str:
        if not self._echoes or self.rng.random() < 0.2:
            self._echoes.append(self._plain())
        return self.rng.choice(self._echoes)

    def _east_asian(self) -> str:
        signs = "".join(self.rng.choices(_CJK, k=self.rng.randint(3, 60)))
        return f"{signs}{self._name()}{signs[:3]}{self.rng.choice('。！？')}"

    def _right_to_left(self) -> str:
        words = self.rng.choice([_ARABIC, _HEBREW])
        drawn = " ".join(self.rng.choices(words, k=self.rng.randint(2, 8)))
        return f"{drawn} {self._name()} {drawn.split()[0]}{self.rng.choice(['.', '؟', '.'])}"

    # Paragraphs

    def _prose(self) -> str:
        count = self.rng.randint(1, 7)
        between = self.rng.choices([" ", "\n", "  "], [8, 2, 1], k=count)
        written = (self.sentence() + space for space in between)
        return "".join(written).strip()

    def _dialogue(self) -> str:
        return "\n\n".join(self._spoken() for _ in range(self.rng.randint(2, 5)))

    def _list(self) -> str:
        marks = self.rng.choice([("- ",) * 4, ("1. ", "2. ", "3. ", "4. ")])
        return "\n".join(f"{mark}{self._plain()}" for mark in marks[: self.rng.randint(1, 4)])

    def _code(self) -> str:
        lines = [f"if {self._name()} == {place}:" for place in range(self.rng.randint(1, 4))]
        body = "\n    pass\n".join(lines)
        return f"```\n{body}\n```" if self.form == "md" else f"    {body}"

    def _quote(self) -> str:
        return f"> {self._plain()}" if self.form == "md" else f"{self._plain()}\n{self._plain()}"

    def _table(self) -> str:
        if self.form == "txt":
            return f"{self._name()}\t{self._words(1, 2)}\n{self._name()}\t{self._words(1, 2)}"
        return f"| {self._name()} | b |\n|---|---|\n| {self._name()} | {self._words(1, 2)} |"

    def _contents(self) -> str:
        if self.form == "md":
            return f"- {self._name()}\n- {self._name()}"
        return f"CONTENTS\n\nChapter 1. {self._name()}\n\nChapter 2. {self._name()}"

    def contents(self) -> str:
        """Return a list of chapters for the beginning of a book, with names that occur nowhere."""
        if self.form == "md":
            count = self.rng.randint(1, 9)
            return "## Contents\n\n" + "\n".join(f"- {self._name()}" for _ in range(count)) + "\n\n"
        names = (f"Chapter {number}. {self._name()}" for number in range(1, 13))
        return "\n\n".join(["CONTENTS", *names]) + "\n\n\n\n\n"

    # Headings

    def _markdown_heading(self) -> str:
        self.chapter += 1
        title = f"{self._words(1, 3).title()} {self._name()}"
        if self.rng.random() < 0.1:
            return f"{title}\n{self.rng.choice(['===', '---'])}"
        level = self.rng.choices([1, 2, 3, 4], [2, 6, 3, 1])[0]
        return f"{'#' * level} {title}"

    def _text_heading(self) -> str:
        self.chapter += 1
        numeral = _NUMBERS[(self.chapter - 1) % len(_NUMBERS)]
        title = f"The {self._words(1, 2).title()} {self._name()}"
        return self.rng.choice(
            [
                f"CHAPTER {numeral}",
                f"Chapter {self.chapter}. {title}",
                f"CHAPTER {numeral}\n\n{title}",
                f"PART {numeral}\n\nCHAPTER I",
                f"{numeral}",
                f"EPILOGUE: {title}",
                f"\n\nLetter {self.chapter}",
            ]
        )


_SENTENCES: Sequence[Callable[[Writer], str]] = (
    Writer._plain, Writer._one_word, Writer._spoken, Writer._abbreviated, Writer._echo,
    Writer._east_asian, Writer._right_to_left, Writer._long, Writer._solid,
)  # fmt: skip
_SENTENCE_WEIGHTS = (40, 8, 8, 6, 10, 6, 6, 2, 1)
_PARAGRAPHS: Sequence[Callable[[Writer], str]] = (
    Writer._prose, Writer.heading, Writer._dialogue, Writer._list, Writer._code, Writer._quote,
    Writer._table, Writer._contents,
)  # fmt: skip
_PARAGRAPH_WEIGHTS = (60, 16, 6, 6, 3, 4, 2, 1)


def joined(paragraphs: Iterable[str]) -> str:
    return "\n\n".join(paragraphs) + "\n"


def book(seed: int, form: str, paragraphs: int = 30) -> str:
    return joined(Writer(Random(seed), form).paragraphs(paragraphs))


def plain_book(sentences: int, chapter: int = 25) -> str:
    """Return a Markdown book of one canary a sentence: sentence n holds the canary n, headings too.

    Its sentences share words, so that every one of them is close to a query about any other.
    """
    rng = Random(sentences)
    parts: list[str] = []
    for sid in range(sentences):
        words = " ".join(rng.choices(WORDS[:14], k=4))
        if sid % chapter == 0:
            parts.append(f"\n\n## Chapter {words.title()} {canary(sid)}\n\n")
        else:
            parts.append(f"The {words} {canary(sid)} was seen by the harbour. ")
    return "".join(parts).strip() + "\n"


def canary(number: int) -> str:
    """Return the canary that a plain book gives to a sentence."""
    return f"zq{number:05}x"


def canaries(text: str) -> set[str]:
    return {found.lower() for found in CANARY.findall(text)}


def first_seen(sentences: Sequence[str]) -> dict[str, int]:
    seen: dict[str, int] = {}
    for sid, sentence in enumerate(sentences):
        for found in canaries(sentence):
            seen.setdefault(found, sid)
    return seen
