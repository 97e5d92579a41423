"""A web server on loopback that sends chosen bytes."""

import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from email.parser import BytesParser

Reply = bytes | Callable[[dict[str, str]], "bytes | Iterator[bytes]"]


def page(
    body: bytes | str, content_type: str = "text/html", status: str = "200 OK", **headers: str
) -> bytes:
    content = body.encode() if isinstance(body, str) else body
    fields = {"Content-Type": content_type, "Content-Length": str(len(content))}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + content


def redirect(location: str, status: int = 302) -> bytes:
    return page("", status=f"{status} Elsewhere", Location=location)


@dataclass
class WebServer:
    """Serves `pages` by path, over TLS if `tls` is given, and records each request.

    Other paths are 404.
    """

    pages: dict[str, Reply] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    tls: ssl.SSLContext | None = None

    def __enter__(self) -> "WebServer":
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                _, path, _ = self.rfile.readline().decode().split(" ")
                lines = iter(self.rfile.readline, b"\r\n")
                fields = BytesParser().parsebytes(b"".join(lines))
                headers = {name.lower(): value for name, value in fields.items()}
                outer.requests.append((path, headers))
                reply = outer.pages.get(path, page("none", status="404 Not Found"))
                said = reply(headers) if callable(reply) else reply
                # The client hangs up on what it does not want to hear.
                with suppress(OSError):
                    for piece in [said] if isinstance(said, bytes) else said:
                        self.wfile.write(piece)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if self.tls is not None:
            self._server.socket = self.tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://{host}:{self.port}{path}"

    def asked(self) -> list[str]:
        """Return the paths that were requested, and forget them."""
        paths = [path for path, _ in self.requests]
        self.requests.clear()
        return paths
