"""Every setting with its type, bounds and default."""

# Annotations are evaluated here: `msgspec` converts values to them.
import typing
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, field

from truespan.types.job import MAX_CRASHES
from truespan.types.profile import STANDARD_CHUNKING, ChunkingProfile
from truespan.types.request import FUSED_WEIGHT, MAX_REQUESTED_TOKENS
from truespan.types.token import ProviderKey

MEBIBYTE = 1 << 20
LARGEST = 1_000_000_000
"""The largest whole number where no other limit is given: greater ones are typing errors."""

Count: TypeAlias = Annotated[int, Meta(ge=0, le=LARGEST)]
Positive: TypeAlias = Annotated[int, Meta(ge=1, le=LARGEST)]
Fraction: TypeAlias = Annotated[float, Meta(ge=0.0, le=1.0)]
Score: TypeAlias = Annotated[float, Meta(ge=-1.0, le=1.0)]
Name: TypeAlias = Annotated[str, Meta(pattern=r"\S")]
Url: TypeAlias = Annotated[str, Meta(title="url")]
OptionalUrl: TypeAlias = Annotated[str, Meta(title="url or blank")]
OptionalUrls: TypeAlias = Annotated[str, Meta(title="urls or blank")]
CommaSeparated: TypeAlias = Annotated[str, Meta(title="comma-separated list")]
"""A list in a settings file, or a text with commas."""


