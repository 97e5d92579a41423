"""The language of a query, for models that know several.

No language can be told of a few words with certainty. Such a query is taken for one in the language
of each text.
"""

from __future__ import annotations

from truespan.types.profile import EmbeddingProfile, trained_languages


def query_language(profile: EmbeddingProfile, query: str) -> str | None:
    """Return the language of a query; None if it is unknown, or if the model knows only one.

    It depends on the query alone, so that no text changes it.
    """
    if len(trained_languages(profile) or ()) < 2:
        return None
    # Imported here because the tables of the detector take 70 MB.
    from truespan.text.language import detect_language

    return detect_language(query)
