"""Embedders with a network in the ONNX format on this machine.

A vector is a function of the text alone, bit for bit. A quantised network derives its scales from
all inputs of a run, so texts in one run would affect each other: each text gets its own run, on one
core, and the cores work in parallel.
"""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import cached_property
from hashlib import sha256
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from truespan.errors import InvalidConfiguration, ModelUnavailable, ProviderBadReply
from truespan.providers.model_files import (
    DESCRIPTION_FILE,
    TOKENIZER_FILE,
    ModelDescription,
    whole_number,
)
from truespan.providers.onnx import (
    FolderFiles,
    NetworkFiles,
    Workers,
    open_session,
    require_known_inputs,
    run_tokens,
)
from truespan.providers.tokenized import Input, Output, Result, TokenizedEmbedder, TokenizedModel
from truespan.types.profile import Distance, EmbeddingProfile
from truespan.types.vectors import Vector

if TYPE_CHECKING:
    import numpy
    from onnxruntime import InferenceSession

_MAX_THREADS = 8
"""Default maximum of threads: each may need 40 MB for the longest text."""
_SENTENCE_OUTPUTS = ("sentence_embedding",)
_TOKEN_OUTPUTS = ("last_hidden_state", "token_embeddings")
"""Usual names of outputs with a vector for each text, and for each token."""


class Pooling(StrEnum):
    """Pooling of the states of a text's tokens into one vector."""

    CLS = "cls"
    MEAN = "mean"
    MAX = "max"
    LAST = "last"
    NONE = "none"
    """The network itself returns one vector for each text."""


class OnnxModel(TokenizedModel, frozen=True, kw_only=True):
    """Everything needed to embed with a network."""

    pooling: Pooling
    output: str = ""
    """Output to use; blank for the usual one."""
    states_output: str = ""
    """Output with a state for each token, if it is another."""


class _Loaded(Struct, frozen=True):
    session: Any
    output: str
    workers: Workers


