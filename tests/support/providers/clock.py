"""A clock on which waiting takes no time."""

from tests.support.worlds import ManualClock


class PassingClock(ManualClock):
    """A clock that advances when a thread sleeps."""

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.time += seconds
