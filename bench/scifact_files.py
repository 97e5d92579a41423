"""SciFact as files that Truespan takes in: `python -m bench.scifact_files DATA FOLDER`.

`DATA` holds `corpus.jsonl`, `queries.jsonl` and `qrels/test.tsv`, as BEIR gives them. `FOLDER` gets
`texts/`, one file for each abstract with its title first; `manifest.jsonl`, which names them and
their titles; and `golden.jsonl`, the judged claims. docs/evaluation.md says how to go on.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.scifact import read_judgements, read_lines, read_queries
from truespan.extensions.quality.golden import Expected, GoldenQuery, golden_line


def main(arguments: list[str]) -> int:
    """Convert what the command line names."""
    if len(arguments) != 2:
        print(__doc__)
        return 2
    documents, claims = convert(Path(arguments[0]), Path(arguments[1]))
    print(f"{documents} documents and {claims} golden queries in {arguments[1]}")
    return 0


def convert(data: Path, folder: Path) -> tuple[int, int]:
    """Write the files; return how many documents and how many golden queries there are."""
    texts = folder / "texts"
    texts.mkdir(parents=True, exist_ok=True)
    entries = read_lines(data / "corpus.jsonl")
    lines = []
    for entry in entries:
        name = f"{entry['_id']}.txt"
        (texts / name).write_text(f"{entry['title']}\n\n{entry['text']}", encoding="utf-8")
        named = {"path": f"texts/{name}", "title": entry["title"], "lang": "en"}
        lines.append(json.dumps(named, ensure_ascii=False) + "\n")
    (folder / "manifest.jsonl").write_text("".join(lines), encoding="utf-8")
    golden = golden_claims(data)
    written = "".join(map(golden_line, golden))
    (folder / "golden.jsonl").write_text(written, encoding="utf-8")
    return len(entries), len(golden)


def golden_claims(data: Path) -> tuple[GoldenQuery, ...]:
    """Return the judged claims as golden queries that name files."""
    texts = read_queries(data)
    return tuple(
        GoldenQuery(
            id, texts[id], tuple(Expected(f"{one}.txt", how) for one, how in judged.items())
        )
        for id, judged in read_judgements(data).items()
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
