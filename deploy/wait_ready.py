"""Wait until a server answers that it is ready: wait_ready.py ADDRESS [SECONDS]."""

import sys
import time
import urllib.request


def main(address: str, seconds: float) -> int:
    """Return 0 once the server is ready, 1 if it is not by then."""
    end = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(address, timeout=5):  # noqa: S310 -- the operator's own
                return 0
        except OSError as error:
            if time.monotonic() > end:
                sys.stderr.write(f"{address} is not ready after {seconds:g} seconds: {error}\n")
                return 1
        time.sleep(0.5)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 60.0))
