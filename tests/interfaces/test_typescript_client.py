"""The TypeScript client: built from the OpenAPI document, and used against a server."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.interfaces.http_client import serve_library
from tests.promises import proves
from tests.support.answer_worlds import Scripted, study
from truespan.extensions.server.http.app import ServerOptions
from truespan.extensions.server.http.auth import AuthPolicy
from truespan.types.scope import UNLIMITED

CLIENT = Path(__file__).parents[2] / "clients" / "typescript"
BUILT = CLIENT / "dist" / "index.js"

pytestmark = pytest.mark.system


@proves("http.typescript")
def test_typescript_client_searches_streams_and_throws(tmp_path: Path) -> None:
    if shutil.which("node") is None or not BUILT.exists():
        pytest.skip("the TypeScript client is not built; 'make typescript' builds it")
    made = study(tmp_path, primary=Scripted(["The keeper ", "did [1]."]))
    made.scores(0.9, 0.3)
    token = made.library.tokens.create("app", worlds=UNLIMITED)[1].reveal()
    options = ServerOptions(auth=AuthPolicy(needs_token=True))
    with serve_library(made.library, options) as server:
        done = subprocess.run(
            ["node", str(CLIENT / "test.mjs")],
            env={**os.environ, "BASE": f"http://127.0.0.1:{server.port}/", "TOKEN": token},
            capture_output=True,
            text=True,
            timeout=60,
        )
    made.library.close()

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["passages"] == 1
    assert found["kinds"] == ["started", "piece", "finished"]
    assert "".join(found["pieces"]) == found["answer"] == "The keeper did [1]."
    assert found["aborted"] == "AbortError"
    assert found["problems"] == [
        [True, 404, "world_not_found", False],
        [True, 404, "world_not_found", False],
        [True, 401, "unauthorized", False],
    ]
