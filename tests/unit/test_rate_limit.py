"""Rate limits of providers, and retries."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.promises import proves
from tests.support.providers import PassingClock
from tests.support.rows import each_row
from truespan.errors import InvalidConfiguration, ProviderRefused, ProviderUnavailable
from truespan.ingest.embed import ATTEMPTS, MAX_PAUSE, call_with_retries
from truespan.providers.limits import RateLimiter


@proves("embedding.rate-limit")
@given(st.integers(1, 7), st.lists(st.floats(0, 30), max_size=40))
def test_rate_limiter_allows_at_most_the_limit_in_any_minute(per_minute: int, pauses: list[float]):
    clock = PassingClock()
    pace = RateLimiter(per_minute, clock)
    begun: list[float] = []
    for pause in pauses:
        clock.time += pause
        pace.wait()
        begun.append(clock.time)
    for moment in begun:
        assert sum(moment <= other < moment + 59.999 for other in begun) <= per_minute


@proves("embedding.rate-limit")
def test_waiting_threads_get_different_start_times() -> None:
    class Still(PassingClock):
        """A clock that never advances, so that all calls come at once."""

        def sleep(self, seconds: float) -> None:
            with lock:
                self.slept.append(seconds)

    lock = threading.Lock()
    clock = Still()
    pace = RateLimiter(3, clock)

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda _: pace.wait(), range(12)))

    assert sorted(clock.slept) == [60.0] * 3 + [120.0] * 3 + [180.0] * 3


def test_rate_limiter_does_not_wait_below_the_limit() -> None:
    clock = PassingClock()
    pace = RateLimiter(2, clock)
    for _ in range(4):
        pace.wait()
        clock.time += 30
    assert clock.slept == []


@each_row("per_minute", [0, -1])
def test_rate_limit_of_zero_is_refused(per_minute: int) -> None:
    with pytest.raises(InvalidConfiguration):
        RateLimiter(per_minute, PassingClock())


class Failing:
    """A call that fails in each of these ways in turn, and then succeeds."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        return "answer"


@proves("embedding.retries-transient-only")
def test_pauses_double_and_differ_between_calls_that_failed_together() -> None:
    waits = []
    for spread in range(8):
        clock = PassingClock()
        call_with_retries(Failing(*[ProviderUnavailable("down")] * 4), clock, spread=spread)
        waits.append(tuple(clock.slept))
    assert len(set(waits)) == 8
    for first, *rest in waits:
        assert 0.5 <= first < 1.0
        assert [first * 2, first * 4, first * 8] == pytest.approx(rest)


@proves("embedding.retries-transient-only")
@each_row("asked", [7.0, MAX_PAUSE])
@each_row("code", ["provider_unavailable", "provider_cooldown"])
def test_requested_pause_is_respected(asked: float, code: str) -> None:
    clock = PassingClock()
    busy = ProviderUnavailable("busy", code=code, retry_after=asked)
    assert call_with_retries(Failing(busy), clock, spread=0) == "answer"
    assert clock.slept == [asked]


@proves("embedding.retries-transient-only")
def test_pause_beyond_the_maximum_raises_the_error() -> None:
    clock, call = PassingClock(), Failing(ProviderUnavailable("busy", retry_after=91.0))
    with pytest.raises(ProviderUnavailable):
        call_with_retries(call, clock, spread=0)
    assert (call.calls, clock.slept) == (1, [])


@proves("embedding.retries-transient-only")
@each_row("error", [
    ProviderRefused("no"),
    InvalidConfiguration(code="credentials_missing", provider="openai", model="m"),
])  # fmt: skip
def test_refusal_is_not_retried(error: Exception) -> None:
    call = Failing(error)
    with pytest.raises(type(error)):
        call_with_retries(call, PassingClock(), spread=0)
    assert call.calls == 1


@proves("embedding.retries-transient-only")
def test_lasting_outage_is_raised_after_all_attempts() -> None:
    call = Failing(*[ProviderUnavailable("down")] * 10)
    with pytest.raises(ProviderUnavailable):
        call_with_retries(call, PassingClock(), spread=0)
    assert call.calls == ATTEMPTS
