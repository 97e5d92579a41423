"""The text of a report: a line for each field with a value."""

from truespan.ingest.report import IngestReport


def test_report_is_printed_on_many_lines() -> None:
    report = IngestReport(ingested=["a.md"], chunks=3, embedded=3, job="x")
    assert str(report) == (
        "IngestReport(\n    ingested=['a.md'],\n    unchanged=0,\n    chunks=3,\n    embedded=3,\n"
        "    job='x',\n)"
    )
