"""A server that speaks OpenAI's `/v1/embeddings`."""

from typing import Any

from tests.support.providers.loopback import Answer, Asked, Loopback, Reaction, numbers_of

PATH = "/v1/embeddings"


class OpenAi(Loopback):
    """Embeds with one model; a token is a word. `keys` are the ones it knows, None if it asks none.

    Like the real server, it refuses texts that are too long, too many, or for an unknown model.
    """

    def __init__(
        self,
        *,
        model: str = "text-embedding-3-small",
        dimensions: int = 64,
        context: int = 8191,
        keys: tuple[str, ...] | None = None,
    ) -> None:
        self.model, self.dimensions, self.context, self.keys = model, dimensions, context, keys
        self.reported = model
        self.most_texts = 2048
        super().__init__()

    @property
    def base(self) -> str:
        return f"{self.url}/v1"

    @property
    def embeds(self) -> list[dict[str, Any]]:
        return [asked.content for asked in self.to(PATH)]

    def answer(self, asked: Asked) -> Reaction:
        if (asked.method, asked.path) != ("POST", PATH):
            return complaint(404, f"Invalid URL ({asked.method} {asked.path})")
        if self.keys is not None and not self._knows(asked):
            return complaint(401, "Incorrect API key provided", code="invalid_api_key")
        wanted = asked.content
        if wanted["model"] != self.model:
            return complaint(
                404, f"The model `{wanted['model']}` does not exist", code="model_not_found"
            )
        return self._embedded(wanted)

    def _knows(self, asked: Asked) -> bool:
        given = asked.headers.get("authorization", "")
        return given.removeprefix("Bearer ") in (self.keys or ())

    def _embedded(self, wanted: dict[str, Any]) -> Answer:
        texts = wanted["input"]
        if len(texts) > self.most_texts:
            return complaint(
                400,
                f"Invalid 'input': array too long. Expected at most {self.most_texts}.",
                code="array_above_max_length",
            )
        if any(len(text.split()) > self.context for text in texts):
            return complaint(
                400, f"This model's maximum context length is {self.context} tokens, however"
            )
        size = wanted.get("dimensions") or self.dimensions
        return self.reply([numbers_of(text, self.dimensions)[:size] for text in texts])

    def reply(self, vectors: list[Any], **more: Any) -> Answer:
        content = {
            "object": "list",
            "data": [
                {"object": "embedding", "index": place, "embedding": vector}
                for place, vector in enumerate(vectors)
            ],
            "model": self.reported,
            "usage": {"prompt_tokens": 8, "total_tokens": 8},
        }
        return Answer(content=content | more)


def complaint(status: int, message: str, *, code: str | None = None, **headers: str) -> Answer:
    """Return an error in the words of the real server."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return Answer(status, {"error": error}, headers)
