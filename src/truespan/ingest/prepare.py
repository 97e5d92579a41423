"""How sources are prepared: the operator's choices that decide what a revision holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256

from truespan.errors import InvalidSettings
from truespan.ingest.clean import CLEANING_VERSION
from truespan.ingest.embed.too_long import OnTokenLimit
from truespan.ingest.language import detector
from truespan.ingest.load import LOADER_VERSION
from truespan.ingest.sanitize import Sanitizer
from truespan.ingest.sentences import segmenter
from truespan.model.figure import FigureFlags
from truespan.model.profile import SENTENCES, STANDARD_CHUNKING, WINDOW, ChunkingProfile
from truespan.model.source import Declared, DocumentKind
from truespan.ports import TokenCounter


@dataclass(frozen=True, slots=True)
class Preparation:
    """What is done to sources beside what their callers declare."""

    figures: FigureFlags = field(default_factory=FigureFlags)
    sanitizer: Sanitizer = field(default_factory=Sanitizer)
    chunkings: Mapping[str, ChunkingProfile] = field(default_factory=lambda: STANDARD_CHUNKING)
    on_token_limit: OnTokenLimit = OnTokenLimit.MEAN

    def chunking_for(self, declared: Declared) -> ChunkingProfile:
        """Return the chunking profile that is named, or the default for the kind of document."""
        if declared.chunking is None:
            return SENTENCES if declared.kind is DocumentKind.BOOK else WINDOW
        return self.chunking_named(declared.chunking)

    def chunking_named(self, name: str) -> ChunkingProfile:
        """Return the chunking profile of this name.

        Raises:
            InvalidSettings: there is none.
        """
        try:
            return self.chunkings[name]
        except KeyError:
            raise InvalidSettings(
                f"There is no chunking profile {name!r}.",
                advice=f"Choose one of {', '.join(self.chunkings)}.",
            ) from None

    def recipe(self, declared: Declared, counter: TokenCounter, *, pictures: bool = True) -> str:
        """Return a digest of all that is done to a source's bytes; `pictures` may be among them.

        The same bytes under the same recipe give the same revision: there is nothing to do again.
        How much the model reads is not part of it: that belongs to a generation, not a revision.
        """
        steps = {
            "cleaning": CLEANING_VERSION,
            "loader": LOADER_VERSION,
            "segmenter": segmenter(),
            "chunking": asdict(self.chunking_for(declared)),
            "counter": counter.name,
            "kind": declared.kind or DocumentKind.DOCUMENT,
            "title": declared.title,
            "figures": self._figure_steps() if pictures else [],
            # The mode as well: a library that begins to count has to look at everything once.
            "sanitizer": [self.sanitizer.mode, self.sanitizer.digest],
            "on_token_limit": self.on_token_limit,
            # It decides where sentences end, unless somebody says what the language is.
            "language": None if declared.language else detector(),
        }
        return sha256(json.dumps(steps, sort_keys=True).encode()).hexdigest()

    def _figure_steps(self) -> list[bool]:
        flags = self.figures
        return [flags.extract_images, flags.placeholders, flags.chunks]
