"""The server does what the OpenAPI document says for callers with tokens, too."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.fuzz_http import BEARERS, Course, library_of, run, served_for

from tests.laws.examples import in_test_or_prove
from truespan.extensions.server.http.routes import OPERATIONS


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with library_of(tmp_path_factory.mktemp("bearers")) as made:
        yield made


@pytest.mark.parametrize("caller", in_test_or_prove(BEARERS[:2], BEARERS))
def test_fuzzer_finds_nothing_as_a_bearer(caller: str, library: Path, tmp_path: Path) -> None:
    # A caller who is always refused cannot explore; `test_tenants.py` covers such callers.
    more = "" if "revoked" in caller else ",stateful"
    phases = in_test_or_prove("fuzzing", f"examples,fuzzing{more}")
    # In `make test` each bearer makes the calls that are not refused at once.
    bound = caller == BEARERS[0]
    own = [
        call.name
        for call in OPERATIONS
        if ("{reader}" in call.path) == bound and (bound or not call.writes)
    ]
    calls = tuple(in_test_or_prove(own, ()))
    with served_for(library, caller) as server:
        found = run(tmp_path, server, Course(examples=1, phases=phases, calls=calls))

    assert found.passed, found.report


def test_fuzzed_server_requires_a_token(library: Path) -> None:
    with served_for(library, BEARERS[1]) as server:
        assert server.under(None).get("/v1/worlds").status_code == 401
        assert server.get("/v1/worlds").status_code == 200
