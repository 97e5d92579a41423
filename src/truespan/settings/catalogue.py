"""Every setting with its type, bounds, default and description.

A setting in a section has a full name: `url` of `store` is `store_url` in `truespan.toml`, and
`TRUESPAN_STORE_URL` in the environment.
"""

# Annotations are evaluated here: `msgspec` converts values to them.
import typing
from collections.abc import Iterator, Mapping
from functools import reduce
from itertools import pairwise
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from truespan.tables import import_member, tables
from truespan.types.arguments import MAX_REQUESTED_TOKENS
from truespan.types.audience import AudienceRule
from truespan.types.profile import STANDARD_CHUNKING, ChunkingProfile
from truespan.types.request import FUSED_WEIGHT
from truespan.types.token import AccessRule, ProviderKey

MEBIBYTE = 1 << 20
MAX_NUMBER = 1_000_000_000
"""Maximum of whole numbers without another limit; a greater number is a typing error."""

Count: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]
Positive: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_NUMBER)]
Fraction: TypeAlias = Annotated[float, Meta(ge=0.0, le=1.0)]
Score: TypeAlias = Annotated[float, Meta(ge=-1.0, le=1.0)]
Name: TypeAlias = Annotated[str, Meta(pattern=r"\S")]
Url: TypeAlias = Annotated[str, Meta(title="url")]
OptionalUrl: TypeAlias = Annotated[str, Meta(title="url or blank")]
EndpointUrl: TypeAlias = Annotated[str, Meta(title="url with query or blank")]
CommaSeparated: TypeAlias = Annotated[str, Meta(title="comma-separated list")]
"""A list in a settings file, or a text with commas."""


ENGINE_CHOICES = {
    "embedders": ("local", "onnx", "ollama", "openai"),
    "rerankers": ("", "onnx"),
}
"""Values of settings that extensions add to: those of the engine, by the name of the table."""
Section = TypeVar("Section", bound=Struct)


class StoreSettings(Struct, frozen=True):
    """The store in PostgreSQL."""

    url: str = ""
    """PostgreSQL database of the store; blank for the file in the library."""
    url_file: str = ""
    """File that contains store_url, relative to the library."""
    owner_url: str = ""
    """The same database for the role that owns the tables; used only to create and update them."""
    owner_url_file: str = ""
    """File that contains store_owner_url, relative to the library."""


class IndexSettings(Struct, frozen=True):
    """The vector index, embedded or on a server."""

    idle_seconds: Positive = 300
    """Time without a request after which the index process ends."""
    url: OptionalUrl = ""
    """Qdrant server of the index; blank for the embedded index."""
    approximate_worlds: CommaSeparated = ""
    """Ids of worlds that are searched approximately."""


class QdrantSettings(Struct, frozen=True):
    """The Qdrant server."""

    ca_file: str = ""
    """Certificates to trust instead of the system's, relative to the library."""
    prefix: Name = "truespan_"
    """Prefix of the collection names of this library."""


class IngestSettings(Struct, frozen=True):
    """Processes of an ingestion, and web pages that may be ingested."""

    jobs: Annotated[int, Meta(ge=0, le=256)] = 0
    """Processes that prepare documents; 0 for one for each core, as far as there is memory."""
    hosts: CommaSeparated = ""
    """Hosts whose pages may be ingested, such as docs.example.org or *.example.org; blank: none."""
    private_addresses: bool = False
    """Whether these hosts may be at private and loopback addresses."""


class DocxSettings(Struct, frozen=True):
    """Images of documents."""

    extract_images: bool = False
    """Whether to keep the images of documents."""
    inline_figure_placeholders: bool = False
    """Whether to mark the place of each figure in the text."""
    figure_chunks: bool = False
    """Whether figures become separate chunks."""
    image_debug: bool = False
    """Whether to write a log line for each image."""


class SanitizeSettings(Struct, frozen=True):
    """Treatment of personal data."""

    enabled: Literal["off", "shadow", "on"] = "off"
    """Personal data: ignored, only counted, or replaced; needs the extra `sanitize`."""
    style: Literal["redact", "pseudonym"] = "redact"
    """Replacement of personal data: a label, or a pseudonym that stays the same."""
    profile: str = ""
    """File with custom rules and an allow-list."""


