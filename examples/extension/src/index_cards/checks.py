"""A check of a model's replies: each year in the reply occurs in a source."""

import re

from truespan.answers.checks import CheckedReply, CheckResult
from truespan.types.bundle import Notice


def check_years(reply: CheckedReply) -> CheckResult:
    """Warn of years that no source contains."""
    sources = " ".join(source.text for source in reply.sources)
    missing = [
        year for year in re.findall(r"\b1\d{3}\b|\b20\d{2}\b", reply.text) if year not in sources
    ]
    if not missing:
        return CheckResult()
    return CheckResult((Notice("year_not_found", f"No source names {', '.join(missing)}."),))
