"""RTF parser: the visible text in reading order, in one pass over the bytes.

Included: tables, lists with the numbers that the file shows, notes and text boxes (after the
paragraph that refers to them), field results. Excluded: headers, footers, comments, deleted and
hidden text, pictures, embedded files.
"""

from __future__ import annotations

import codecs
import re

from msgspec import Struct, field
from msgspec.structs import replace

from truespan.errors import SourceRefused
from truespan.parsing.blocks import (
    TITLE_LEVEL,
    BlockWriter,
    Passage,
    heading_level,
    is_contents_style,
    style_kind,
)
from truespan.parsing.formats.docx.inline import is_contents_field, read_symbol
from truespan.types.text import BlockKind, Loaded, Properties

_MAX_DEPTH = 10_000
_MAX_CAP_LENGTH, _MAX_NAME_LENGTH, _MAX_PARTS = 40, 200, 8
_TOKEN = re.compile(
    rb"\\([A-Za-z]{1,40})(-?[0-9]{1,10})? ?|\\'([0-9A-Fa-f]{2})|\\([^A-Za-z])|([{}])|[\r\n]+"
    rb"|([^\\{}\r\n]+)",
    re.DOTALL,
)
_CHARSETS = {
    77: "mac_roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "gbk", 136: "cp950",
    161: "cp1253", 162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257",
    204: "cp1251", 222: "cp874", 238: "cp1250", 254: "cp437", 255: "cp850",
}  # fmt: skip
_SYMBOLS = 2
_CHARACTERS = {
    "tab": "\t", "line": "\n", "lbr": "\n", "emdash": "—", "endash": "–", "bullet": "•",
    "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”", "emspace": "\u2003",
    "enspace": "\u2002", "qmspace": "\u2005", "zwj": "\u200d", "zwnj": "\u200c",
}  # fmt: skip
_SIGNS = {"\\": "\\", "{": "{", "}": "}", "~": "\xa0", "_": "\u2011", "-": "\xad"}
_SKIPPED = frozenset(
    re.findall(
        r"\w+",
        "colortbl pict nonshppict header headerl headerr headerf footer footerl footerr footerf"
        " ftnsep ftnsepc ftncn aftnsep aftnsepc aftncn annotation tc tcn xe rxe txe sn sv sp falt"
        " fname private1 template comment operator company buptim printim revtim category manager"
        " version mmathPict pnseclvl objdata objclass objname listname",
    )
)
"""Destinations whose content is no part of the text."""
_STARRED = frozenset(
    {"footnote", "shpinst", "do", "ud", "moMath", "moMathPara", "fldinst", "ftnalt"}
)
"""Destinations that are read although readers may ignore them."""
_INFO = ("title", "author", "keywords", "doccomm", "subject")


class _Paragraph(Struct):
    """Paragraph properties; `\\pard` resets them."""

    style: int = 0
    level: int | None = None
    list_level: int = 0
    listed: bool = False
    in_table: bool = False
    drop_cap: bool = False


class _State(Struct):
    """State of a group, restored at its end."""

    target: str = "text"
    """Destination of characters: "text", "" (none), "marker", "inst", or a table or property."""
    encoding: str = "cp1252"
    symbols: str = ""
    """Name of a symbol font."""
    fallback: int = 1
    hidden: bool = False
    deleted: bool = False
    in_contents: bool = False
    instruction: list[str] = field(default_factory=list)
    """Instruction of the innermost field."""
    opens: str = ""
    """Kind of a group that is a "note" or "box"."""


class _Style(Struct):
    name: str = ""
    level: int | None = None


class _Line(Struct):
    """A finished paragraph with the notes and boxes that follow it."""

    text: str
    format: _Paragraph
    marker: str
    in_contents: bool
    attached: list[tuple[str, _Flow]]


