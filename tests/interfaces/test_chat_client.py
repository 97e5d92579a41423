"""A published chat client, the command line of `llm`, against a server."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.interfaces.http_client import serve_library
from tests.promises import proves
from tests.support.answer_worlds import Scripted, study
from truespan.extensions.server.http.app import ServerOptions
from truespan.extensions.server.http.auth import AuthPolicy
from truespan.types.scope import UNLIMITED

PROGRAM = Path(__file__).parents[2] / ".venv-llm" / "bin" / "llm"
MODELS = """\
- model_id: world
  model_name: {model}
  api_base: http://127.0.0.1:{port}/v1
  api_key_name: truespan
"""

pytestmark = pytest.mark.system


@proves("http.openai")
@pytest.mark.parametrize("streams", [True, False])
def test_llm_asks_a_world_with_sources(tmp_path: Path, streams: bool) -> None:
    if not PROGRAM.exists():
        pytest.skip("llm is not installed; 'make test-chat-client' installs it")
    made = study(tmp_path / "study", primary=Scripted(["The keeper ", "did [1]."]))
    made.scores(0.9, 0.3)
    token = made.library.tokens.create("chat", worlds=UNLIMITED)[1].reveal()
    with serve_library(made.library, ServerOptions(auth=AuthPolicy(needs_token=True))) as server:
        [model] = [f"truespan/{world.name}" for world in made.library.worlds()]
        models = tmp_path / "extra-openai-models.yaml"
        models.write_text(MODELS.format(model=model, port=server.port))
        asked = ("--key", token, "-m", "world", "--no-log", *(() if streams else ("--no-stream",)))
        answered = _run(tmp_path, "prompt", *asked, "Who did it?")
        refused = _run(tmp_path, "prompt", "--key", "wrong", *asked[2:], "Who did it?")
    made.library.close()

    assert answered.returncode == 0, answered.stderr
    assert answered.stdout.startswith("The keeper did [1].")
    assert "[1] " in answered.stdout.removeprefix("The keeper did [1].")
    assert refused.returncode != 0
    assert "401" in refused.stderr


def _run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(PROGRAM), *words],
        env={**os.environ, "LLM_USER_PATH": str(folder), "NO_PROXY": "127.0.0.1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
