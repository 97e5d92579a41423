"""A server for embeddings of Google AI Studio."""

from typing import Any

from tests.support.providers.loopback import Answer, Asked, Loopback, Reaction, numbers_of

STATUSES = {
    400: "INVALID_ARGUMENT",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
}


class Google(Loopback):
    """Embeds and counts with one model; a token is a word. `keys` are the ones it knows.

    Like the real server, it silently cuts texts that are too long.
    """

    def __init__(
        self,
        *,
        model: str = "gemini-embedding-001",
        dimensions: int = 64,
        limit: int = 2048,
        keys: tuple[str, ...] | None = None,
    ) -> None:
        self.model, self.dimensions, self.limit, self.keys = model, dimensions, limit, keys
        self.version = "001"
        self.methods = ["embedContent", "countTextTokens", "countTokens"]
        super().__init__()

    @property
    def base(self) -> str:
        return self.url

    @property
    def path(self) -> str:
        return f"/v1beta/models/{self.model}"

    @property
    def embeds(self) -> list[list[dict[str, Any]]]:
        return [asked.content["requests"] for asked in self.to(f"{self.path}:batchEmbedContents")]

    @property
    def counts(self) -> list[str]:
        found = self.to(f"{self.path}:countTokens")
        return [asked.content["contents"][0]["parts"][0]["text"] for asked in found]

    def answer(self, asked: Asked) -> Reaction:
        if self.keys is not None and asked.headers.get("x-goog-api-key") not in self.keys:
            return complaint(400, "API key not valid. Please pass a valid API key.", INVALID)
        match (asked.method, asked.path.removeprefix(self.path)):
            case ("GET", ""):
                return Answer(content=self._about())
            case ("POST", ":countTokens"):
                [content] = asked.content["contents"]
                return Answer(content={"totalTokens": len(text_of(content).split())})
            case ("POST", ":batchEmbedContents"):
                return self._embedded(asked.content["requests"])
        return complaint(404, f"{asked.path} is not found for API version v1beta")

    def _about(self) -> dict[str, Any]:
        return {
            "name": f"models/{self.model}",
            "version": self.version,
            "displayName": "Gemini Embedding",
            "inputTokenLimit": self.limit,
            "outputTokenLimit": 1,
            "supportedGenerationMethods": self.methods,
        }

    def _embedded(self, requests: list[dict[str, Any]]) -> Answer:
        if len(requests) > 100:
            return complaint(
                400,
                "* BatchEmbedContentsRequest.requests: at most 100 requests can be in one batch",
            )
        return self.reply([self._vector(request) for request in requests])

    def _vector(self, request: dict[str, Any]) -> list[float]:
        assert request["model"] == f"models/{self.model}"
        read = " ".join(text_of(request["content"]).split()[: self.limit])
        size = request.get("outputDimensionality") or self.dimensions
        # What is cut to fewer dimensions comes unscaled from the real one too.
        return numbers_of(read, self.dimensions)[:size]

    def reply(self, vectors: list[Any]) -> Answer:
        return Answer(content={"embeddings": [{"values": vector} for vector in vectors]})


INVALID = {
    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
    "reason": "API_KEY_INVALID",
    "domain": "googleapis.com",
}


def delay(seconds: str) -> dict[str, Any]:
    """Return the retry delay of an error."""
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": seconds}


def complaint(status: int, message: str, *details: dict[str, Any]) -> Answer:
    """Return an error in the words of the real server."""
    error = {"code": status, "message": message, "status": STATUSES.get(status, "INTERNAL")}
    return Answer(status, {"error": error | {"details": list(details)}})


def text_of(content: dict[str, Any]) -> str:
    return "".join(part["text"] for part in content["parts"])
