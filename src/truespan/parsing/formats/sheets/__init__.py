"""Spreadsheets: each sheet is a chapter, and its tables are rows of cells as they are shown.

`layout` divides the filled cells of a sheet of any format into tables and lines of text.
Formulas are shown by their stored results. Hidden sheets, rows and columns are left out unless they
are asked for.
"""

from __future__ import annotations

import gc

from truespan.parsing.detect import Format
from truespan.types.text import Loaded


def load_sheets(found: Format, name: str, data: bytes, *, hidden: bool) -> Loaded:
    """Parse a workbook or raise `SourceRefused`; `hidden` includes what is hidden in it."""
    # Millions of cells without a cycle among them: looking for cycles takes a quarter of the time.
    collects = gc.isenabled()
    gc.disable()
    try:
        match found:
            case Format.XLSX:
                from truespan.parsing.formats.sheets.xlsx import load_xlsx as load
            case Format.ODS:
                from truespan.parsing.formats.sheets.ods import load_ods as load
            case _:
                from truespan.parsing.formats.sheets.binary import load_binary as load
        return load(name, data, hidden=hidden)
    finally:
        if collects:
            gc.enable()