class EmbeddingSettings(Struct, frozen=True):
    """The embedding provider and its requests."""

    provider: Annotated[str, Meta(title="embedders")] = "local"
    """The embedding provider."""
    device: CommaSeparated = ""
    """Devices of a model with PyTorch: auto, cuda, mps or cpu; blank for the usual one."""
    threads: Count = 0
    """Threads of a model on this machine; 0 for one per core."""
    api_concurrency: Positive = 2
    """Concurrent requests to an embedding provider."""
    max_tokens_per_batch: Positive = 100_000
    """Maximum number of tokens in a request to an embedding provider."""
    requests_per_minute: Count = 0
    """Maximum number of requests started per minute; 0 for no limit."""


class OnnxSettings(Struct, frozen=True):
    """An embedding model in a folder."""

    folder: str = ""
    """Folder of a model as ONNX, relative to the library; model.toml in it may describe it."""


class OllamaSettings(Struct, frozen=True):
    """The embedding model of Ollama."""

    base_url: Url = "http://127.0.0.1:11434"
    """URL of Ollama."""
    model: Name = "BAAI/bge-base-en-v1.5"
    """Embedding model of Ollama."""
    dimensions: Count = 0
    """Dimensions to which Ollama shortens vectors; 0 for the model's own."""


class OpenAiSettings(Struct, frozen=True):
    """The embedding model of a server with OpenAI's protocol."""

    base_url: Url = "https://api.openai.com/v1"
    """URL of a server with OpenAI's protocol."""
    model: Name = "text-embedding-3-small"
    """Embedding model of the server."""
    dimensions: Count = 0
    """Dimensions to which the server shortens vectors; 0 for the model's own."""
    input_limit: Count = 0
    """Maximum number of tokens of a text; 0 for the model's known limit, otherwise 510."""
    keyless: bool = False
    """Whether the server needs no key."""


class RerankSettings(Struct, frozen=True):
    """The reranker."""

    kind: Annotated[str, Meta(title="rerankers")] = ""
    """Reranker of results; blank for none."""
    model: str = ""
    """Cross-encoder: a folder, relative to the library, or a name for sentence-transformers."""


class FallbackChatSettings(Struct, frozen=True):
    """The chat model that answers without passages."""

    provider: Literal["", "openai", "ollama"] = ""
    """Provider that answers without passages when no passage is good enough; blank for none."""
    model: str = ""
    """Model of chat_fallback_provider."""


class OpenAiChatSettings(Struct, frozen=True):
    """The chat server with OpenAI's protocol."""

    base_url: Url = "https://api.openai.com/v1"
    """URL of a server with OpenAI's protocol for chat."""
    keyless: bool = False
    """Whether the chat server needs no key."""


class OllamaChatSettings(Struct, frozen=True):
    """Ollama as a chat server."""

    base_url: OptionalUrl = ""
    """URL of Ollama for chat; blank for ollama_base_url."""
    context: Annotated[int, Meta(ge=512, le=MAX_NUMBER)] = 8192
    """Context window for Ollama, in tokens: question, passages and answer."""


class ChatSettings(Struct, frozen=True):
    """The chat models of answers."""

    provider: Literal["", "openai", "ollama"] = ""
    """Chat provider of answers; blank for answers that consist of passages."""
    model: str = ""
    """Model of chat_provider."""
    fallback: FallbackChatSettings = FallbackChatSettings()
    openai: OpenAiChatSettings = OpenAiChatSettings()
    ollama: OllamaChatSettings = OllamaChatSettings()
    max_tokens: Positive = 1024
    """Maximum number of tokens of a reply, including reasoning."""
    timeout_seconds: Positive = 120
    """Maximum time for a whole reply."""


