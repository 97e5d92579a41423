"""Records are described to msgspec before several threads decode into them."""

import ast
import subprocess
import sys

from tests.architecture.test_imports import SOURCE

PLAIN = {"list[str]", "dict[str, Any]"}
"""Types without records, of which msgspec keeps no description."""
THREADS = """
import sys, threading, types
import msgspec
from truespan.core.decoding import prepare

sys.setswitchinterval(1e-6)
FIELDS = "a: t.Annotated[int, msgspec.Meta(ge=0)] = 0; b: list[str] = []"
INNER = "\\n".join(f"class In{i}(msgspec.Struct):\\n {FIELDS}" for i in range(8))
MEMBERS = "\\n".join(f" f{i}: In{i} | None = None" for i in range(8))
OUTER = f"class Out(msgspec.Struct):\\n{MEMBERS}"
for number in range(100):
    made = sys.modules[f"m{number}"] = types.ModuleType(f"m{number}")
    exec(f"import msgspec, typing as t\\n{INNER}\\n{OUTER}", made.__dict__)
    barrier = threading.Barrier(4)

    def decode() -> None:
        barrier.wait()
        msgspec.json.decode(b'{"f7": {"a": 1, "b": ["q"]}}', type=prepare(made.Out))

    threads = [threading.Thread(target=decode) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_threads_decode_a_new_record_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")


def test_every_decoded_record_is_prepared() -> None:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        if path.name == "decoding.py":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and (kind := decoded_type(call)) is not None:
                is_prepared = isinstance(kind, ast.Call) and ast.unparse(kind.func) == "prepare"
                if not is_prepared and ast.unparse(kind) not in PLAIN:
                    found.append(f"{path.relative_to(SOURCE)}: {ast.unparse(call)}")
    assert found == []


def decoded_type(call: ast.Call) -> ast.expr | None:
    """Return the type that a call of msgspec decodes into; None for other calls."""
    name = ast.unparse(call.func)
    if name == "partial" and ast.unparse(call.args[0]) == "decode":
        name = "decode"
    if name in ("msgspec.json.decode", "msgspec.msgpack.decode", "decode"):
        return next((word.value for word in call.keywords if word.arg == "type"), None)
    if name in ("msgspec.convert", "convert") and len(call.args) > 1:
        return call.args[1]
    if name in ("msgspec.json.Decoder", "msgspec.msgpack.Decoder"):
        kind = call.args[0]
        return kind.body if isinstance(kind, ast.IfExp) else kind
    return None
