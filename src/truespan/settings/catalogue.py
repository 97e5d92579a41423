"""Every setting with its default, and what values it may have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from truespan.types.job import MOST_CRASHES
from truespan.types.profile import STANDARD_CHUNKING, ChunkingProfile
from truespan.types.token import ProviderKey
from truespan.types.words import FUSED_WEIGHT

MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """How a library works. Each field has a default that needs no network and no key."""

    disk_reserve_mib: int = 256
    """Writes are refused when less than this would stay free."""
    store_url: str = field(default="", repr=False)
    """Where a PostgreSQL database holds the store; blank for the file in the library."""
    store_url_file: str = ""
    """A file that holds store_url instead; a relative path lies in the library."""
    store_owner_url: str = field(default="", repr=False)
    """The same database for the role that owns the tables, which only makes and updates them."""
    store_owner_url_file: str = ""
    store_pool_size: int = 8
    """Connections to the database that one process may have at a time."""
    store_timeout_seconds: int = 30
    """How long a statement, a lock or a free connection is waited for."""
    queue_most_waiting: int = 10_000
    """Jobs that may wait for workers; further ones are refused until some are done."""
    worker_tries: int = 8
    """How often a job is begun with that fails for a reason which may pass."""
    worker_crashes: int = MOST_CRASHES
    """After so many workers went away under a job, it is left to somebody who looks into it."""
    worker_stalled_seconds: int = 60
    """A worker that gave no sign of life for so long is taken to be gone."""
    worker_doctor_hours: int = 0
    """How often workers have the doctor look at each world; 0: not by themselves."""

    index_idle_seconds: int = 300
    """The index process ends after this long without a request."""

    index_url: str = ""
    """Where a Qdrant server holds the index; blank for the embedded one."""
    index_approximate_worlds: str = ""
    """Ids of worlds that are searched approximately on a server, divided by commas."""
    qdrant_grpc: bool = False
    qdrant_grpc_port: int = 6334
    qdrant_timeout_seconds: int = 30
    qdrant_ca_file: str = ""
    """Certificates to trust in place of this machine's; a relative path lies in the library."""
    qdrant_prefix: str = "truespan_"
    """What the names of this library's collections begin with."""
    qdrant_shards: int = 1
    qdrant_replicas: int = 1
    qdrant_write_factor: int = 1
    """How many replicas must have taken a write before it counts as done."""
    qdrant_read_consistency: str = ""
    """How many replicas must agree on what is read; blank for any one."""
    qdrant_write_ordering: str = "medium"

    source_max_mib: int = 512
    """Larger files are refused before they are read."""
    loader_memory_mib: int = 1024
    """Memory of the process that reads documents."""
    loader_cpu_seconds: int = 8
    """Time that reading a document may take; large ones get more."""

    docx_extract_images: bool = False
    docx_inline_figure_placeholders: bool = False
    docx_figure_chunks: bool = False
    docx_image_debug: bool = False
    rag_assets_dir: str = ""
    """Where images are kept; `data/rag-assets` in the library when blank."""

    sanitize_enabled: str = "off"
    """Whether personal data are looked for: not at all, counted only, or replaced."""
    sanitize_style: str = "redact"
    sanitize_profile: str = ""
    """A file with labels of one's own and an allow-list."""
    sanitize_phones: bool = True
    """Telephone numbers take most of the time."""
    sanitize_key_file: str = ""
    """The key of pseudonyms; one is made in the library when blank."""

    embedding_provider: str = "local"
    """Who embeds: the model on this machine, or one that is served elsewhere."""
    embedding_threads: int = 0
    """Threads of the local embedder; 0 means one for each core."""
    embedding_api_concurrency: int = 2
    embedding_max_tokens_per_batch: int = 100_000
    embedding_batch_items: int = 2048
    embedding_requests_per_minute: int = 0
    """Requests that may begin in a minute; 0 means as many as the provider bears."""
    on_token_limit: str = "mean"  # noqa: S105 -- a token of a text
    """What becomes of a text that the provider finds too long."""
    embedding_price_per_million: float = -1.0
    """Price of a million tokens for dry runs; below zero means the built-in table."""

    model_folder: str = ""
    """A folder with model_quantized.onnx and tokenizer.json, instead of the installed model."""
    ollama_base_url: str = "http://127.0.0.1:11434"
    ollama_model: str = "BAAI/bge-base-en-v1.5"
    ollama_dimensions: int = 0
    """To how many dimensions Ollama is asked to shorten vectors; 0 leaves them as they are."""
    openai_base_url: str = "https://api.openai.com/v1"
    openai_model: str = "text-embedding-3-small"
    openai_dimensions: int = 0
    openai_input_limit: int = 0
    """How many tokens of a text the model reads; 0 means what is known of it, else 510."""
    openai_keyless: bool = False
    """Whether the server asks for no key, as one on this machine may."""
    google_base_url: str = "https://generativelanguage.googleapis.com"
    google_model: str = "gemini-embedding-001"
    google_dimensions: int = 0
    fastembed_model: str = "BAAI/bge-small-en-v1.5"

    fused_weight: float = FUSED_WEIGHT
    """What words count for where they count beside similarity: 0 nothing, 1 all."""

    chat_provider: str = ""
    """Who writes answers; blank for nobody, and then an answer is the passages themselves."""
    chat_model: str = ""
    chat_fallback_provider: str = ""
    """Who answers without passages when none are good enough; blank for nobody."""
    chat_fallback_model: str = ""
    chat_openai_base_url: str = "https://api.openai.com/v1"
    chat_openai_keyless: bool = False
    chat_ollama_base_url: str = ""
    """Where Ollama is reached for chat; as for embedding when blank."""
    chat_ollama_context: int = 8192
    """Tokens that Ollama is told to let a model read: question, passages and answer."""
    chat_fallback_base_url: str = ""
    """Where the fallback's provider is reached; where the other model's would be when blank."""
    chat_fallback_keyless: bool = False
    chat_max_tokens: int = 1024
    chat_temperature: float = 0.0
    chat_timeout_seconds: int = 120

    answer_thresholds: str = "contract"
    """Whether the thresholds below count, or those that were measured for the model."""
    answer_threshold_low: float = 0.25
    answer_threshold_high: float = 0.55
    answer_short_query_max_tokens: int = 3
    answer_short_query_threshold_low: float = 0.28
    answer_short_query_threshold_high: float = 0.58
    answer_min_similarity_for_hybrid: float = 0.5
    answer_min_chunks_for_hybrid: int = 1
    answer_min_total_context_chars: int = 100
    answer_max_chunks: int = 6
    answer_max_context_chars: int = 8000
    answer_exclude_chunk_types_from_llm: str = "figure"
    """Kinds of chunks that no model is given, divided by commas."""
    answer_score_mode: str = "normalized"
    answer_retrieval_distance: str = ""
    """The distance that every embedding profile must have; blank for any."""
    answer_raw_dot_low: float | None = None
    answer_raw_dot_high: float | None = None
    answer_raw_cosine_low: float | None = None
    answer_raw_cosine_high: float | None = None
    usage_log_queries: bool = False
    """Whether the usage log has queries as they were asked; else it has keyed hashes of them."""
    usage_days: int = 90
    usage_records: int = 10_000
    """How many answered requests the log keeps of each world; 0 for none."""

    metrics: bool = False
    """Whether requests are counted and timed for Prometheus."""
    tracing: bool = False
    """Whether requests are told to OpenTelemetry."""
    log_format: str = "text"
    log_level: str = "warning"
    """The least weight of a line in the log of a server."""

    http_hosts: str = ""
    """Further names under which the server may be asked, divided by commas."""
    http_origins: str = ""
    """Origins whose pages may ask the server, divided by commas; none when blank."""
    http_requests_per_minute: int = 0
    """How many requests each token may send in a minute; 0 for any number."""
    http_body_max_kib: int = 1024
    """Larger bodies are refused; uploads have source_max_mib."""
    http_timeout_seconds: int = 120
    """How long a request may take before it is answered that it took too long."""

    keys: tuple[ProviderKey, ...] = field(default=(), repr=False)
    chunkings: Mapping[str, ChunkingProfile] = field(default_factory=lambda: STANDARD_CHUNKING)
    embeddings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings of further embedding profiles, by name, where they differ from the library's."""

    @property
    def http_hosts_listed(self) -> tuple[str, ...]:
        """Return the further host names, in small letters."""
        return _listed(self.http_hosts)

    @property
    def http_origins_listed(self) -> tuple[str, ...]:
        """Return the origins that may ask, in small letters."""
        return _listed(self.http_origins)

    @property
    def approximate_worlds_listed(self) -> tuple[str, ...]:
        """Return the ids of worlds that are searched approximately, in small letters."""
        return _listed(self.index_approximate_worlds)

    @property
    def disk_reserve(self) -> int:
        """Return the reserve in bytes."""
        return self.disk_reserve_mib * MEBIBYTE