class OnnxEmbedder(TokenizedEmbedder):
    """An embedder with a network in the ONNX format on this machine."""

    def __init__(self, files: NetworkFiles, *, threads: int | None = None) -> None:
        super().__init__(files)
        self._network_files = files
        self._threads = threads or min(os.cpu_count() or 1, _MAX_THREADS)
        self._loading = Lock()
        self._loaded: _Loaded | None = None

    def gives_word_states(self) -> bool:
        return self._model.pooling is not Pooling.NONE or bool(self._model.states_output)

    @abstractmethod
    def _describe(self) -> OnnxModel: ...

    @cached_property
    def _model(self) -> OnnxModel:
        return self._describe()

    def _embed_one(self, text: Input, *, states: bool = False) -> Output:
        return self._run(self._load(), text, states=states)

    def _embed(
        self,
        inputs: Sequence[Input],
        read: Callable[[Input, Output], Result],
        *,
        states: bool = False,
    ) -> list[Result]:
        if not inputs:
            return []
        loaded = self._load()
        # The longest go first, so that no core is left with a long text at the end.
        order = sorted(range(len(inputs)), key=lambda i: len(inputs[i].encoding), reverse=True)
        return loaded.workers.map(
            lambda i: read(inputs[i], self._run(loaded, inputs[i], states=states)), order
        )

    def _run(self, loaded: _Loaded, text: Input, *, states: bool) -> Output:
        model, where = self._model, self._network_files.path(self._network_files.network)
        outputs = [loaded.output]
        if states and model.states_output:
            outputs.append(model.states_output)
        try:
            [state], *others = run_tokens(loaded.session, outputs, text.encoding)
        except Exception as failure:  # The runtime's own errors have no common root.
            raise ModelUnavailable(
                f"The network {where} failed at a text of {len(text.encoding.ids)} tokens.",
                advice=f"If shorter texts work, set a smaller max_length in {DESCRIPTION_FILE}.",
            ) from failure
        vector = _pool(state, model.pooling)
        if vector is None:
            raise ProviderBadReply(
                f"The network {where} gave a vector that is zero or not a number.",
                advice="Export the model again, without reduced precision.",
            )
        if len(vector) != 4 * model.profile.dimensions:
            raise self._wrong_dimensions(len(vector) // 4)
        return Output(vector, others[0] if others else state)

    def _load(self) -> _Loaded:
        with self._loading:
            if self._loaded is None:
                session = open_session(self._network_files)
                require_known_inputs(session, self._network_files)
                output = self._choose_output(session)
                self._loaded = _Loaded(session, output, Workers(self._threads))
            return self._loaded

    def _choose_output(self, session: InferenceSession) -> str:
        model, rank = self._model, 2 if self._model.pooling is Pooling.NONE else 3
        shapes = {entry.name: entry.shape for entry in session.get_outputs()}
        fitting = [name for name, shape in shapes.items() if len(shape or ()) == rank]
        usual = _SENTENCE_OUTPUTS if rank == 2 else _TOKEN_OUTPUTS
        for name in [model.output] if model.output else [*usual, *fitting]:
            if name in fitting:
                width = shapes[name][-1]
                if not isinstance(width, int) or width == model.profile.dimensions:
                    return name
        raise self._wrong_dimensions(None)

    def _wrong_dimensions(self, found: int | None) -> ModelUnavailable:
        wanted, files = self._model.profile.dimensions, self._network_files
        return ModelUnavailable(
            f"The network {files.path(files.network)} does not give vectors of {wanted} dimensions"
            + (f" but of {found}." if found else "."),
            advice=f"The model folder must hold {self._model.profile.model} as ONNX; check also "
            f"pooling, output and dimensions in its {DESCRIPTION_FILE}.",
        )


def _pool(states: numpy.ndarray, pooling: Pooling) -> Vector | None:
    import numpy

    match pooling:
        case Pooling.CLS:
            pooled = states[0].astype(numpy.float64)
        case Pooling.LAST:
            pooled = states[-1].astype(numpy.float64)
        case Pooling.MAX:
            pooled = states.max(axis=0).astype(numpy.float64)
        case Pooling.MEAN:
            pooled = states.astype(numpy.float64).mean(axis=0)
        case Pooling.NONE:
            pooled = states.astype(numpy.float64)
    # Computed in double precision, so that the vector is rounded only once.
    length = numpy.sqrt(numpy.sum(pooled * pooled))
    if not 0 < length < numpy.inf:
        return None
    return Vector((pooled / length).astype("<f4").tobytes())


# Shared by threads: the network is loaded under a lock; its threads work on one text each; what is
# known of a model is computed from its files, the same for every thread.
class FolderEmbedder(OnnxEmbedder):
    """An embedder with a model that was exported into a folder, as for sentence-transformers.

    Besides the network and `tokenizer.json`, the folder may contain the configuration files of such
    an export. A property that neither these files nor the options state is an error, not a guess.
    """

    provider: ClassVar[str] = "onnx"

    def __init__(
        self,
        folder: Path,
        description: ModelDescription | None = None,
        *,
        threads: int | None = None,
    ) -> None:
        """Prepare a model; `description` replaces `model.toml`."""
        self._folder = FolderFiles(folder, description)
        super().__init__(self._folder, threads=threads)

    def _describe(self) -> OnnxModel:
        folder = self._folder
        pooling, name = self._pooling(), folder.stated_name()
        prefixes = folder.prefixes(name)
        tokenizer = folder.tokenizer()
        limit = folder.max_length() - tokenizer.num_special_tokens_to_add(False)
        prefix = tokenizer.encode(prefixes.document, add_special_tokens=False)
        return OnnxModel(
            EmbeddingProfile(
                provider=self.provider,
                model=name,
                revision=self._revision(pooling, folder.lowercase),
                dimensions=self._dimensions(pooling),
                distance=Distance.COSINE,
                document_mode=prefixes.modes[0],
                query_mode=prefixes.modes[1],
                input_limit=max(limit - len(prefix.ids), 1),
            ),
            prefixes,
            limit,
            folder.lowercase,
            pooling=pooling,
            output=folder.description.output,
        )

    def _revision(self, pooling: Pooling, lowercase: bool) -> str:
        digests = self._folder.digests
        others = {name: digests[name] for name in digests if name != self._folder.network}
        tokenizer = others.pop(TOKENIZER_FILE)
        decisive = {
            "network": digests[self._folder.network],
            "weights": {PurePosixPath(name).name: others[name] for name in sorted(others)},
            "tokenizer": tokenizer,
            "pooling": pooling.value,
            "output": self._folder.description.output,
            "lowercase": lowercase,
        }
        text = json.dumps(decisive, sort_keys=True, separators=(",", ":"))
        return f"sha256:{sha256(text.encode()).hexdigest()}"

    def _pooling(self) -> Pooling:
        folder, description = self._folder, self._folder.description
        if description.pooling:
            return Pooling(description.pooling)
        [sentence] = _SENTENCE_OUTPUTS
        if sentence in folder.contents.outputs and description.output in ("", sentence):
            return Pooling.NONE
        modules = folder.configuration("modules.json").get("entries", [])
        entries = [entry if isinstance(entry, dict) else {} for entry in modules]
        kinds = {str(entry.get("type", "")).split(".")[-1]: entry for entry in entries}
        if further := kinds.keys() - {"Transformer", "Pooling", "Normalize"}:
            raise self._undecided(
                f"modules.json has a module {sorted(further)[0]!r}, which the network does not have"
            )
        place = str(kinds.get("Pooling", {}).get("path", "1_Pooling"))
        stated = folder.configuration(f"{place}/config.json")
        names = {
            "pooling_mode_cls_token": Pooling.CLS,
            "pooling_mode_mean_tokens": Pooling.MEAN,
            # The same direction as the mean.
            "pooling_mode_mean_sqrt_len_tokens": Pooling.MEAN,
            "pooling_mode_max_tokens": Pooling.MAX,
            "pooling_mode_lasttoken": Pooling.LAST,
        }
        chosen = {key for key, value in stated.items() if key in names and value is True}
        if stated.get("pooling_mode") in ("cls", "mean", "max", "lasttoken"):
            chosen = {
                {"lasttoken": "pooling_mode_lasttoken", "cls": "pooling_mode_cls_token"}.get(
                    stated["pooling_mode"], f"pooling_mode_{stated['pooling_mode']}_tokens"
                )
            }
        if len(chosen) != 1 or stated.get("include_prompt") is False:
            raise self._undecided("The folder does not state the pooling of the model")
        return names[chosen.pop()]

    def _undecided(self, reason: str) -> InvalidConfiguration:
        return InvalidConfiguration(
            f"{reason} ({self._folder.location}).",
            advice=f"Set pooling in {DESCRIPTION_FILE} to 'cls', 'mean', 'max' or 'last', as the "
            "model's publisher says, or export the model with the output 'sentence_embedding'.",
        )

    def _dimensions(self, pooling: Pooling) -> int:
        """Return the dimensions, which are checked when the network is loaded and run."""
        outputs, config = self._folder.contents.outputs, self._folder.configuration("config.json")
        names = _SENTENCE_OUTPUTS if pooling is Pooling.NONE else _TOKEN_OUTPUTS
        description = self._folder.description
        stated = [outputs.get(name) for name in (description.output, *names)]
        stated += [config.get(name) for name in ("hidden_size", "d_model", "dim")]
        known = (whole_number(value) for value in (description.dimensions, *stated))
        found = next((value for value in known if value), None)
        if found is None:
            raise InvalidConfiguration(
                f"The folder {self._folder.location} does not state the dimensions of a vector.",
                advice=f"Set dimensions in {DESCRIPTION_FILE}, as the model's publisher says.",
            )
        return found
