"""A small stretch of a document for the tests of the training recipe."""

import json
from pathlib import Path

PASSAGES = (
    "A leave of more than a month needs the signature of the head of department.",
    "A visitor's badge is valid for three\ndays and stays at the desk.",
    "Contractors ask the front office for a new badge when they return.",
)


def write_stretches(folder: Path) -> Path:
    path = folder / "stretches.jsonl"
    record = {
        "id": 7,
        "source": "example/handbook",
        "path": "leave.md",
        "licence": "CC0-1.0",
        "kind": "document",
        "passages": PASSAGES,
    }
    path.write_text(json.dumps(record) + "\n")
    return path
