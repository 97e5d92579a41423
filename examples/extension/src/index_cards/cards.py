"""Index cards: a file of cards, each with its title after "#" and its text below it."""

import re

from truespan.types.text import Block, BlockKind, Loaded


def load(name: str, data: bytes) -> Loaded:
    """Return a heading and a paragraph for each card; its title is the chapter of both."""
    cards = re.split(r"^#", data.decode(), flags=re.MULTILINE)[1:]
    blocks: list[Block] = []
    for card in cards:
        title, _, text = (part.strip() for part in card.partition("\n"))
        blocks.append(Block(BlockKind.HEADING, title, chapter=title))
        blocks.append(Block(BlockKind.PARAGRAPH, text, chapter=title))
    return Loaded(tuple(blocks), title=name.removesuffix(".cards"))
