"""A company library with three groups: one world, in which each person finds what they may see.

Pass the folder of a library, which is created if needed:

    python examples/company_library.py my-library
"""

from __future__ import annotations

import sys
from pathlib import Path

import truespan
from truespan.engine.world import World

FOLDER = Path(__file__).with_name("company")
AUDIENCES = {
    "leave-2026.md": ["everyone"],
    "leave-2019.md": ["group:people"],
    "keys.md": ["group:security", "group:board"],
}
CALLERS = {
    "Ana of people": ["group:people", "user:ana@example.org"],
    "Bo of security": ["group:security", "user:bo@example.org"],
    "Cy, new here": ["user:cy@example.org"],
}
QUESTIONS = ("Where is the spare key?", "How was leave requested in 2019?")


def fill(world: World) -> None:
    """Ingest each document for its audience."""
    for name, audience in AUDIENCES.items():
        world.ingest(FOLDER / name, audience=audience)


def show(world: World) -> None:
    """Print the documents that a caller has, and those that answer each question."""
    print("  has", ", ".join(sorted(document.name for document in world.documents.list())))
    for question in QUESTIONS:
        found = dict.fromkeys(passage.source for passage in world.search(question).passages)
        print(f"  {question} {', '.join(found) or 'nothing'}")


def main(folder: str) -> None:
    """Fill the library, and look at it as each caller."""
    with truespan.open(folder, create=True) as library:
        fill(library.world("company", create=True))
        for name, labels in CALLERS.items():
            print(name)
            show(library.world("company", audience=labels))
        _, secret = library.tokens.create(
            "security desk", worlds=["company"], audience=["group:security"]
        )
        authority = library.authenticate(secret.reveal())
    print("The security desk, with a token")
    with truespan.open(folder, authority=authority) as library:
        show(library.world("company"))


if __name__ == "__main__":
    main(sys.argv[1])
