"""A child process that runs a module of the package and answers on its pipes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import IO

_SECONDS_TO_END = 2.0


class ChildProcess:
    """A Python process that reads requests from its input and writes answers to its output.

    It gets the import path but no keys from the environment, and Ctrl-C does not reach it.
    """

    def __init__(self, module: str, environment: Mapping[str, str], *, buffered: bool) -> None:
        """Start the process; raises OSError."""
        path = os.pathsep.join(entry for entry in sys.path if entry)
        self.process = subprocess.Popen(
            # -P keeps the current directory, where others may write, off the import path.
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=-1 if buffered else 0,
            env={"PYTHONPATH": path, **environment},
            start_new_session=True,
        )

    @property
    def requests(self) -> IO[bytes]:
        """The pipe to the input of the process."""
        assert self.process.stdin is not None
        return self.process.stdin

    @property
    def answers(self) -> IO[bytes]:
        """The pipe from the output of the process."""
        assert self.process.stdout is not None
        return self.process.stdout

    def end(self) -> None:
        """Close the pipes, so that a waiting process exits."""
        self._close_pipes()
        try:
            self.process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill the process and wait for its end."""
        self.process.kill()
        self.process.wait()
        self._close_pipes()

    def _close_pipes(self) -> None:
        for pipe in (self.requests, self.answers):
            with suppress(OSError):  # Unsent data are lost.
                pipe.close()