class _Flow(Struct):
    """The paragraphs and tables of the text, of a note or of a box."""

    items: list[_Line | _Table] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    marker: str = ""
    attached: list[tuple[str, _Flow]] = field(default_factory=list)
    in_contents: bool = False
    cell: list[str] = field(default_factory=list)
    row: list[str] = field(default_factory=list)
    row_is_header: bool = False
    cell_lines: list[_Line] = field(default_factory=list)

    def end_paragraph(self, format: _Paragraph) -> None:
        text = "".join(self.parts)
        if format.drop_cap and 0 < len(text.strip()) <= _MAX_CAP_LENGTH:
            return
        self.parts = []
        line = _Line(text, replace(format), self.marker, self.in_contents, self.attached)
        self.marker, self.attached, self.in_contents = "", [], False
        if format.in_table:
            self.cell_lines.append(line)
        else:
            self.end_table()
            self.items.append(line)

    def end_cell(self, format: _Paragraph, separator: str = "") -> None:
        """End a cell; a cell of a nested table is part of the cell around it."""
        if "".join(self.parts).strip() or self.attached:
            self.end_paragraph(replace(format, in_table=True, drop_cap=False))
        texts: list[str] = []
        table = self._table()
        for line in self.cell_lines:
            mark = " ".join([*line.marker.split(), ""])
            texts.append(mark + " ".join(line.text.split()))
            table.attached += line.attached
        self.cell_lines, self.parts = [], []
        text = " ".join(filter(None, texts))
        if separator:
            self.cell.append(text + separator)
            return
        inner = "".join(self.cell).rstrip(",; ")
        self.cell = []
        self.row.append(" ".join(filter(None, (inner, text))))

    def end_row(self) -> None:
        table = self._table()
        while self.row and not self.row[-1]:
            self.row.pop()
        if self.row:
            table.header += self.row_is_header and table.header == len(table.rows)
            table.rows.append(" | ".join(self.row))
        self.row = []

    def end_table(self) -> None:
        """Keep the content of an unfinished table."""
        if self.row or self.cell:
            self.row += ["".join(self.cell).rstrip(",; ")] if self.cell else []
            self.cell = []
            self.end_row()
        self.items += self.cell_lines
        self.cell_lines = []

    def _table(self) -> _Table:
        last = self.items[-1] if self.items else None
        if not isinstance(last, _Table):
            last = _Table()
            self.items.append(last)
        return last


class _Table(Struct):
    rows: list[str] = field(default_factory=list)
    header: int = 0
    attached: list[tuple[str, _Flow]] = field(default_factory=list)