class Settings(Struct, frozen=True):
    """The settings of a library. The defaults need no network and no key."""

    disk_reserve_mib: Count = 256
    """Writes are refused while less than this is free."""
    store_url: str = ""
    """The PostgreSQL database of the store; blank for the file in the library."""
    store_url_file: str = ""
    """A file that contains store_url instead, relative to the library."""
    store_owner_url: str = ""
    """The same database for the role that owns the tables; used only to create and update them."""
    store_owner_url_file: str = ""
    """A file that contains store_owner_url instead, relative to the library."""
    store_pool_size: Annotated[int, Meta(ge=1, le=1000)] = 8
    """Database connections per process."""
    store_timeout_seconds: Annotated[int, Meta(ge=1, le=3600)] = 30
    """Time to wait for a statement, a lock or a free connection."""
    queue_most_waiting: Positive = 10_000
    """Jobs that may wait for workers; further ones are refused."""
    worker_tries: Annotated[int, Meta(ge=1, le=50)] = 8
    """Attempts at a job that fails for a temporary reason."""
    worker_crashes: Positive = MAX_CRASHES
    """After this many crashed workers a job is not tried again."""
    worker_stalled_seconds: Annotated[int, Meta(ge=2, le=86400)] = 60
    """A worker without a heartbeat for this long counts as gone."""
    worker_doctor_hours: Annotated[int, Meta(ge=0, le=8760)] = 0
    """How often workers run the doctor on each world; 0 for never."""

    index_idle_seconds: Positive = 300
    """The index process ends after this long without a request."""

    index_url: OptionalUrls = ""
    """The Qdrant server of the index; blank for the embedded index."""
    index_approximate_worlds: CommaSeparated = ""
    """Ids of worlds that are searched approximately."""
    qdrant_timeout_seconds: Positive = 30
    """Time for a request to the Qdrant server."""
    qdrant_ca_file: str = ""
    """Certificates to trust instead of the system's, relative to the library."""
    qdrant_prefix: Name = "truespan_"
    """Prefix of the collection names of this library."""
    qdrant_shards: Positive = 1
    """Shards of a collection, when it is created."""
    qdrant_replicas: Positive = 1
    """Replicas of each shard, when the collection is created."""
    qdrant_write_factor: Positive = 1
    """Replicas that must confirm a write."""
    qdrant_read_consistency: Literal["", "majority", "quorum", "all"] = ""
    """Replicas that must agree on a read; blank for any one."""
    qdrant_write_ordering: Literal["weak", "medium", "strong"] = "medium"
    """The order of writes on replicas."""

    ingest_hosts: CommaSeparated = ""
    """Hosts whose pages may be ingested, such as docs.example.org or *.example.org; blank: none."""
    ingest_private_addresses: bool = False
    """Whether these hosts may be at private and loopback addresses."""
    source_max_mib: Positive = 512
    """Larger files are refused."""
    loader_memory_mib: Annotated[int, Meta(ge=256, le=LARGEST)] = 1024
    """Memory of the process that parses documents."""
    loader_cpu_seconds: Positive = 8
    """Processor time for parsing a document; large ones get more."""
    ocr: Literal["off", "auto"] = "off"
    """Whether to recognise the text of images and scanned pages; needs the extra `ocr`."""
    ocr_cpu_seconds: Positive = 3600
    """Processor time for recognising the text of a document."""

    hidden_sheets: bool = False
    """Whether to read hidden sheets, rows and columns of workbooks."""
    running_heads: bool = False
    """Whether to keep running heads and page numbers of PDF files in their text."""
    copies: Literal["keep", "refuse", "link"] = "keep"
    """Treatment of a new file with the content of another document of the world."""

    docx_extract_images: bool = False
    """Whether to keep the images of documents."""
    docx_inline_figure_placeholders: bool = False
    """Whether to mark the place of each figure in the text."""
    docx_figure_chunks: bool = False
    """Whether figures become chunks of their own."""
    docx_image_debug: bool = False
    """Whether to report what was done with each image."""
    rag_assets_dir: str = ""
    """Folder for images; blank for `data/rag-assets` in the library."""

    sanitize_enabled: Literal["off", "shadow", "on"] = "off"
    """Personal data: ignored, only counted, or replaced."""
    sanitize_style: Literal["redact", "pseudonym"] = "redact"
    """Replace personal data by a label, or by a pseudonym that stays the same."""
    sanitize_profile: str = ""
    """A file with custom rules and an allow-list."""
    sanitize_phones: bool = True
    """Whether to look for telephone numbers, which takes most of the time."""
    sanitize_key_file: str = ""
    """The pseudonym key; blank for one generated in the library."""

    embedding_provider: Literal["local", "onnx", "ollama", "openai", "google", "fastembed"] = (
        "local"
    )
    """The embedding provider."""
    embedding_threads: Count = 0
    """Threads of the local model; 0 for one per core."""
    embedding_api_concurrency: Positive = 2
    """Concurrent requests to an embedding provider."""
    embedding_timeout_seconds: Annotated[int, Meta(ge=0, le=3600)] = 0
    """How long a request to an embedding provider may take; 0 for its usual time."""
    embedding_max_tokens_per_batch: Positive = 100_000
    """Tokens in one request to an embedding provider."""
    embedding_batch_items: Annotated[int, Meta(ge=1, le=2048)] = 2048
    """Texts in one request to an embedding provider."""
    embedding_requests_per_minute: Count = 0
    """Requests started per minute; 0 for no limit."""
    on_token_limit: Literal["mean", "truncate", "skip"] = "mean"  # noqa: S105 -- a token of a text
    """How to embed a text that is too long for the provider."""
    embedding_price_per_million: float = -1.0
    """US dollars per million tokens for dry runs; below 0 for the built-in prices."""

    model_folder: str = ""
    """A folder with model_quantized.onnx and tokenizer.json, instead of the installed model."""
    onnx_folder: str = ""
    """A folder with a model as ONNX and its tokenizer.json, relative to the library."""
    onnx_file: str = ""
    """The network file in it; blank for model.onnx, onnx/model.onnx or the only one."""
    onnx_model: str = ""
    """The model's name; blank for the one that the folder states, or the folder's own."""
    onnx_pooling: Literal["", "cls", "mean", "max", "last", "none"] = ""
    """How tokens become a vector; blank for what the folder says."""
    onnx_output: str = ""
    """The output of the network to use; blank for the usual one."""
    onnx_query_prefix: str | None = None
    """The text before each query; not set for what the folder or the model's family says."""
    onnx_document_prefix: str | None = None
    """The text before each text of a document; not set as for onnx_query_prefix."""
    onnx_dimensions: Count = 0
    """Dimensions of a vector; 0 for what the folder says."""
    onnx_max_length: Count = 0
    """Tokens that the model reads of a text, special tokens included; 0 for the folder's."""
    onnx_batch: Annotated[int, Meta(ge=0, le=1024)] = 0
    """Texts in a run; 0 for one on a processor or if quantised, otherwise 16."""
    onnx_device: Name = "cpu"
    """Where the model runs: cpu, or what the installed onnxruntime offers, such as cuda."""
    ollama_base_url: Url = "http://127.0.0.1:11434"
    """The URL of Ollama."""
    ollama_model: Name = "BAAI/bge-base-en-v1.5"
    """The embedding model of Ollama."""
    ollama_dimensions: Count = 0
    """Dimensions to which Ollama shortens vectors; 0 for the model's own."""
    openai_base_url: Url = "https://api.openai.com/v1"
    """The URL of a server with OpenAI's protocol."""
    openai_model: Name = "text-embedding-3-small"
    """The embedding model of that server."""
    openai_dimensions: Count = 0
    """Dimensions to which it shortens vectors; 0 for the model's own."""
    openai_input_limit: Count = 0
    """Tokens that the model reads of a text; 0 for the known limit, else 510."""
    openai_keyless: bool = False
    """Whether the server needs no key."""
    google_base_url: Url = "https://generativelanguage.googleapis.com"
    """The URL of Google AI Studio."""
    google_model: Name = "gemini-embedding-001"
    """The embedding model of Google."""
    google_dimensions: Count = 0
    """Dimensions to which it shortens vectors; 0 for the model's own."""
    fastembed_model: Name = "BAAI/bge-small-en-v1.5"
    """The model that the package fastembed runs."""

    world_defaults: Literal["recommended", "contract"] = "recommended"
    """The defaults of new worlds."""
    fused_weight: Fraction = FUSED_WEIGHT
    """Weight of words beside similarity in fused search: 0 for none, 1 for only words."""
    count_words: bool = True
    """Count words while ingesting; otherwise the first search by words of a world does it."""
    retrieval_max_tokens: Positive = MAX_REQUESTED_TOKENS
    """The largest token budget that a request may ask for."""

    rerank_kind: Literal["", "http", "fastembed", "onnx"] = ""
    """What reranks results: a server, fastembed or a model folder; blank for nothing."""
    rerank_url: OptionalUrl = ""
    """The endpoint of the rerank server."""
    rerank_shape: Literal["", "jina", "cohere", "tei", "llama.cpp"] = ""
    """The protocol of the rerank server; blank if the path of its URL tells it."""
    rerank_model: str = ""
    """The model that the server, or fastembed, reranks with."""
    rerank_folder: str = ""
    """A folder with model.onnx and tokenizer.json, relative to the library."""
    rerank_candidates: Annotated[int, Meta(ge=1, le=200)] = 30
    """How many of the first candidates are reranked."""
    rerank_timeout_seconds: Annotated[int, Meta(ge=1, le=300)] = 10
    """Time for reranking in one request."""
    rerank_concurrency: Positive = 4
    """Concurrent requests of a process to the rerank server."""

    chat_provider: Literal["", "openai", "ollama"] = ""
    """The chat provider for answers; blank for answers that are the passages themselves."""
    chat_model: str = ""
    """The model of chat_provider."""
    chat_fallback_provider: Literal["", "openai", "ollama"] = ""
    """The provider that answers without passages when none are good enough; blank for none."""
    chat_fallback_model: str = ""
    """The model of chat_fallback_provider."""
    chat_openai_base_url: Url = "https://api.openai.com/v1"
    """The URL of a server with OpenAI's protocol for chat."""
    chat_openai_keyless: bool = False
    """Whether that server needs no key."""
    chat_ollama_base_url: OptionalUrl = ""
    """The URL of Ollama for chat; blank for ollama_base_url."""
    chat_ollama_context: Annotated[int, Meta(ge=512, le=LARGEST)] = 8192
    """Context window for Ollama, in tokens: question, passages and answer."""
    chat_fallback_base_url: OptionalUrl = ""
    """The URL of the fallback's provider; blank for the provider's usual one."""
    chat_fallback_keyless: bool = False
    """Whether the server of the fallback model needs no key."""
    chat_max_tokens: Positive = 1024
    """Maximum tokens of a reply, including reasoning."""
    chat_temperature: Annotated[float, Meta(ge=0.0, le=2.0)] = 0.0
    """The sampling temperature."""
    chat_timeout_seconds: Positive = 120
    """Time for a whole reply."""

    answer_thresholds: Literal["", "contract", "calibrated"] = ""
    """Whether to use the thresholds below or those measured for the model; blank: as each world."""
    answer_threshold_low: Fraction = 0.25
    """Minimum similarity of a passage."""
    answer_threshold_high: Fraction = 0.55
    """Similarity of the best passage from which an answer is `rag`."""
    answer_short_query_max_tokens: Count = 3
    """Queries with at most this many words are short; 0 for none."""
    answer_short_query_threshold_low: Fraction = 0.28
    """The low threshold of short queries, if higher."""
    answer_short_query_threshold_high: Fraction = 0.58
    """The high threshold of short queries, if higher."""
    answer_min_similarity_for_hybrid: Fraction = 0.5
    """Check of `hybrid`: minimum similarity of the best passage."""
    answer_min_chunks_for_hybrid: Count = 1
    """Check of `hybrid`: minimum number of passages."""
    answer_min_total_context_chars: Count = 100
    """Check of `hybrid`: minimum number of characters in total."""
    answer_max_chunks: Positive = 6
    """Maximum passages sent to a chat model."""
    answer_max_context_chars: Positive = 8000
    """Maximum characters of passages sent to a chat model."""
    answer_exclude_chunk_types_from_llm: CommaSeparated = "figure"
    """Kinds of chunks that are not sent to a chat model."""
    answer_score_mode: Literal["normalized", "raw"] = "normalized"
    """Compare normalized similarities or raw scores with the thresholds."""
    answer_retrieval_distance: Literal["", "cosine", "dot"] = ""
    """The distance that every embedding profile must have; blank for any."""
    answer_raw_dot_low: Score | None = None
    """The low threshold of raw dot products; not set for none."""
    answer_raw_dot_high: Score | None = None
    """The high threshold of raw dot products."""
    answer_raw_cosine_low: Score | None = None
    """The low threshold of raw cosines; not set for none."""
    answer_raw_cosine_high: Score | None = None
    """The high threshold of raw cosines."""
    answer_support_floor: Fraction | None = None
    """The similarity from which on two sentences say the same; not set for the measured one."""
    usage_log_queries: bool = False
    """Whether the usage log contains queries; otherwise it contains keyed hashes of them."""
    usage_days: Annotated[int, Meta(ge=1, le=36500)] = 90
    """Days that the usage log keeps a request."""
    usage_records: Count = 10_000
    """Requests per world in the usage log; 0 for none."""

    conversations: bool = True
    """Whether conversations are kept, so that questions can follow up on earlier ones."""
    conversation_days: Annotated[int, Meta(ge=1, le=36500)] = 90
    """Days that a turn of a conversation is kept."""
    conversation_turns: Annotated[int, Meta(ge=1, le=10_000)] = 200
    """Turns of a conversation; the oldest are deleted first."""
    conversation_history_tokens: Annotated[int, Meta(ge=0, le=100_000)] = 1000
    """Tokens of earlier turns that a chat model gets with a question; 0 for none."""

    metrics: bool = False
    """Whether to collect Prometheus metrics."""
    tracing: bool = False
    """Whether to create OpenTelemetry spans."""
    log_format: Literal["text", "json"] = "text"
    """The format of log lines."""
    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    """The lowest level that a server logs."""

    http_hosts: CommaSeparated = ""
    """Further host names under which the server may be reached."""
    http_origins: CommaSeparated = ""
    """Origins whose pages may send requests; blank for none."""
    http_requests_per_minute: Count = 0
    """Requests per minute and token; 0 for no limit."""
    http_share_limits: bool = False
    """Whether all servers on one store count the requests of a token together."""
    http_body_max_kib: Annotated[int, Meta(ge=16, le=LARGEST)] = 1024
    """Larger bodies are refused, except uploads, which have source_max_mib."""
    http_timeout_seconds: Positive = 120
    """Time for a request."""

    keys: tuple[ProviderKey, ...] = ()
    chunkings: Mapping[str, ChunkingProfile] = field(default_factory=lambda: STANDARD_CHUNKING)
    embeddings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings of further embedding profiles, by name, where they differ from the library's."""
    written: frozenset[str] = frozenset()
    """The names of the settings that the operator gave, with any value."""

    def __repr__(self) -> str:
        """Return the settings without what may be secret."""
        shown = {name: getattr(self, name) for name in TYPES if name not in SECRETS}
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    @property
    def disk_reserve(self) -> int:
        return self.disk_reserve_mib * MEBIBYTE


