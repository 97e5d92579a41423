"""Load for a server: many connections in one process that does as little as it can per request.

    python -m bench.serving_load PORT CONNECTIONS SECONDS PATH BODY

It prints as JSON: replies that were no success, requests a second, and the p99 in milliseconds.
"""

from __future__ import annotations

import json
import selectors
import socket
import sys
import time

from bench.measure import percentile


class Connection:
    """One connection that sends its request again as soon as the reply is complete."""

    def __init__(self, port: int, request: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._request = request
        self.succeeded = False
        self.send()

    def send(self) -> None:
        self._received, self._length = bytearray(), 0
        self.began = time.perf_counter()
        self.socket.sendall(self._request)

    def receive(self) -> bool:
        """Read what has come; return whether the reply is complete."""
        part = self.socket.recv(1 << 18)
        if not part:
            raise SystemExit("the server closed a connection")
        self._received += part
        if not self._length and (end := self._received.find(b"\r\n\r\n")) > 0:
            head = bytes(self._received[:end]).lower()
            self.succeeded = head.split(b" ", 2)[1] == b"200"
            length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
            self._length = end + 4 + int(length)
        return 0 < self._length <= len(self._received)


def main(port: int, connections: int, seconds: float, path: str, body: str) -> None:
    """Send requests for some seconds on several connections."""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body.encode())}\r\n\r\n"
    )
    request = (head + body).encode()
    taken: list[float] = []
    failed = 0
    began = time.perf_counter()
    with selectors.DefaultSelector() as selector:
        for _ in range(connections):
            connection = Connection(port, request)
            selector.register(connection.socket, selectors.EVENT_READ, connection)
        while time.perf_counter() < began + seconds:
            for key, _ in selector.select(1):
                if key.data.receive():
                    taken.append((time.perf_counter() - key.data.began) * 1000)
                    failed += not key.data.succeeded
                    key.data.send()
    rate = len(taken) / (time.perf_counter() - began)
    print(json.dumps([failed, rate, percentile(taken, 0.99)]))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), *sys.argv[4:])