def _listed(spelled: str) -> tuple[str, ...]:
    return tuple(part.strip().lower() for part in spelled.split(",") if part.strip())


LEAST = {
    "disk_reserve_mib": 0,
    "store_pool_size": 1,
    "store_timeout_seconds": 1,
    "queue_most_waiting": 1,
    "worker_tries": 1,
    "worker_crashes": 1,
    "worker_stalled_seconds": 2,
    "worker_doctor_hours": 0,
    "index_idle_seconds": 1,
    "qdrant_grpc_port": 1,
    "qdrant_timeout_seconds": 1,
    "qdrant_shards": 1,
    "qdrant_replicas": 1,
    "qdrant_write_factor": 1,
    "source_max_mib": 1,
    "loader_memory_mib": 256,
    "loader_cpu_seconds": 1,
    "embedding_threads": 0,
    "embedding_api_concurrency": 1,
    "embedding_max_tokens_per_batch": 1,
    "embedding_batch_items": 1,
    "embedding_requests_per_minute": 0,
    "ollama_dimensions": 0,
    "openai_dimensions": 0,
    "openai_input_limit": 0,
    "google_dimensions": 0,
    "chat_ollama_context": 512,
    "chat_max_tokens": 1,
    "chat_timeout_seconds": 1,
    "answer_short_query_max_tokens": 0,
    "answer_min_chunks_for_hybrid": 0,
    "answer_min_total_context_chars": 0,
    "answer_max_chunks": 1,
    "answer_max_context_chars": 1,
    "usage_days": 1,
    "usage_records": 0,
    "http_requests_per_minute": 0,
    "http_body_max_kib": 16,
    "http_timeout_seconds": 1,
}
MOST = {
    "embedding_batch_items": 2048,
    "usage_days": 36_500,
    "qdrant_grpc_port": 65_535,
    "store_pool_size": 1000,
    "store_timeout_seconds": 3600,
    "worker_tries": 50,
    "worker_stalled_seconds": 86_400,
    "worker_doctor_hours": 8760,
}
MOST_WHOLE = 1_000_000_000
"""The most of every other whole number: greater ones are slips, and some count in SQLite."""
CHOICES = {
    "embedding_provider": ("local", "ollama", "openai", "google", "fastembed"),
    "chat_provider": ("", "openai", "ollama"),
    "chat_fallback_provider": ("", "openai", "ollama"),
    "answer_thresholds": ("contract", "calibrated"),
    "answer_score_mode": ("normalized", "raw"),
    "answer_retrieval_distance": ("", "cosine", "dot"),
    "on_token_limit": ("mean", "truncate", "skip"),
    "sanitize_enabled": ("off", "shadow", "on"),
    "sanitize_style": ("redact", "pseudonym"),
    "qdrant_read_consistency": ("", "majority", "quorum", "all"),
    "qdrant_write_ordering": ("weak", "medium", "strong"),
    "log_format": ("text", "json"),
    "log_level": ("debug", "info", "warning", "error"),
}
ADDRESSES = frozenset(
    {
        "index_url",
        "ollama_base_url",
        "openai_base_url",
        "google_base_url",
        "chat_openai_base_url",
        "chat_ollama_base_url",
        "chat_fallback_base_url",
    }
)
MAY_BE_BLANK = frozenset({"index_url", "chat_ollama_base_url", "chat_fallback_base_url"})
"""Addresses that stand for another one, or for none, while nobody sets them."""
REQUIRED = frozenset(
    {"ollama_model", "openai_model", "google_model", "fastembed_model", "qdrant_prefix"}
)
SECRETS = frozenset({"store_url", "store_owner_url"})
"""Addresses that may hold a password, but not in a settings file, which is copied and shown."""
SWITCHES = frozenset(
    {
        "qdrant_grpc",
        "docx_extract_images",
        "docx_inline_figure_placeholders",
        "docx_figure_chunks",
        "docx_image_debug",
        "sanitize_phones",
        "openai_keyless",
        "chat_openai_keyless",
        "chat_fallback_keyless",
        "usage_log_queries",
        "metrics",
        "tracing",
    }
)
NUMBERS = {
    "embedding_price_per_million": (-math.inf, math.inf),
    "chat_temperature": (0.0, 2.0),
    "fused_weight": (0.0, 1.0),
    "answer_threshold_low": (0.0, 1.0),
    "answer_threshold_high": (0.0, 1.0),
    "answer_short_query_threshold_low": (0.0, 1.0),
    "answer_short_query_threshold_high": (0.0, 1.0),
    "answer_min_similarity_for_hybrid": (0.0, 1.0),
    "answer_raw_dot_low": (-1.0, 1.0),
    "answer_raw_dot_high": (-1.0, 1.0),
    "answer_raw_cosine_low": (-1.0, 1.0),
    "answer_raw_cosine_high": (-1.0, 1.0),
}
"""Settings that may have a fraction, with the least and the most they may be."""
OPTIONAL = frozenset(name for name in NUMBERS if name.startswith("answer_raw_"))
"""Numbers that need not be given at all: blank stands for none."""
LISTS = frozenset(
    {
        "answer_exclude_chunk_types_from_llm",
        "http_hosts",
        "http_origins",
        "index_approximate_worlds",
    }
)
"""Texts with commas that may be lists in a file."""
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
"""Variables that other programs of this field read as well; our own spelling wins over them."""
