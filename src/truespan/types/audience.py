"""Audiences: the labels of documents and callers that decide who sees which document."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, TypeAlias

from msgspec import Struct

from truespan.core.fields import MAX_LABEL_LENGTH
from truespan.errors import InvalidArgument

EVERYONE: Final = "everyone"
"""Label of documents that every caller of the world sees."""
MAX_AUDIENCE_LABELS: Final = 1000
"""Maximum number of labels of a document or a caller."""

_PRINTED = (
    r"[^\s\u0000-\u0020\u007f-\u00a0\u00ad\u0600-\u0605\u061c\u06dd\u070f\u180e\u200b-\u200f\u2028-\u202f"
    r"\u205f-\u206f\u2000-\u200a\u1680\u3000\ufeff\ufff9-\ufffb]"
)
LABEL_PATTERN: Final = f"^{_PRINTED}+( +{_PRINTED}+)*$"
"""The pattern of a label: printable, with no space but U+0020 between its words."""
# A schema cannot name lone surrogates: some of its readers see two of them in one character.
_LABEL = re.compile(LABEL_PATTERN.replace("[^", "[^\ud800-\udfff"))

Audience: TypeAlias = tuple[str, ...]
"""Labels of a document, sorted. Without labels, only the owner sees it."""


def check_labels(labels: object) -> frozenset[str]:
    """Return labels as a set; one label may be given alone. Raises InvalidArgument."""
    given: list[object] = []
    if isinstance(labels, str):
        given = [labels]
    elif isinstance(labels, Iterable):
        given = list(labels)
    else:
        raise InvalidArgument("audience must be a list of labels.")
    if len(given) > MAX_AUDIENCE_LABELS:
        raise InvalidArgument(f"audience has {len(given)} labels, more than {MAX_AUDIENCE_LABELS}.")
    return frozenset(map(_check_label, given))


def _check_label(label: object) -> str:
    if not isinstance(label, str):
        raise InvalidArgument("A label of an audience must be a string.")
    if not 1 <= len(label) <= MAX_LABEL_LENGTH:
        raise InvalidArgument(
            f"A label of an audience has 1 to {MAX_LABEL_LENGTH} characters; "
            f"this one has {len(label)}."
        )
    # Format characters above U+FFFF, such as tags, cannot be named in a pattern for JavaScript.
    if not _LABEL.fullmatch(label) or any(unicodedata.category(char) == "Cf" for char in label):
        raise InvalidArgument(
            f"The label {label!r} of an audience has an unprintable character, or begins or ends "
            "with a space."
        )
    return label


def check_audience(labels: object) -> Audience:
    """Return the labels of a document, sorted; raises InvalidArgument like `check_labels`."""
    return tuple(sorted(check_labels(labels)))


def choose_default_audience(
    audience: object, required: bool | None, known: Audience | None
) -> Audience | None:
    """Return the audience of new documents of a world; None if each must declare one.

    `known` is the present audience. Arguments that are None change nothing. If only `required` is
    given and false, the audience is everyone.
    """
    if audience is not None:
        if required:
            raise InvalidArgument("A world has an audience for new documents or requires one.")
        return check_audience(audience)
    if required is None:
        return known
    return None if required else known or (EVERYONE,)


def audience_text(audience: Audience) -> str:
    """Return the labels of a document as they are stored: one in each line."""
    return "\n".join(audience)


def audience_of(stored: str) -> Audience:
    """Return the labels of a document from the text that is stored."""
    return tuple(stored.split("\n")) if stored else ()


class AudienceRule(Struct, frozen=True):
    """The audience of new and changed documents whose path matches a pattern.

    `**` stands for any folders, `*` for characters of one name, `?` for one character. A pattern
    may begin at any folder, unless it begins with a slash.
    """

    labels: Audience
    path: str = "**"
    world: str = ""
    """Name of the only world to which the rule applies; blank for every world."""

    def applies_to(self, world: str, path: str) -> bool:
        """Return whether the rule is for a document of a world, by its path."""
        return self.world in ("", world) and _compile(self.path).fullmatch(path) is not None


# Shared by threads: an `lru_cache` of patterns, which locks.
@lru_cache(maxsize=256)
def _compile(pattern: str) -> re.Pattern[str]:
    spelled = re.escape(unicodedata.normalize("NFC", pattern).removeprefix("/"))
    for wild, meaning in (
        (r"\*\*/", "(?:.*/)?"),
        (r"\*\*", ".*"),
        (r"\*", "[^/]*"),
        (r"\?", "[^/]"),
    ):
        spelled = spelled.replace(wild, meaning)
    return re.compile(spelled if pattern.startswith("/") else f"(?:.*/)?{spelled}", re.DOTALL)


def find_rule(rules: Iterable[AudienceRule], world: str, path: str) -> Audience | None:
    """Return the labels of the first rule that applies to a document; None without one."""
    path = unicodedata.normalize("NFC", path.replace("\\", "/"))
    return next((rule.labels for rule in rules if rule.applies_to(world, path)), None)


class DocumentAccess(Struct, frozen=True):
    """A document that a caller sees, and the labels by which it is visible."""

    number: int
    name: str
    path: str
    audience: Audience
    by: Audience


def is_visible(audience: Audience, labels: frozenset[str]) -> bool:
    """Return whether a caller with `labels` sees a document with `audience`."""
    return EVERYONE in audience or not labels.isdisjoint(audience)
