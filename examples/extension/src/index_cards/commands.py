"""The command `truespan cards`."""

from truespan.cli.options import Place
from truespan.cli.terminal import echo


def cards(place: Place) -> int:
    """List the titles of all index cards."""
    with place.open() as world:
        for document in world.documents.list():
            if document.path.endswith(".cards"):
                for entry in world.documents.outline(document.number):
                    echo(entry.chapter)
    return 0
