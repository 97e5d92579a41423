"""The published packages of OpenAI, for Python and JavaScript, as clients of a library."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.library import QUESTION, Shelf, require
from tests.interfaces.http_client import serve_library
from tests.promises import proves
from truespan.types.scope import UNLIMITED

PACKAGES = Path(__file__).parents[2] / ".venv" / "npm" / "node_modules"
UNREAD = [f"Chapter {number}" for number in range(3, 7)]
SCRIPT = """
import { createRequire } from "node:module";
const OpenAI = createRequire(process.env.PACKAGES + "/")("openai").OpenAI;
const client = new OpenAI({ baseURL: process.env.BASE, apiKey: process.env.TOKEN });
const messages = [{ role: "user", content: process.env.QUESTION }];
const models = [];
for await (const model of client.models.list()) models.push(model.id);
let text = "";
const chats = client.chat.completions;
const parts = await chats.create({ model: "truespan/world@ada", messages, stream: true });
for await (const part of parts) text += part.choices[0]?.delta?.content ?? "";
const vectors = await client.embeddings.create({ model: "truespan/world", input: ["a", "b"] });
let error = "";
const failed = chats.create({ model: "truespan/none", messages });
await failed.catch((found) => (error = found.message));
console.log(JSON.stringify({ models, text, vectors: vectors.data.length, error }));
"""


def token_for(shelf: Shelf) -> str:
    tokens = shelf.place.library.tokens
    return tokens.create("chat", worlds=UNLIMITED, verbs=["read", "follow"])[1].reveal()


@proves("http.openai")
def test_python_client_asks_worlds_and_readers(shelf: Shelf) -> None:
    require("openai")
    package = import_module("openai")
    messages: Any = [{"role": "user", "content": QUESTION}]
    with serve_library(shelf.place.library) as server:
        base = f"http://127.0.0.1:{server.port}/v1"
        with package.OpenAI(base_url=base, api_key=token_for(shelf), max_retries=0) as client:
            models = [model.id for model in client.models.list()]
            whole = client.chat.completions.create(model="truespan/world", messages=messages)
            stream = client.chat.completions.create(
                model="truespan/world@ada", messages=messages, stream=True
            )
            read = "".join(part.choices[0].delta.content or "" for part in stream)
            vectors = client.embeddings.create(model="truespan/world", input=["a", "b"]).data
            with pytest.raises(package.NotFoundError, match="There is no world 'none'"):
                client.chat.completions.create(model="truespan/none", messages=messages)

    assert models == ["truespan/world", "truespan/world@ada"]
    assert any(name in (whole.choices[0].message.content or "") for name in UNREAD)
    assert "Chapter 1" in read
    assert not [name for name in UNREAD if name in read]
    assert len(vectors) == 2


@proves("http.openai")
def test_javascript_client_asks_worlds_and_readers(shelf: Shelf) -> None:
    if shutil.which("node") is None or not (PACKAGES / "openai").is_dir():
        pytest.skip("node or its package openai is not installed; `make test-frameworks` tries to")
    with serve_library(shelf.place.library) as server:
        variables = {
            "BASE": f"http://127.0.0.1:{server.port}/v1", "TOKEN": token_for(shelf),
            "QUESTION": QUESTION, "PACKAGES": str(PACKAGES),
        }  # fmt: skip
        done = subprocess.run(
            ["node", "--input-type=module", "--eval", SCRIPT],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=60,
        )

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["models"] == ["truespan/world", "truespan/world@ada"]
    assert "Chapter 1" in found["text"]
    assert not [name for name in UNREAD if name in found["text"]]
    assert (found["vectors"], "There is no world 'none'" in found["error"]) == (2, True)
