"""SciFact as files: a small sample is ingested, found and judged."""

import json
from pathlib import Path

import pytest
from bench.scifact_files import convert, main

from tests.support.worlds import make_library

pytestmark = pytest.mark.needs_extension


def sample(folder: Path) -> Path:
    corpus = [
        {"_id": "11", "title": "Lamps", "text": "A lamp burns for an hour on half a gill."},
        {"_id": "12", "title": "Tides", "text": "The water is high at five past eleven."},
        {"_id": "13", "title": 'A "quoted" title – très bien', "text": "Seals eat mackerel."},
    ]
    queries = [
        {"_id": "1", "text": "A lamp burns for a whole day."},
        {"_id": "2", "text": "Seals eat mackerel."},
        {"_id": "3", "text": "Nobody judged this."},
    ]
    (folder / "qrels").mkdir(parents=True)
    for name, entries in (("corpus", corpus), ("queries", queries)):
        text = "".join(json.dumps(entry) + "\n" for entry in entries)
        (folder / f"{name}.jsonl").write_text(text)
    (folder / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\n1\t11\t1\n2\t13\t2\n2\t12\t0\n"
    )
    return folder


def test_abstracts_become_documents_and_claims_golden_queries(tmp_path: Path) -> None:
    data, folder = sample(tmp_path / "data"), tmp_path / "out"
    assert convert(data, folder) == (3, 2)
    world = make_library(tmp_path / "library").library.create_world("scifact")
    report = world.ingest(manifest=folder / "manifest.jsonl")
    assert (len(report.ingested), report.failures) == (3, [])
    assert world.documents.get("13.txt").title == 'A "quoted" title – très bien'
    found = world.evaluation.run(folder / "golden.jsonl")
    assert [one.id for one in found.results] == ["1", "2"]
    assert [one.metrics.hit for one in found.results] == [1.0, 1.0]
    assert found.totals.absent_documents == 0


def test_usage_is_shown_without_both_folders(tmp_path: Path, capsys: object) -> None:
    assert main([]) == 2
    assert main([str(sample(tmp_path / "data")), str(tmp_path / "out")]) == 0
