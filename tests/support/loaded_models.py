"""Local models that stay loaded between the tests of a process, and in its forks.

Hundreds of tests open a library with the model that Truespan is distributed with, one after the
other. Reading and checking its files takes longer than most of them, and no test changes them.
"""

from functools import cache
from importlib.util import find_spec
from typing import Any

from truespan.providers import cohort, local, onnx
from truespan.providers.local import BUNDLED_FOLDER, LocalModel
from truespan.providers.model_files import ModelFiles, read_checked
from truespan.providers.onnx import NetworkFiles

_KNOWN: dict[tuple[str, ...], Any] = {}


def keep_loaded_models() -> None:
    """Check the files of the distributed model once; keep tokenizers and networks of any model."""
    onnx._IN_USE = {}
    # `make border` leaves out extensions.
    if find_spec("truespan.extensions.models"):
        from truespan.extensions.models import sentencepiece

        read_tokenizer = cache(sentencepiece.read_tokenizer)
        sentencepiece.read_tokenizer = lambda content: read_tokenizer(content)
    # Some tests import onnxruntime themselves.
    onnx.disable_telemetry()
    # Errors are not kept.
    cohort.read_checked = local.read_checked = cache(read_checked)
    _keep(NetworkFiles, "check")
    _keep(ModelFiles, "_read_tokenizer")


def load_distributed_model() -> None:
    """Load the distributed model, so that the forks of this process have it."""
    model = LocalModel()
    model.tokenizer()
    onnx.open_session(model)


def _keep(kind: type[ModelFiles], method: str) -> None:
    """Keep what a method returns for a distributed file with an expected digest."""
    run = getattr(kind, method)

    def run_once(self: ModelFiles, *names: str) -> Any:
        # Models of other classes count what is read of them.
        if type(self) is not LocalModel or self.location != BUNDLED_FOLDER:
            return run(self, *names)
        key = (method, *names, *sorted(self.digests.values()))
        if key not in _KNOWN:
            _KNOWN[key] = run(self, *names)
        return _KNOWN[key]

    setattr(kind, method, run_once)
