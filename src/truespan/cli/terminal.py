"""Output of the commands: the only module that writes to standard output and standard error.

Names, labels, metadata and the words of a model come from strangers. A control character in one of
them could move the cursor or rename the window, and a direction override could turn a line around.
"""

from __future__ import annotations

import re
import sys

import click

_UNPRINTABLE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but tab and line feed, line separators, direction controls, surrogates."""


def printable(text: str) -> str:
    r"""Return a text with unprintable characters as escapes such as `\u202e`, as in JSON."""
    if text.isprintable():
        return text
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def echo(text: object = "", *, nl: bool = True, err: bool = False) -> None:
    """Print a text, by default with a line end. JSON stays the same JSON."""
    click.echo(printable(str(text)), nl=nl, err=err)


def write_error(text: str) -> None:
    """Write a text to standard error as it is, without a line end."""
    sys.stderr.write(printable(text))


def confirm(question: str) -> bool:
    """Ask a question that is answered with yes or no; the default is no."""
    return click.confirm(printable(question), default=False)