class AnswerSettings(Struct, frozen=True):
    """Thresholds and limits of answers."""

    thresholds: Literal["", "contract", "calibrated"] = ""
    """Thresholds: of the settings, or measured for the model; blank: as each world."""
    min_evidence: Fraction | None = None
    """Minimum evidence of an answer where evidence decides; not set to derive it from the model."""
    threshold_low: Fraction = 0.25
    """Minimum similarity of a passage."""
    threshold_high: Fraction = 0.55
    """Similarity of the best passage from which an answer is `rag`."""
    short_query_max_tokens: Count = 3
    """Maximum number of words of a short query; 0 for no short queries."""
    short_query_threshold_low: Fraction = 0.28
    """Low threshold of short queries, if higher."""
    short_query_threshold_high: Fraction = 0.58
    """High threshold of short queries, if higher."""
    min_similarity_for_hybrid: Fraction = 0.5
    """Check of `hybrid`: minimum similarity of the best passage."""
    min_chunks_for_hybrid: Count = 1
    """Check of `hybrid`: minimum number of passages."""
    min_total_context_chars: Count = 100
    """Check of `hybrid`: minimum number of characters in total."""
    max_chunks: Positive = 6
    """Maximum number of passages sent to a chat model."""
    max_context_chars: Positive = 8000
    """Maximum number of characters of passages sent to a chat model."""
    exclude_chunk_types_from_llm: CommaSeparated = "figure"
    """Kinds of chunks that are not sent to a chat model."""
    score_mode: Literal["normalized", "raw"] = "normalized"
    """Scores that are compared with thresholds: normalized similarities or raw scores."""
    retrieval_distance: Literal["", "cosine", "dot"] = ""
    """Distance that every embedding profile must have; blank for any."""
    raw_dot_low: Score | None = None
    """Low threshold of raw dot products; not set for none."""
    raw_dot_high: Score | None = None
    """High threshold of raw dot products; not set for none."""
    raw_cosine_low: Score | None = None
    """Low threshold of raw cosines; not set for none."""
    raw_cosine_high: Score | None = None
    """High threshold of raw cosines; not set for none."""


class UsageSettings(Struct, frozen=True):
    """The usage log."""

    log_queries: bool = False
    """Whether the usage log contains queries; otherwise it contains keyed hashes of them."""
    days: Annotated[int, Meta(ge=0, le=36500)] = 90
    """Days that the usage log keeps a request; 0 for no log."""


class ConversationSettings(Struct, frozen=True):
    """Limits of conversations."""

    days: Annotated[int, Meta(ge=0, le=36500)] = 90
    """Days that a turn of a conversation is kept; 0 for no conversations."""


class LogSettings(Struct, frozen=True):
    """Log lines."""

    format: Literal["text", "json"] = "text"
    """Format of log lines."""
    level: Literal["debug", "info", "warning", "error"] = "warning"
    """Lowest level that a server logs."""


class HttpSettings(Struct, frozen=True):
    """The HTTP server."""

    hosts: CommaSeparated = ""
    """Further host names under which the server may be reached."""
    origins: CommaSeparated = ""
    """Origins whose pages may send requests; blank for none."""
    requests_per_minute: Count = 0
    """Maximum number of requests per minute and token; 0 for no limit."""


class AuthSettings(Struct, frozen=True):
    """Users of an OpenID Connect provider."""

    issuer: OptionalUrl = ""
    """Issuer whose signed tokens (JWT) are accepted, exactly as in the tokens; blank for none."""
    audience: str = ""
    """Audience that a token must name: the name of this library at the provider."""
    jwks_url: EndpointUrl = ""
    """URL of the provider's keys, with its query if it has one; https, except on this machine."""
    jwks_file: str = ""
    """File with the provider's keys instead of a URL, relative to the library."""
    client_id: str = ""
    """Client of the provider with which people sign in on the page; blank for tokens only."""
    authorize_url: EndpointUrl = ""
    """URL of the provider's sign-in."""
    token_url: EndpointUrl = ""
    """URL at which the page exchanges the code of a sign-in for a token."""