def descriptions() -> dict[str, str]:
    """Return what each setting means: the text below it in this module."""
    import ast
    import inspect

    body = ast.parse(inspect.getsource(Settings)).body[0].body  # type: ignore[attr-defined]
    return {
        entry.target.id: text.value.value
        for entry, text in pairwise(body)
        if isinstance(entry, ast.AnnAssign)
        and isinstance(entry.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def split_list(text: str) -> tuple[str, ...]:
    """Return the entries of a comma-separated list, in lower case."""
    return tuple(part.strip().lower() for part in text.split(",") if part.strip())


_TABLES = frozenset({"keys", "chunkings", "embeddings", "written"})
TYPES = {name: kind for name, kind in Settings.__annotations__.items() if name not in _TABLES}
"""The type of each setting that is a single value."""


def base_type(name: str) -> type:
    """Return the plain type of a setting: bool, int, float or str."""
    kind = TYPES[name]
    if typing.get_origin(kind) is Literal:
        return str
    if type(None) in typing.get_args(kind):
        kind = typing.get_args(kind)[0]
    return typing.get_args(kind)[0] if hasattr(kind, "__metadata__") else kind


def constraints(name: str) -> Meta:
    """Return the bounds of a setting; empty if it has none."""
    for kind in (TYPES[name], *typing.get_args(TYPES[name])):
        for entry in getattr(kind, "__metadata__", ()):
            return entry
    return Meta()


def choices(name: str) -> tuple[str, ...]:
    """Return the allowed values of a setting that has a fixed list of them; otherwise none."""
    return typing.get_args(TYPES[name]) if typing.get_origin(TYPES[name]) is Literal else ()


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
        "sanitize_phones",
        "sanitize_key_file",
    )
}
"""Variables that other programs read as well; the same name with our prefix wins over them."""
