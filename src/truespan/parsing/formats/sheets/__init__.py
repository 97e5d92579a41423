"""Spreadsheets: each sheet is a chapter with tables of displayed cell values.

`layout` divides the filled cells of a sheet into tables and lines of text. Formulas have their
stored results. Hidden sheets, rows and columns are left out unless requested.
"""

from __future__ import annotations

from truespan.parsing.detect import Format
from truespan.types.text import Loaded


def load_sheets(found: Format, name: str, data: bytes, *, hidden: bool) -> Loaded:
    """Parse a workbook or raise `SourceRefused`; `hidden` includes hidden parts."""
    match found:
        case Format.XLSX:
            from truespan.parsing.formats.sheets.xlsx import load_xlsx as load
        case Format.ODS:
            from truespan.parsing.formats.sheets.ods import load_ods as load
        case _:
            from truespan.parsing.formats.sheets.binary import load_binary as load
    return load(name, data, hidden=hidden)
