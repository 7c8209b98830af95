"""An HTTP endpoint on this machine that plays a script, for the adapters that post JSON."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-very-secret-0123456789"
Answer = Callable[[dict[str, Any]], tuple[int, dict[str, str], bytes]]


def status(code: int, **headers: str) -> Answer:
    body = f"the key {KEY} is wrong".encode()  # as real endpoints do
    return lambda request: (code, {name.replace("_", "-"): value for name, value in headers.items()}, body)


class Endpoint:
    """One answer a request, the last one from then on: a function of the request, or ``silence``, ``hang up``, ``trickle``."""

    def __init__(self, *script: Answer | str) -> None:
        self.script: Sequence[Answer | str] = script
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.stop = threading.Event()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                endpoint.requests.append({"path": self.path, **body})
                endpoint.headers.append({name.lower(): value for name, value in self.headers.items()})
                answer = endpoint.script[min(len(endpoint.requests), len(endpoint.script)) - 1]
                if answer == "silence":
                    endpoint.stop.wait(10)
                elif answer == "hang up":
                    self.connection.shutdown(socket.SHUT_RDWR)
                elif answer == "trickle":
                    self.send_response(200)
                    self.end_headers()
                    while not endpoint.stop.wait(0.05):
                        try:
                            self.wfile.write(b" ")
                        except OSError:
                            break
                else:
                    assert callable(answer)
                    code, headers, content = answer(body)
                    self.send_response(code)
                    for name, value in {"Content-Length": str(len(content)), **headers}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(content)

            def log_message(self, *args: object) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def close(self) -> None:
        self.stop.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
