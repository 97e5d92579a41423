"""Every setting with its default, and what values it may have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from truespan.model.keys import ProviderKey
from truespan.model.profile import STANDARD_CHUNKING, ChunkingProfile

MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """How a library works. Each field has a default that needs no network and no key."""

    disk_reserve_mib: int = 256
    """Writes are refused when less than this would stay free."""
    index_idle_seconds: int = 300
    """The index process ends after this long without a request."""

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

    keys: tuple[ProviderKey, ...] = field(default=(), repr=False)
    chunkings: Mapping[str, ChunkingProfile] = field(default_factory=lambda: STANDARD_CHUNKING)

    @property
    def disk_reserve(self) -> int:
        """Return the reserve in bytes."""
        return self.disk_reserve_mib * MEBIBYTE


LEAST = {
    "disk_reserve_mib": 0,
    "index_idle_seconds": 1,
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
}
MOST = {"embedding_batch_items": 2048}
CHOICES = {
    "embedding_provider": ("local", "ollama", "openai", "google", "fastembed"),
    "on_token_limit": ("mean", "truncate", "skip"),
    "sanitize_enabled": ("off", "shadow", "on"),
    "sanitize_style": ("redact", "pseudonym"),
}
ADDRESSES = frozenset({"ollama_base_url", "openai_base_url", "google_base_url"})
REQUIRED = frozenset({"ollama_model", "openai_model", "google_model", "fastembed_model"})
SWITCHES = frozenset(
    {
        "docx_extract_images",
        "docx_inline_figure_placeholders",
        "docx_figure_chunks",
        "docx_image_debug",
        "sanitize_phones",
        "openai_keyless",
    }
)
NUMBERS = frozenset({"embedding_price_per_million"})
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
