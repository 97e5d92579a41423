"""One request, tried until it saw a single state of its world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from truespan.model.scope import Authority, Scope, World
from truespan.ports import TrustedStore
from truespan.query.assemble import Account, Attempt
from truespan.query.gather import signal
from truespan.query.settle import in_one_state


@dataclass(frozen=True, slots=True)
class Trial:
    """What trying a request needs: where it looks, for whom, and who hears of what is broken."""

    store: TrustedStore
    authority: Authority
    on_flaws: Callable[[Scope], None]

    def run(
        self,
        attempt: Attempt,
        world: World,
        *,
        account: Callable[[], Account],
        fill: Callable[[World], None],
    ) -> None:
        """Fill an attempt from one state of the world; begin anew when that changes meanwhile."""

        def once(latest: World) -> None:
            attempt.begin(account())
            fill(latest)

        in_one_state(self.store, self.authority, world, once)
        # Only now: marking what is broken changes the world that was looked at.
        if attempt.flaws and attempt.scope is not None:
            notices = signal(self.store, attempt.scope, attempt.flaws, self.on_flaws)
            attempt.account.warnings += notices
