"""A server for the protocols of rerankers; it scores by shared words."""

import re
from typing import Any

from tests.support.providers.loopback import Answer, Asked, Loopback, Reaction

PATHS = {"jina": "/v1/rerank", "cohere": "/v2/rerank", "tei": "/rerank", "llama.cpp": "/v1/rerank"}
MODEL = "word-ranker"


def shared_words(query: str, text: str) -> float:
    """Return the number of query words in a text, slightly less for each other word."""
    words = re.findall(r"\w+", text.lower())
    return len(set(re.findall(r"\w+", query.lower())).intersection(words)) - len(words) / 1000


class RerankServer(Loopback):
    """Reranks with one model. `keys` are the ones it knows, None if it asks none."""

    def __init__(self, shape: str = "jina", *, keys: tuple[str, ...] | None = None) -> None:
        self.shape, self.keys, self.path = shape, keys, PATHS[shape]
        super().__init__()

    @property
    def endpoint(self) -> str:
        return self.url + self.path

    def texts(self, asked: Asked) -> list[str]:
        return asked.content["texts" if self.shape == "tei" else "documents"]

    def answer(self, asked: Asked) -> Reaction:
        if (asked.method, asked.path) != ("POST", self.path):
            return Answer(404, {"error": "not found"})
        given = asked.headers.get("authorization", "").removeprefix("Bearer ")
        if self.keys is not None and given not in self.keys:
            return Answer(401, {"detail": "Unauthorized"})
        content = asked.content
        needs_model = self.shape in ("jina", "cohere")
        if needs_model and content.get("model") != MODEL:
            return Answer(404, {"detail": "model not found"})
        texts = self.texts(asked)
        if self.shape == "tei" and len(texts) > 32:
            complaint = f"batch size {len(texts)} > maximum allowed batch size 32"
            return Answer(422, {"error": complaint, "error_type": "Validation"})
        return self.reply([shared_words(content["query"], text) for text in texts])

    def reply(self, scores: list[Any], order: list[int] | None = None) -> Answer:
        """Return scores as real servers do: best first, or for llama.cpp in the order of texts."""
        places = list(range(len(scores))) if order is None else order
        if order is None and self.shape != "llama.cpp":
            places.sort(key=lambda place: -scores[place])
        name = "score" if self.shape == "tei" else "relevance_score"
        rows = [
            {"index": place, name: scores[n if order else place]} for n, place in enumerate(places)
        ]
        if self.shape == "tei":
            return Answer(content=rows)
        return Answer(content={"model": MODEL, "usage": {"total_tokens": 7}, "results": rows})
