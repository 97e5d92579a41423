"""Resources that really run out: disk space and file descriptors.

The limits are those of the operating system for this process, which it can lower and raise again.
Processes that are started meanwhile keep them.
"""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def full_disk(size: int = 0) -> Iterator[None]:
    """Limit files to `size`; a write fails as on a full disk, with another error number."""
    with _limited(resource.RLIMIT_FSIZE, size):
        yield


@contextmanager
def no_descriptors(left: int = 0) -> Iterator[None]:
    """Leave `left` file descriptors free."""
    opened = [os.open(os.devnull, os.O_RDONLY)]
    # Those below the first free one are in use, so that this many more can be opened.
    while len(opened) <= left:
        opened.append(os.open(os.devnull, os.O_RDONLY))
    limit = opened[-1]
    for descriptor in opened:
        os.close(descriptor)
    if not left:
        # Another thread may close a descriptor meanwhile; those of the standard streams stay open.
        limit = min(limit, 3)
    with _limited(resource.RLIMIT_NOFILE, limit):
        yield


@contextmanager
def _limited(what: int, limit: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(what)
    resource.setrlimit(what, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(what, (soft, hard))
