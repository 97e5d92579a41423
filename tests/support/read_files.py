"""Files as in the store, and the common beginning of two of them."""

from dataclasses import dataclass

from tests.laws.texts import Document
from tests.support.file_pairs import NAME
from truespan.ingest.canonical import assemble
from truespan.parsing import load
from truespan.text.sentences import split_sentences
from truespan.types.text import contents_start


@dataclass(frozen=True)
class ReadFile(Document):
    listed: frozenset[str]
    """The names in lists of what lies ahead, which no reader comes to."""

    @property
    def names(self) -> frozenset[str]:
        return find_names(self.text)

    @property
    def end(self) -> int:
        places = list(zip(self.canonical.starts, self.canonical.places, strict=True))
        return contents_start(places) or len(self.text)


def find_names(text: str) -> frozenset[str]:
    return frozenset(name.lower() for name in NAME.findall(text))


def read_file(name: str, data: bytes, *, divide_tables: bool) -> ReadFile:
    blocks = load(name, data).blocks
    canonical = assemble(blocks, divide_tables=divide_tables)
    listed = "\n".join(block.text for block in blocks if block.is_contents)
    return ReadFile(canonical, tuple(split_sentences(canonical)), find_names(listed))


def count_common(first: ReadFile, second: ReadFile) -> int:
    """Return how many sentences at the beginning of two files have the same text."""
    count, end = 0, min(first.end, second.end)
    for left, right in zip(first.sentences, second.sentences, strict=False):
        if max(left.start, right.start) >= end:
            break
        before, texts = [], []
        for doc, item in ((first, left), (second, right)):
            texts.append(doc.text[item.start : item.end])
            before.append(doc.text[doc.sentences[count - 1].end if count else 0 : item.start])
        # The indentation of a sentence is its own.
        indented = before[0] != before[1] and before[0].rstrip(" \t") == before[1].rstrip(" \t")
        if texts[0] != texts[1] or indented:
            break
        count += 1
    return count