def load_rtf(name: str, data: bytes) -> Loaded:
    """Parse an RTF file or raise `SourceRefused`."""
    if not data[:64].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{\\rtf"):
        raise SourceRefused("source_broken", name)
    reader = _Reader(name)
    reader.read(data)
    writer = BlockWriter()
    _write(reader.text, writer, reader.styles)
    info = {key: " ".join("".join(parts).split()) or None for key, parts in reader.info.items()}
    keywords = (part.strip() for part in re.split("[;,]", info.get("keywords") or ""))
    authors = (part.strip() for part in (info.get("author") or "").split(";"))
    properties = Properties(
        title=info.get("title"),
        authors=tuple(filter(None, authors)),
        keywords=tuple(dict.fromkeys(filter(None, keywords))),
        description=info.get("doccomm") or info.get("subject"),
    )
    return Loaded(tuple(writer.blocks), writer.title or properties.title, properties)


class _Reader:
    """Reads the tokens of a file. Groups are on a list, so that depth uses no call stack."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = _Flow()
        self.info: dict[str, list[str]] = {}
        self.styles: dict[int, _Style] = {}
        self._flows = [self.text]
        self._state, self._stack = _State(), list[_State]()
        self._format, self._formats = _Paragraph(), list[_Paragraph]()
        self._bytes = bytearray()
        self._high = ""
        self._skip = 0
        self._starred = self._fresh = False
        self._default = "cp1252"
        self._fonts: dict[int, tuple[str, str]] = {}
        self._font, self._font_names = 0, dict[int, list[str]]()
        self._style = 0

    def read(self, data: bytes) -> None:
        position, match, end = 0, _TOKEN.match, len(data)
        while position < end:
            found = match(data, position)
            if found is None:
                position += 1
                continue
            position = found.end()
            word, number, code, sign, brace, text = found.groups()
            if text is not None:
                self._fresh = False
                if self._skip:
                    skipped = min(self._skip, len(text))
                    self._skip -= skipped
                    text = text[skipped:]
                if self._state.target and text:
                    self._bytes += text
            elif brace:
                self._skip = 0
                if brace == b"{":
                    if len(self._stack) > _MAX_DEPTH:
                        raise SourceRefused("source_unsafe", self.name)
                    self._flush()
                    self._stack.append(self._state)
                    self._state = replace(self._state, opens="")
                    self._fresh = True
                elif self._stack:
                    self._end_group()
            elif self._skip and (code or sign or word):
                self._skip -= 1
                if word == b"bin":
                    position += max(int(number or 0), 0)
            elif code:
                if self._state.target:
                    self._bytes.append(int(code, 16))
            elif sign:
                self._read_sign(sign.decode("latin-1"))
            elif word:
                if word == b"bin":
                    position += max(int(number or 0), 0)
                    continue
                value = None if number is None else int(number)
                self._read_word(word.decode("ascii"), value)
        while self._stack:
            self._end_group()
        self._flush()
        self._end_paragraph()
        self.text.end_table()

    # Groups

    def _end_group(self) -> None:
        self._flush()
        opens = self._state.opens
        self._state = self._stack.pop()
        if opens and len(self._flows) > 1:
            if "".join(self._flows[-1].parts).strip():
                self._end_paragraph()
            flow = self._flows.pop()
            flow.end_table()
            self._format = self._formats.pop()
            if flow.items:
                self._flows[-1].attached.append((opens, flow))

    def _open(self, kind: str) -> None:
        """Collect the text of this group, which follows the current paragraph."""
        self._state.opens = kind
        self._flows.append(_Flow())
        self._formats.append(self._format)
        self._format = _Paragraph()

    # Characters

    def _flush(self) -> None:
        """Decode the pending bytes and send them to their destination."""
        if not self._bytes:
            return
        content, self._bytes = bytes(self._bytes), bytearray()
        state = self._state
        if state.symbols:
            text = "".join(read_symbol(state.symbols, f"{byte:x}") or chr(byte) for byte in content)
        else:
            text = content.decode(state.encoding, "replace")
        self._put(text)

    def _put(self, text: str) -> None:
        if self._high and text[:1] < "\ud800":
            self._high = ""
        state = self._state
        target = state.target
        if target == "text":
            if not state.hidden and not state.deleted:
                flow = self._flows[-1]
                flow.parts.append(text)
                flow.in_contents = flow.in_contents or state.in_contents
        elif target == "marker":
            self._flows[-1].marker += text
        elif target == "inst":
            if len(state.instruction) < _MAX_PARTS:
                state.instruction.append(text[:_MAX_NAME_LENGTH])
        elif target == "fonttbl":
            names = self._font_names.setdefault(self._font, [])
            if len(names) < _MAX_PARTS:
                names.append(text[:_MAX_NAME_LENGTH])
        elif target == "stylesheet":
            style = self.styles.setdefault(self._style, _Style())
            if len(style.name) < _MAX_NAME_LENGTH:
                style.name += text[:_MAX_NAME_LENGTH]
        elif target.startswith("info:"):
            self.info.setdefault(target[5:], []).append(text)

    def _read_sign(self, sign: str) -> None:
        if sign == "*":
            # It marks a destination only at the start of a group.
            self._starred = self._fresh
        elif sign in "\r\n":
            self._flush()
            self._end_paragraph()
        elif sign in _SIGNS:
            self._flush()
            self._put(_SIGNS[sign])

    def _add_unicode(self, code: int) -> None:
        self._flush()
        char = chr(code % 65536)
        if "\ud800" <= char < "\udc00":
            self._high = char
        elif "\udc00" <= char < "\ue000":
            high, self._high = self._high, ""
            if high:
                pair = (high + char).encode("utf-16", "surrogatepass").decode("utf-16")
                self._put(pair)
        elif 0xF000 <= ord(char) < 0xF100 and self._state.symbols:
            self._put(read_symbol(self._state.symbols, f"{ord(char):x}"))
        else:
            self._put(char)
        self._skip = self._state.fallback

    # Control words

    def _read_word(self, word: str, value: int | None) -> None:
        starred, self._starred, self._fresh = self._starred, False, False
        state = self._state
        if word == "u":
            if state.target and value is not None:
                self._add_unicode(value)
            elif value is not None:
                self._skip = state.fallback
            return
        self._flush()
        if word in _CHARACTERS:
            self._put(_CHARACTERS[word])
        elif starred and word not in _STARRED:
            state.target = ""
        elif word == "ud" and len(self._stack) > 1:
            # The Unicode version of the previous group has the same destination.
            state.target = self._stack[-2].target
        elif not state.target:
            return
        elif word in _SKIPPED:
            state.target = ""
        elif word in _PARTS:
            self._end_part(word)
        elif word in _DESTINATIONS:
            self._begin(word)
        elif state.target in ("fonttbl", "stylesheet"):
            self._read_definition(word, value)
        elif word.startswith("ansi") or word in ("mac", "pc", "pca"):
            self._set_code_page(word, value)
        else:
            self._set_property(word, value)

    def _end_part(self, word: str) -> None:
        flow = self._flows[-1]
        if self._state.target != "text":
            return
        if word in ("par", "sect"):
            self._end_paragraph()
        elif word == "cell":
            flow.end_cell(self._format)
        elif word == "row":
            flow.end_row()
        elif word == "nestcell":
            flow.end_cell(self._format, ", ")
        elif word == "nestrow" and flow.cell:
            flow.cell[-1] = flow.cell[-1].rstrip(", ") + "; "

    def _end_paragraph(self) -> None:
        self._flows[-1].end_paragraph(self._format)

    def _begin(self, word: str) -> None:
        state = self._state
        if word == "footnote":
            self._open("note")
        elif word in ("shptxt", "dptxbxtext"):
            self._open("box")
        elif word in ("listtext", "pntext"):
            state.target = "marker" if state.target == "text" else ""
        elif word == "field":
            state.instruction = []
        elif word == "fldinst":
            state.target = "inst"
        elif word == "fldrslt":
            state.in_contents = state.in_contents or is_contents_field(
                "".join(state.instruction).strip()
            )
        elif word == "info":
            state.target = "info:"
        elif word == "upr":
            # The next group is for readers without Unicode; the starred group after it is read.
            state.target = ""
        elif word in ("fonttbl", "stylesheet"):
            state.target = word
        elif state.target == "info:":
            state.target = f"info:{word}"

    def _read_definition(self, word: str, value: int | None) -> None:
        if self._state.target == "fonttbl":
            if word == "f":
                self._font = value or 0
            elif word == "fcharset":
                charset = value or 0
                encoding = _CHARSETS.get(charset, self._default if charset == 1 else "cp1252")
                kind = "symbols" if charset == _SYMBOLS else ""
                self._fonts[self._font] = encoding, kind
            elif word == "cpg":
                self._fonts[self._font] = _code_page(value) or self._default, ""
        elif word in ("s", "cs", "ds", "ts"):
            self._style = value or 0 if word == "s" else -1
        elif word == "outlinelevel" and value is not None:
            self.styles.setdefault(self._style, _Style()).level = value + 1

    def _set_code_page(self, word: str, value: int | None) -> None:
        names = {"mac": "mac_roman", "pc": "cp437", "pca": "cp850"}
        found = _code_page(value) if word == "ansicpg" else names.get(word, self._default)
        self._default = self._state.encoding = found or self._default

    def _set_property(self, word: str, value: int | None) -> None:
        state, format = self._state, self._format
        on = value != 0
        match word:
            case "f":
                encoding, kind = self._fonts.get(value or 0, (self._default, ""))
                name = "".join(self._font_names.get(value or 0, ())).strip(" ;").lower()
                state.encoding, state.symbols = encoding, name if kind else ""
            case "plain":
                state.hidden = state.deleted = False
                state.encoding, state.symbols = self._default, ""
            case "uc":
                state.fallback = min(max(value or 0, 0), 16) if value is not None else 1
            case "v":
                state.hidden = on
            case "deleted":
                state.deleted = on
            case "pard":
                self._format = _Paragraph()
            case "s":
                format.style = value or 0
            case "outlinelevel" if value is not None and 0 <= value < 9:
                format.level = value + 1
            case "ls":
                format.listed = bool(value)
            case "ilvl" | "pnlvl":
                format.list_level = min(max(value or 0, 0), 9)
            case "intbl":
                format.in_table = on
            case "dropcapli":
                format.drop_cap = bool(value)
            case "trowd":
                self._flows[-1].row_is_header = False
            case "trhdr":
                self._flows[-1].row_is_header = True
            case _:
                return


_PARTS = frozenset({"par", "sect", "cell", "row", "nestcell", "nestrow"})
_DESTINATIONS = frozenset(
    {*_INFO, "footnote", "shptxt", "dptxbxtext", "listtext", "pntext", "field", "fldinst"}
    | {"fldrslt", "info", "upr", "fonttbl", "stylesheet"}
)


def _code_page(number: int | None) -> str | None:
    """Return the codec of a code page; None if it is unknown."""
    special = {65001: "utf-8", 10000: "mac_roman", 1361: "johab", 936: "gbk"}
    name = special.get(number or 0, f"cp{number}")
    try:
        return name if name in special.values() or codecs.lookup(name) else None
    except LookupError:
        return None


def _write(flow: _Flow, writer: BlockWriter, styles: dict[int, _Style]) -> None:
    """Add the blocks of a text; notes and boxes follow their paragraph and are not nested."""
    pending: list[tuple[str, _Flow, int]] = [("", flow, 0)]
    while pending:
        kind, current, start = pending.pop()
        writer.in_note = kind == "note"
        for place in range(start, len(current.items)):
            item = current.items[place]
            if isinstance(item, _Table):
                passage = Passage("\n".join(item.rows))
                header = item.header if item.header < len(item.rows) else 0
                writer.add_table(passage, header)
            else:
                _write_line(item, writer, styles)
            if item.attached:
                # The rest of this text follows them.
                pending.append((kind, current, place + 1))
                notes = sorted(item.attached, key=lambda attached: attached[0] != "note")
                pending.extend((*attached, 0) for attached in reversed(notes))
                break
    writer.in_note = False


def _write_line(line: _Line, writer: BlockWriter, styles: dict[int, _Style]) -> None:
    format, style = line.format, styles.get(line.format.style, _Style())
    name = style.name.partition(";")[0].strip()
    level = heading_level(name)
    level = style.level if level is None else level
    level = format.level if format.level is not None else level
    if name.lower() == "title":
        level = TITLE_LEVEL
    marker = " ".join(line.marker.split())
    if not any(char.isalnum() for char in marker):
        # A bullet in a symbol font.
        marker = "-" if marker or (format.listed and level is None) else ""
    if level is not None and marker == "-":
        marker = ""
    writer.add(
        Passage(line.text).trim(),
        kind=style_kind(name) or BlockKind.PARAGRAPH,
        level=level,
        marker=marker or None,
        list_level=format.list_level,
        in_contents=line.in_contents,
        is_contents=is_contents_style(name),
    )