class Settings(Struct, frozen=True):
    """The settings of a library. The defaults need no network and no key."""

    store: StoreSettings = StoreSettings()
    index: IndexSettings = IndexSettings()
    qdrant: QdrantSettings = QdrantSettings()

    ingest: IngestSettings = IngestSettings()
    source_max_mib: Positive = 512
    """Maximum size of a file."""
    ocr: Literal["off", "auto"] = "off"
    """Whether to recognise the text of images and scanned pages; needs the extra `ocr`."""
    require_audience: bool = False
    """Whether a new document needs a declared audience, or one of a rule `[[audience]]`."""
    docx: DocxSettings = DocxSettings()
    rag_assets_dir: str = ""
    """Folder for images; blank for `data/rag-assets` in the library."""
    pictures_max_mib: Count = 1024
    """Space for drawn pages and kept uploads; the oldest are removed. 0 to draw none."""
    sanitize: SanitizeSettings = SanitizeSettings()

    embedding: EmbeddingSettings = EmbeddingSettings()
    on_token_limit: Literal["mean", "truncate", "skip"] = "mean"  # noqa: S105 -- a token of a text
    """Embedding of a text that is too long for the provider."""
    model_folder: str = ""
    """Folder with model_quantized.onnx and tokenizer.json, instead of the bundled model."""
    onnx: OnnxSettings = OnnxSettings()
    ollama: OllamaSettings = OllamaSettings()
    openai: OpenAiSettings = OpenAiSettings()

    world_defaults: Literal["recommended", "contract"] = "recommended"
    """Defaults of new worlds."""
    fused_weight: Fraction = FUSED_WEIGHT
    """Weight of words beside similarity in fused search: 0 for none, 1 for only words."""
    word_states: bool = True
    """Whether to store states of words in `recommended` worlds, if the embedding model has them."""
    retrieval_max_tokens: Positive = MAX_REQUESTED_TOKENS
    """Maximum token budget of a request."""
    rerank: RerankSettings = RerankSettings()
    sign_questions: bool = True
    """Whether signed receipts contain the question; otherwise they contain a keyed hash of it."""

    chat: ChatSettings = ChatSettings()
    answer: AnswerSettings = AnswerSettings()
    usage: UsageSettings = UsageSettings()
    conversation: ConversationSettings = ConversationSettings()

    metrics: bool = False
    """Whether to collect Prometheus metrics."""
    tracing: bool = False
    """Whether to create OpenTelemetry spans."""
    log: LogSettings = LogSettings()
    http: HttpSettings = HttpSettings()
    auth: AuthSettings = AuthSettings()

    auth_rules: tuple[AccessRule, ...] = ()
    """Rules `[[auth.rules]]`, of which the first that matches a user counts."""
    keys: tuple[ProviderKey, ...] = ()
    chunkings: Mapping[str, ChunkingProfile] = field(default_factory=lambda: STANDARD_CHUNKING)
    audiences: tuple[AudienceRule, ...] = ()
    """Rules `[[audience]]` for documents without a declared audience; the first that applies."""
    embeddings: Mapping[str, "Settings"] = field(default_factory=dict)
    """Settings with the embedding model of each table `[embedding.NAME]`, by name."""
    extensions: Mapping[str, Any] = field(default_factory=dict)
    """Given settings of extensions by their full names; see `section`."""
    written: frozenset[str] = frozenset()
    """Full names of the settings that the operator gave, with any value."""

    def __repr__(self) -> str:
        shown = (f"{name}={self.value_of(name)!r}" for name in TYPES if name not in SECRETS)
        return f"Settings({', '.join(shown)})"

    def value_of(self, name: str) -> Any:
        """Return the value of the setting with this full name."""
        if name in _PATHS:
            return reduce(getattr, _PATHS[name], self)
        [(section, kind)] = (
            each for each in extension_sections().items() if name.startswith(f"{each[0]}_")
        )
        return getattr(self.section(section, kind), name.removeprefix(f"{section}_"))

    def section(self, name: str, kind: type[Section]) -> Section:
        """Return a section of an extension, whose settings have the class `kind`."""
        given, prefix = self.extensions.items(), f"{name}_"
        return kind(**{n.removeprefix(prefix): v for n, v in given if n.startswith(prefix)})

    def with_values(self, values: Mapping[str, Any]) -> "Settings":
        """Return these settings with other values, given by full names."""
        extra = {name: value for name, value in values.items() if name not in TYPES}
        return replace(_with_values(self, values), extensions={**self.extensions, **extra})


_TABLES = ("audiences", "auth_rules", "keys", "chunkings", "embeddings", "extensions", "written")


