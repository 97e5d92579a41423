"""The library itself, asked the same as the server: as many calls as each line says."""

from __future__ import annotations

import json
import sys

import truespan


def main(folder: str, asked: dict[str, object]) -> None:
    """Ask until the input ends; say so after each block of calls."""
    with truespan.open(folder, metrics=True) as library:
        world = library.world("bench")
        for line in sys.stdin:
            for _ in range(int(line)):
                world.retrieve(**asked)  # type: ignore[arg-type]
            print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
