"""The command line as it is, except that the engine's share of each reading call is written down.

It goes to the file that is named first, when the server has ended.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from truespan.cli import run
from truespan.engine.reader import Reader
from truespan.types.bundle import ContextBundle


def main(into: Path, arguments: list[str]) -> int:
    """Run a command and return its exit code."""
    seconds: list[float] = []
    retrieve = Reader.retrieve

    def timed(self: Reader, *given: Any, **named: Any) -> ContextBundle:
        began = time.perf_counter()
        found = retrieve(self, *given, **named)
        seconds.append(time.perf_counter() - began)
        return found

    Reader.retrieve = timed
    code = run(arguments)
    into.write_text(json.dumps(seconds))
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