def _walk(section: type[Struct], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, kind in section.__annotations__.items():
        if isinstance(kind, type) and issubclass(kind, Struct):
            yield from _walk(kind, (*path, name))
        elif path or name not in _TABLES:
            yield (*path, name)


def _type_at(path: tuple[str, ...]) -> Any:
    return reduce(lambda section, name: section.__annotations__[name], path, Settings)


def _with_values(section: Any, values: Mapping[str, Any], prefix: str = "") -> Any:
    changes: dict[str, Any] = {}
    for name in section.__struct_fields__:
        value, full_name = getattr(section, name), prefix + name
        if full_name in values:
            changes[name] = values[full_name]
        elif isinstance(value, Struct) and any(key.startswith(f"{full_name}_") for key in values):
            changes[name] = _with_values(value, values, f"{full_name}_")
    return replace(section, **changes)


_PATHS = {"_".join(path): path for path in _walk(Settings)}
TYPES = {name: _type_at(path) for name, path in _PATHS.items()}
"""The type of each setting of the engine, by its full name."""
SECTIONS = frozenset(
    "_".join(path[:end]) for path in _PATHS.values() for end in range(1, len(path))
)
"""Names of the sections, such as `chat` and `chat_fallback`; each may be a table of the file."""


def extension_sections() -> dict[str, type[Struct]]:
    """Return the classes of the settings of extensions, by the names of their sections."""
    rows = tables().embedders.items()
    return {n.replace("-", "_"): import_member(row.settings) for n, row in rows if row.settings}


def all_types() -> dict[str, Any]:
    """Return the type of each setting by its full name, those of extensions included."""
    return TYPES | {
        f"{section}_{member}": kind
        for section, fields in extension_sections().items()
        for member, kind in typing.get_type_hints(fields, include_extras=True).items()
    }


def type_of(name: str) -> Any:
    """Return the type of a setting; None if there is no such setting."""
    return TYPES.get(name) or all_types().get(name)


def descriptions() -> dict[str, str]:
    """Return the description of each setting by its full name: the text below it in its module."""
    import ast
    import inspect
    import sys

    sections = extension_sections()
    modules = {__name__, *(kind.__module__ for kind in sections.values())}
    texts = {
        (section.name, entry.target.id): text.value.value
        for module in modules
        for section in ast.parse(inspect.getsource(sys.modules[module])).body
        if isinstance(section, ast.ClassDef)
        for entry, text in pairwise(section.body)
        if isinstance(entry, ast.AnnAssign)
        and isinstance(entry.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }
    return {
        name: str(texts[_type_at(path[:-1]).__name__, path[-1]]) for name, path in _PATHS.items()
    } | {
        f"{section}_{member}": str(texts[kind.__name__, member])
        for section, kind in sections.items()
        for member in kind.__struct_fields__
    }


def split_list(text: str) -> tuple[str, ...]:
    """Return the entries of a comma-separated list, in lower case."""
    return tuple(part.strip().lower() for part in text.split(",") if part.strip())


def base_type(name: str) -> type:
    """Return the plain type of a setting: bool, int, float or str."""
    kind = type_of(name)
    if typing.get_origin(kind) is Literal:
        return str
    if type(None) in typing.get_args(kind):
        kind = typing.get_args(kind)[0]
    return typing.get_args(kind)[0] if hasattr(kind, "__metadata__") else kind


def constraints(name: str) -> Meta:
    """Return the bounds of a setting; empty if it has none."""
    own = type_of(name)
    for kind in (own, *typing.get_args(own)):
        for entry in getattr(kind, "__metadata__", ()):
            return entry
    return Meta()


def choices(name: str) -> tuple[str, ...]:
    """Return the allowed values of a setting that has a list of them; otherwise none."""
    table = constraints(name).title or ""
    if table in ENGINE_CHOICES:
        return tuple(dict.fromkeys((*ENGINE_CHOICES[table], *getattr(tables(), table))))
    own = type_of(name)
    return typing.get_args(own) if typing.get_origin(own) is Literal else ()


SECRETS = frozenset({"store_url", "store_owner_url"})
"""URLs that may contain a password, but not in a settings file, which people copy and show."""
SHARED_NAMES = {
    name.upper(): name
    for name in (
        "embedding_api_concurrency",
        "embedding_max_tokens_per_batch",
        "ollama_base_url",
        "docx_extract_images",
        "docx_inline_figure_placeholders",
        "docx_figure_chunks",
        "docx_image_debug",
        "rag_assets_dir",
        "sanitize_enabled",
        "sanitize_style",
        "sanitize_profile",
    )
}
"""Variables that other programs read as well; the same name with our prefix wins over them."""
