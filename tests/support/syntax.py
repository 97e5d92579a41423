"""Syntax trees of source files."""

import ast
import gc
from pathlib import Path


def parse_file(path: Path) -> ast.Module:
    """Parse a file.

    No garbage is collected meanwhile: that takes half of the time, as a tree is thousands of
    objects and none of them is garbage.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(path.read_text("utf-8"))
    finally:
        if enabled:
            gc.enable()


def walk_file(path: Path) -> list[ast.AST]:
    """Parse a file and return all nodes of its tree, to be looked through several times."""
    return [*ast.walk(parse_file(path))]
