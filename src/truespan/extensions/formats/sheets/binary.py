"""XLS and XLSB through calamine: values without number formats, in their shortest form."""

from __future__ import annotations

import datetime
import io

import python_calamine as calamine

from truespan.errors import SourceRefused
from truespan.extensions.formats.sheets import Area, Row, Sheet, layout
from truespan.extensions.formats.sheets.number_format import show_general
from truespan.parsing.archive import Archive
from truespan.types.text import Block, Loaded

_ZIP = b"PK"
Value = int | float | str | bool | datetime.time | datetime.date | datetime.timedelta


def load_binary(name: str, data: bytes, *, hidden_sheets: bool) -> Loaded:
    """Parse a workbook or raise `SourceRefused`; `hidden_sheets` includes hidden sheets."""
    if data.startswith(_ZIP):
        # The library unpacks without limits, so all members are read within limits first.
        archive = Archive(name, data)
        for member in archive.names:
            archive.read(member)
    blocks: list[Block] = []
    left_out = 0
    try:
        book = calamine.load_workbook(io.BytesIO(data))
        for about in book.sheets_metadata:
            if about.typ is not calamine.SheetTypeEnum.WorkSheet:
                continue
            if about.visible is not calamine.SheetVisibleEnum.Visible and not hidden_sheets:
                left_out += 1
                continue
            blocks += layout(_read_sheet(book.get_sheet_by_name(about.name)))
    except calamine.PasswordError as error:
        raise SourceRefused("source_encrypted", name) from error
    except (calamine.CalamineError, ValueError) as error:
        raise SourceRefused("source_broken", name) from error
    except BaseException as error:
        # A panic of the library is not an `Exception`.
        if type(error).__name__ != "PanicException":
            raise
        raise SourceRefused("source_broken", name) from error
    warnings = (f"Hidden sheets left out: {left_out}.",) if left_out else ()
    return Loaded(tuple(blocks), warnings=warnings)


def _read_sheet(found: calamine.CalamineSheet) -> Sheet:
    sheet = Sheet(found.name)
    shapes: dict[tuple[int, ...], tuple[int, ...]] = {}
    for number, values in enumerate(found.iter_rows(), 1):
        texts = [_show(value) for value in values]
        shape = tuple(column for column, text in enumerate(texts) if text)
        if shape:
            shape = shapes.setdefault(shape, shape)
            sheet.rows.append(Row(number, number, shape, [text for text in texts if text]))
    for (start_row, start_column), (end_row, end_column) in found.merged_cell_ranges or ():
        sheet.merged.append(Area(start_row + 1, start_column, end_row + 1, end_column))
    return sheet


def _show(value: Value) -> str:
    match value:
        case str():
            return value.strip()
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | float():
            return show_general(value)
        case datetime.datetime():
            midnight = value.time() == datetime.time()
            return value.date().isoformat() if midnight else value.isoformat(" ", "seconds")
        case datetime.timedelta():
            seconds = round(value.total_seconds())
            return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return value.isoformat()
