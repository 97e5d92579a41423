"""Which document a golden query means."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import PurePath

from truespan.errors import DocumentNotFound
from truespan.model.document import Document


class DocumentNames:
    """The documents of a world by all that people call them.

    A reference is a number, a doc id, a file name or a path, in this order; of a path the end is
    enough, in whole names. What several documents answer to names none of them.
    """

    def __init__(self, documents: Iterable[Document]) -> None:
        self._by_number: dict[str, list[Document]] = defaultdict(list)
        self._by_id: dict[str, list[Document]] = defaultdict(list)
        self._by_name: dict[str, list[Document]] = defaultdict(list)
        for document in documents:
            self._by_number[str(document.number)].append(document)
            self._by_id[document.doc_id].append(document)
            self._by_name[document.name].append(document)

    def find(self, reference: str) -> Document | None:
        """Return the one document that a reference means; None when none or several do."""
        for called in (self._by_number, self._by_id, self._by_name):
            if len(found := called.get(reference, [])) == 1:
                return found[0]
        return self._by_path(reference)

    def key_of(self, reference: str) -> str | None:
        """Return the doc id of the document that a reference means: it outlives every revision."""
        found = self.find(reference)
        return found.doc_id if found else None

    def written(self, reference: str) -> str:
        """Return how a file should call a document: by its name if no other has it.

        Raises:
            DocumentNotFound: none, or more than one, answers to the reference.
        """
        found = self.find(reference)
        if found is None:
            raise DocumentNotFound(reference)
        return found.name if self.find(found.name) is found else found.doc_id

    def _by_path(self, reference: str) -> Document | None:
        wanted = PurePath(reference).parts
        named = self._by_name.get(PurePath(reference).name, [])
        found = [one for one in named if PurePath(one.path).parts[-len(wanted) :] == wanted]
        return found[0] if wanted and len(found) == 1 else None
