"""An extension of Truespan: a file format, two models, a check of answers and a command.

Each row names its function by a path, so that nothing else is imported until it is used.
"""

from truespan.tables import Commands, EmbeddingProvider, FileFormat, RerankerKind, Tables


def register(tables: Tables) -> None:
    """Add the rows of this package."""
    tables.formats.append(
        FileFormat(name="cards", endings=(".cards",), load="index_cards.cards:load", is_text=True)
    )
    tables.embedders["words"] = EmbeddingProvider(
        "index_cards.models:make_embedder", settings="index_cards.models:WordSettings"
    )
    tables.rerankers["words"] = RerankerKind("index_cards.models:make_reranker", needs_model=False)
    tables.answer_checks["years"] = "index_cards.checks:check_years"
    tables.commands.append(Commands("Documents", "index_cards.commands", ("cards",)))
