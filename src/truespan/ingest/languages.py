"""Notice of text in languages that the embedding model of a world was not trained for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from shlex import quote
from typing import TYPE_CHECKING

from truespan.text.language import normal_language
from truespan.types.profile import MULTILINGUAL_LANGUAGES, is_trained_for
from truespan.types.scope import Scope

if TYPE_CHECKING:
    from truespan.store import Store

MAX_FOREIGN_SHARE = 0.1
"""Share of a world's chunks in unknown languages above which a notice is due."""
_MAX_LISTED = 3


def foreign_text_notice(store: Store, scope: Scope, added: Mapping[str, int]) -> str | None:
    """Return the notice that is due after a run; None if there is none.

    `added` has the number of chunks that the run added in each language. The notice is due once:
    after the run with which the share of text in unknown languages exceeds the maximum. A run that
    adds no such text reads nothing.
    """
    added_foreign = _foreign(scope, added)
    if not added_foreign:
        return None
    stored = store.chunks_by_language(scope)
    foreign, total = _foreign(scope, stored), sum(stored.values())
    count, total_added = sum(foreign.values()), sum(added.values())
    before = count - sum(added_foreign.values())
    is_due = count > MAX_FOREIGN_SHARE * total
    was_due = before > max(MAX_FOREIGN_SHARE * (total - total_added), 0)
    if not is_due or was_due:
        return None
    world = store.find_world(scope.authority, scope.world)
    name = quote(world.name) if world else "NAME"
    listed = ", ".join(language for language, _ in foreign.most_common(_MAX_LISTED))
    more = f" and {len(foreign) - _MAX_LISTED} more" if len(foreign) > _MAX_LISTED else ""
    known = foreign.keys() & MULTILINGUAL_LANGUAGES
    advice = (
        f"Run 'truespan reindex --model multilingual -w {name}', and promote the new generation."
        if known
        else "Configure a model for them, and run 'truespan reindex'."
    )
    return (
        f"{count / total:.0%} of the text in this world is in languages that its model was not "
        f"trained for ({listed}{more}), and is found badly by meaning. {advice}"
    )


def _foreign(scope: Scope, counts: Mapping[str, int]) -> Counter[str]:
    """Return the counts of languages that the model was not trained for."""
    foreign: Counter[str] = Counter()
    for language, count in counts.items():
        if not is_trained_for(scope.profile, language):
            foreign[normal_language(language)] += count
    return foreign
