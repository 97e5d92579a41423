"""Contents lists: tables of contents, and lists of plates, figures or maps.

A contents list names text that follows it, so it is hidden from readers. It is recognised by its
heading and by the form of its entries. Whether an entry is a heading later in the text must not
matter, since that would reveal unread text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from unicodedata import normalize

from msgspec import Struct, field

from truespan.text.headings import Heading, Rank, is_prose, is_title_like, parse_heading
from truespan.types.text import BlockKind

# fmt: off
_CHAPTER_LISTS = (
    "contents", "table of contents", "the contents", "list of contents", "detailed contents",
    "brief contents", "contents in brief", "list of chapters", "table of chapters",
    "inhalt", "inhaltsverzeichnis", "inhaltsübersicht", "verzeichnis der kapitel",
    "table des matières", "table des matieres", "table des chapitres", "sommaire",
    "índice", "índice general", "contenido", "contenidos", "tabla de contenido",
    "tabla de contenidos", "tabla de materias", "conteúdo", "sumário", "índice geral",
    "indice", "indice generale", "sommario", "indice dei capitoli",
    "inhoud", "inhoudsopgave", "innehåll", "innehållsförteckning", "indhold",
    "indholdsfortegnelse", "innhold", "innholdsfortegnelse", "efnisyfirlit", "sisällys",
    "sisällysluettelo", "sisukord", "saturs", "satura rādītājs", "turinys", "spis treści", "obsah",
    "tartalom", "tartalomjegyzék", "cuprins", "sadržaj", "kazalo", "vsebina", "përmbajtja",
    "índex", "taula de continguts", "aurkibidea", "cynnwys", "clár", "clár ábhair", "enhavo",
    "içindekiler", "mündəricat", "daftar isi", "isi kandungan", "kandungan", "mục lục",
    "yaliyomo", "inhoudsopgawe",
    "содержание", "оглавление", "зміст", "змест", "съдържание", "садржај", "содржина", "мазмұны",
    "мундарижа", "агуулга", "περιεχόμενα", "πίνακας περιεχομένων", "բովանդակություն", "სარჩევი",
    "תוכן", "תוכן העניינים", "תוכן עניינים", "المحتويات", "الفهرس", "فهرس", "جدول المحتويات",
    "فهرست", "فهرست مطالب", "فہرست", "विषय सूची", "विषय-सूची", "अनुक्रमणिका", "सूचीपत्र", "সূচিপত্র",
    "பொருளடக்கம்", "విషయ సూచిక", "สารบัญ", "មាតិកា", "目录", "目錄", "目次", "もくじ", "차례", "목차",
)
_PICTURE_LISTS = (
    "illustrations", "plates", "list of illustrations", "list of plates", "list of figures",
    "list of maps", "list of tables", "list of pictures", "list of engravings",
    "list of maps and illustrations", "list of full-page illustrations", "table of figures",
    "abbildungen", "abbildungsverzeichnis", "tabellenverzeichnis", "verzeichnis der abbildungen",
    "verzeichnis der tafeln", "liste des illustrations", "liste des figures", "liste des planches",
    "table des illustrations", "table des figures", "table des gravures", "table des planches",
    "índice de ilustraciones", "índice de figuras", "índice de láminas", "lista de figuras",
    "lista de ilustraciones", "lista de ilustrações", "indice delle illustrazioni",
    "indice delle figure", "elenco delle illustrazioni", "elenco delle figure",
    "lijst van afbeeldingen", "lijst van illustraties", "lijst der platen", "spis ilustracji",
    "seznam obrázků", "список иллюстраций", "список ілюстрацій",
)
# fmt: on
_VOLUME = re.compile(
    r"(?:table of )?contents (?:of|to|for) (?:the |this )?(?:\w+ )?(?:volume|book|part)(?: \w+)?"
)
_DECORATION = " \t_*=~#|[](){}<>.:-–—•·"
_MAX_ANNOUNCEMENT_LENGTH = 60
_MAX_LINE_LENGTH, _MAX_UNCASED_LENGTH = 160, 30
_MAX_LISTED = 0.8
"""Minimum share of entries among the lines of a paragraph that counts as a list."""
_MIN_LINES = 3
_LINKED_SHARE = 4
"""Minimum number of letters in links for each letter outside of them."""
_WIDE_GAP = 3
"""Number of blank lines that separate a list from the following text."""
_LONG, _LONG_LINE = 240, 60

# Both match from the start of a run; otherwise a long run would be tried at each character.
_LEADER = re.compile(
    r"(?<![.·•_…‥])(?<![.·•_…‥]\s)(?:[.·•_…‥]\s?+){3,}+\s*+(?:[0-9]{1,4}|[ivxlcIVXLC]{1,7})$"
)
_PAGE_SIGNS = frozenset("0123456789ivxlcIVXLC")
_PAGE = re.compile(r"(?<![\s.·…_-])[\s.·…_-]*+\b[0-9]{1,4}$")
_NUMBER = re.compile(r"(?:[0-9]{1,3}(?:\.[0-9]{1,3}){0,3}|[IVXLC]{1,7}|[ivxlc]{1,7})[.):]?\s+\S")
_ITEM = re.compile(r"\s*(?:[-*+•]|[0-9]{1,9}[.)])\s+")
_ASIDE = re.compile(r"\([^()]*\)|\[[^][]*\]")
_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_ENDS = frozenset(".!?…:;,—–。！？」』")


def _has_leader(line: str) -> bool:
    """Return whether a line ends with dots and the number of a page."""
    # The last character is checked first: the search is slow, and most lines are prose.
    return line[-1:] in _PAGE_SIGNS and _LEADER.search(line) is not None


def announced_list(text: str) -> str | None:
    """Return the kind of list that a heading announces, "chapters" or "pictures"; else None."""
    if len(text) > _MAX_ANNOUNCEMENT_LENGTH:
        return None
    name = text if text.isascii() else normalize("NFC", text)
    words = name.strip(_DECORATION).casefold().split()
    if len(words) > 3 and all(len(word) == 1 for word in words):
        words = ["".join(words)]  # Letter-spaced.
    name = " ".join(words)
    if name in _ANNOUNCED_CHAPTERS or _VOLUME.fullmatch(name):
        return "chapters"
    return "pictures" if name in _ANNOUNCED_PICTURES else None


_ANNOUNCED_CHAPTERS = frozenset(name.casefold() for name in _CHAPTER_LISTS)
_ANNOUNCED_PICTURES = frozenset(name.casefold() for name in _PICTURE_LISTS)


def plain_title(text: str) -> str:
    """Return the words of a title, so that its entry in a list and its heading compare equal."""
    words = _ASIDE.sub(" ", _PAGE.sub("", text.strip()))
    return " ".join(re.findall(r"\w+", words.casefold()))


def links_ahead(linked: str, text: str) -> bool:
    """Return whether a block consists of links to later text; `linked` is the text of the links."""
    if not linked:
        return False
    letters = sum(map(str.isalpha, linked))
    others = sum(map(str.isalpha, text)) - letters
    return letters > 1 and others * _LINKED_SHARE <= letters


class _List(Struct):
    """An open contents list, with its entries so far."""

    announced: bool = False
    names_chapters: bool = True
    items_only: bool = False
    """Whether the list consists of list items in the markup, and ends with them."""
    entries: int = 0
    gap: int = 0
    """Maximum number of blank lines before an entry other than the first."""
    has_sentences: bool = False
    level: int = 0
    """The level of the heading that announces it."""
    headings: int = 0
    """Number of entries that are headings in the markup."""
    ranks: set[Rank] = field(default_factory=set)
    keys: set[tuple[str, str, int | str]] = field(default_factory=set)
    titles: set[str] = field(default_factory=set)
    first: object = None
    """The key of the first entry, or its title."""
    _part: str = ""

    def key(self, heading: Heading) -> tuple[str, str, int | str]:
        part = "" if heading.rank == "part" else self._part
        return part, heading.kind, heading.number

    def add(self, heading: Heading) -> None:
        if heading.rank == "part":
            self._part = heading.short
        self.ranks.add(heading.rank)
        self.keys.add(self.key(heading))
        self.first = self.first or self.key(heading)

    def add_title(self, title: str) -> None:
        self.titles.add(title)
        self.first = self.first or title

    def is_over(self, found: Heading | None, text: str, blank_lines: int) -> bool:
        """Return whether the list ends before a paragraph, which may be a heading.

        The list ends where an entry repeats, or where other text begins.
        """
        is_apart = self.entries > 0 and blank_lines > self.gap
        if found:
            key = self.key(found)
            if key in self.keys:
                # Entries without a number may repeat.
                return found.rank != "named" or key == self.first or is_apart
            is_new = found.rank == "named" or found.rank not in self.ranks
            return is_new and blank_lines >= _WIDE_GAP and self.entries > 0
        if _is_list(text, announced=True) or (not self.entries and _is_list(text, first=True)):
            return False
        if is_prose(text) or (is_apart and blank_lines >= _WIDE_GAP):
            return True
        if not self.announced and not is_title_like(_PAGE.sub("", text)):
            return True
        title = plain_title(text)
        if title in self.titles and (title == self.first or is_apart):
            return True
        if not _is_sentence(text):
            return False
        # Captions may be sentences, and in some old books all entries are.
        self.has_sentences = self.has_sentences or not self.entries or not self.names_chapters
        return not self.has_sentences


def _is_sentence(text: str) -> bool:
    """Return whether a short paragraph reads like prose or speech rather than like an entry."""
    text = text.strip()
    bare = text.rstrip("\"'”’»_*)]")
    if bare[-1:] not in _ENDS or _PAGE.search(text) or _NUMBER.match(text):
        return False
    words = _WORD.findall(text)
    return bare[-1] in "。！？" or 2 * sum(word[0].islower() for word in words) > len(words)


def _is_entry(line: str) -> bool:
    """Return whether a line is an entry by its form: a chapter number, or dots and a page."""
    if _has_leader(line):
        return True
    heading = parse_heading(line)
    return heading is not None and heading.rank in ("part", "chapter")


def _is_title(line: str) -> bool:
    """Return whether a line of a list with a heading looks like an entry."""
    has_page = line[-1:].isdigit() and _PAGE.search(line)
    return bool(has_page or _NUMBER.match(line)) or is_title_like(line)


def _begins_anew(line: str) -> bool:
    """Return whether a line does not continue the line before."""
    first = line.lstrip("_*\"'“‘«(•-– ")[:1]
    if first.lower() != first.upper() or not first.isalpha():
        return not first.islower()
    return len(line) <= _MAX_UNCASED_LENGTH and line[-1] not in _ENDS


def _is_list(text: str, *, announced: bool = False, first: bool = False) -> bool:
    """Return whether nearly all lines of a paragraph are entries.

    Entries of an `announced` list may be titles. In the `first` paragraph after the announcement,
    they only need to begin like titles.
    """
    if text.count("\n") < _MIN_LINES - 1:
        return False
    lines = [line.strip() for line in text.strip().split("\n")]
    if len(lines) < _MIN_LINES or any(len(line) > _MAX_LINE_LENGTH for line in lines):
        return False
    entries = sum(
        _is_entry(line)
        or ((first or announced) and _is_title(line))
        or (first and _begins_anew(line))
        for line in lines
    )
    return entries >= max(_MIN_LINES, _MAX_LISTED * len(lines))


def is_list_of_chapters(lines: Sequence[str]) -> bool:
    """Return whether lines without white space around them are the contents of a book, or a part.

    Where nothing announces them, they must be chapters by their numbers or have dots to a page.
    """
    if len(lines) < _MIN_LINES or any(len(line) > _MAX_LINE_LENGTH for line in lines):
        return False
    announced = announced_list(lines[0]) is not None
    # A quick check of the first lines excludes nearly all prose.
    if not announced and not any(map(_is_entry, lines[:_MIN_LINES])):
        return False
    entries = sum(_is_entry(line) or (announced and _is_title(line)) for line in lines[announced:])
    return entries >= max(_MIN_LINES, _MAX_LISTED * (len(lines) - announced))


class ContentsFinder(Struct):
    """Finds the blocks that belong to contents lists.

    It receives the blocks in order. The result depends on the block and the blocks before it, so
    the first entry of a list without a heading counts as text.
    """

    titles: set[str] = field(default_factory=set)
    """The titles without a number that lists of chapters have named."""
    previous: Heading | None = None
    """The block before, if it reads like a heading."""
    _list: _List | None = None
    _dotted: bool = False
    """Whether the previous block ends with dots and a page number."""
    _linked: bool = False
    """Whether the previous block is a link to later text."""

    @property
    def is_open(self) -> bool:
        """Whether the last block belongs to a list, so that the next one may too."""
        return self._list is not None

    def end(self) -> None:
        """End an open list at the end of a page."""
        self._list = self.previous = None
        self._dotted = self._linked = False

    def enter(
        self,
        text: str,
        kind: BlockKind,
        *,
        level: int = 0,
        blank_lines: int = 0,
        linked: bool = False,
        marked: bool = False,
    ) -> bool:
        """Process the next block; return whether it belongs to a list.

        All `marked` blocks do. A block that is a link to later text (`linked`) does if it follows
        another one: the first may be a step of instructions.
        """
        previous, self.previous = self.previous, None
        dotted, self._dotted = self._dotted, False
        follows, self._linked = self._linked, linked
        if marked or (linked and (follows or kind is BlockKind.TABLE)):
            return True
        if kind is BlockKind.HEADING:
            return self._enter_heading(text, level)
        in_list = kind in (BlockKind.LIST, BlockKind.TABLE)
        if not in_list and kind not in (BlockKind.PARAGRAPH, BlockKind.QUOTE):
            self._list = None
            return False
        if self._list is None and len(text) > _LONG and "\n" not in text[:_LONG_LINE]:
            # Nearly all paragraphs are too long to announce a list.
            return False
        entry = text.strip()
        if kind is BlockKind.LIST and (marker := _ITEM.match(text)):
            entry = text[marker.end() :].strip()
        first, _, rest = entry.partition("\n")
        found = parse_heading(entry)
        is_dotted = len(entry) <= _MAX_LINE_LENGTH and _has_leader(entry) and "\n" not in entry
        announced = None if in_list else announced_list(first)
        if announced and (not is_prose(rest) or _is_list(rest, first=True)):
            self._list = _List(True, announced == "chapters")
            entry = rest
        elif self._list is None:
            self._list = self._begin(entry, found, previous, in_list, dotted and is_dotted)
        elif not in_list:
            over = self._list.items_only or self._list.is_over(found, entry, blank_lines)
            self._list = None if over else self._list
        if self._list is None:
            self.previous, self._dotted = found, is_dotted
            return False
        if self._list.entries:
            self._list.gap = max(self._list.gap, blank_lines)
        if entry:
            self._add(self._list, entry)
        return True

    def _enter_heading(self, text: str, level: int) -> bool:
        if announced := announced_list(text):
            self._list = _List(True, announced == "chapters", level=level)
            return True
        # Entries may be headings too, below the heading of the list and without text between them.
        current = self._list
        if current and 0 < current.level < level and current.headings == current.entries:
            found = parse_heading(text)
            if not current.is_over(found, text, 0):
                current.headings += 1
                self._add(current, text)
                return True
        self._list = None
        return False

    def _begin(
        self, entry: str, found: Heading | None, previous: Heading | None, item: bool, dotted: bool
    ) -> _List | None:
        """Return the list that a block begins by its form alone; None if it begins none."""
        numbered = found is not None and found.rank in ("part", "chapter")
        if _is_list(entry) or dotted or (item and numbered):
            return _List(items_only=item)
        if numbered and found and _has_leader(found.label):
            return _List()
        # Two consecutive headings of one rank are entries of a list.
        if not found or not previous or found.rank == "named":
            return None
        if (found.rank, found.kind) != (previous.rank, previous.kind):
            return None
        started = _List()
        started.add(previous)
        return started

    def _add(self, current: _List, text: str) -> None:
        """Record the entries of a paragraph, which is one entry or has one on each line."""
        current.entries += 1
        for entry in [text] if parse_heading(text) else text.split("\n"):
            if heading := parse_heading(entry):
                current.add(heading)
            elif current.names_chapters and (title := plain_title(entry)):
                current.add_title(title)
                self.titles.add(title)
