"""The whole recipe, or one stage of it.

    python -m training --data DIR --base WHEEL_OR_FOLDER --out DIR

`prepare` makes rows and pools, `train` needs a GPU and only what `prepare` wrote, and `finish`
exports the network and measures it as it ships. Without a stage, all three follow each other.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from training.base import parse_network, read_base, read_stored_weights
from training.packing import ROWS_FILE, pack
from training.pools import POOLS_FILE, load_pools, make_pools, save_pools
from training.rows import make_rows
from training.weights import BASE_FILE, read_parts, save_compressed

if TYPE_CHECKING:
    from tokenizers import Tokenizer

STAGES = ("all", "prepare", "train", "finish")


def prepare(data: Path, base: Path, out: Path, embed: bool) -> None:
    """Write the base, the training rows and the pools as files that need no other library."""
    out.mkdir(parents=True, exist_ok=True)
    network = parse_network(read_base(base, "model.onnx"))
    save_compressed(read_stored_weights(network), out / BASE_FILE)
    tokenizer = load_tokenizer(base)
    prepare_pools(data, tokenizer, out / POOLS_FILE, embed)
    prepare_rows(data, tokenizer, out / ROWS_FILE)


def load_tokenizer(base: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(read_base(base, "tokenizer.json").decode())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def prepare_pools(data: Path, tokenizer: Tokenizer, path: Path, embed: bool) -> None:
    pools = make_pools(data, tokenizer, embed)
    save_pools(pools, path)
    for pool in pools:
        told = sum(bool(question.answers) for question in pool.questions)
        print(f"{pool.name}: {told} answerable, {len(pool.questions) - told} not")


def prepare_rows(data: Path, tokenizer: Tokenizer, path: Path) -> None:
    rows = pack(make_rows(data), tokenizer)
    rows.save(path)
    print(f"{len(rows.question)} rows, {int(rows.lengths().sum())} tokens")


def train_runs(options: argparse.Namespace) -> None:
    from training.runs import plan, run_side_by_side
    from training.train import Schedule

    names = ("seconds", "rate", "tokens", "rounded", "compiled")
    schedule = Schedule(**{name: getattr(options, name) for name in names})
    left_out = [name for name in options.leave_out.split(",") if name]
    runs = plan(options.mode, schedule, options.seeds, left_out)
    prepared = options.prepared or options.out
    run_side_by_side(runs, prepared, options.out)


def finish(base: Path, out: Path, prepared: Path) -> None:
    """Export the trained weights, print their digests, and measure the network that ships."""
    from onnxruntime import InferenceSession

    from training.evaluate import measure, to_table
    from training.export import export
    from training.reading import onnx_network

    for name, digest in export(base, read_parts(out), out / "model").items():
        print(f"{name}: sha256 {digest}")
    session = InferenceSession(out / "model" / "model.onnx")
    figures = {"int8": measure(load_pools(prepared / POOLS_FILE), onnx_network(session))}
    (out / "model-figures.json").write_text(json.dumps(figures, indent=1))
    print(to_table(figures))
    print(to_table(figures, "rule"))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m training", description=__doc__)
    parser.add_argument("stage", nargs="?", choices=STAGES, default="all")
    parser.add_argument("--data", type=Path, help="folder of questions and stretches")
    parser.add_argument("--base", type=Path, help="wheel or folder of the base")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--prepared", type=Path, help="folder that `prepare` wrote; default: --out")
    parser.add_argument("--seconds", type=float, default=540.0, help="time of training")
    parser.add_argument("--mode", choices=("final", "curve", "leave"), default="final")
    parser.add_argument("--rate", type=float, default=1e-4, help="highest learning rate")
    parser.add_argument("--tokens", type=int, default=32_768, help="tokens of a batch")
    parser.add_argument("--seeds", type=int, default=3, help="runs to average")
    parser.add_argument("--leave-out", default="", help="sets, with commas between them")
    parser.add_argument("--rounded", type=float, default=0.15, help="share of time with 8 bits")
    parser.add_argument("--compiled", action="store_true", help="compile the network first")
    parser.add_argument("--no-embedding", action="store_true", help="rank passages by words alone")
    options = parser.parse_args(arguments)
    if options.stage in ("all", "prepare", "finish") and options.base is None:
        parser.error("--base is required")
    if options.stage in ("all", "prepare"):
        if options.data is None:
            parser.error("--data is required")
        prepare(options.data, options.base, options.out, not options.no_embedding)
    if options.stage in ("all", "train"):
        train_runs(options)
    if options.stage in ("all", "finish"):
        finish(options.base, options.out, options.prepared or options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
