"""Further models: PyTorch and sentence-transformers, many languages, Google.

Owns: loading and running these models.
Does not own: the bundled model, ONNX models and rerankers from folders, Ollama and OpenAI
(providers).
Must hold: the contract suite of embedders passes; nothing heavy is imported before its first use.
"""

from __future__ import annotations

from truespan.tables import EmbeddingProvider, RerankerKind, Tables

_HERE = "truespan.extensions.models"


def register(tables: Tables) -> None:
    """Add the providers of embeddings, the rerankers, and the download of models."""
    tables.embedders |= {
        # The bundled model on the devices of `embedding_device`.
        "local": EmbeddingProvider(f"{_HERE}.torch_local:make_embedder"),
        "multilingual": EmbeddingProvider(f"{_HERE}.multilingual:make_embedder"),
        "sentence-transformers": EmbeddingProvider(
            f"{_HERE}.sentence_transformers:make_embedder",
            settings=f"{_HERE}.sentence_transformers:SentenceTransformersSettings",
        ),
        "google": EmbeddingProvider(
            f"{_HERE}.google:make_embedder",
            settings=f"{_HERE}.google:GoogleSettings",
        ),
    }
    tables.rerankers |= {
        "sentence-transformers": RerankerKind(f"{_HERE}.sentence_transformers:make_reranker"),
    }
    tables.members["truespan.download_model"] = f"{_HERE}.sentence_transformers:download_model"
