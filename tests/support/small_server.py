"""A small HTTP server of codes, as a process that can be killed.

    python -m tests.support.small_server PORT

The code of a row (a, b) is the two lowest bytes of a. Each request takes a
millisecond, so that a kill finds some under way.
"""

import base64
import http.server
import json
import sys
import time

from tests.campaigns import rest_cases


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *unused):
        pass

    def do_GET(self):
        self._send(rest_cases.metadata().partition(b"\r\n\r\n")[2])

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        rows = json.loads(body)["inputs"]["x"]
        time.sleep(0.001)
        # 12 bits: four of the last byte stay empty.
        codes = [int(row[0] * 16).to_bytes(2, "big") for row in rows]
        outputs = [{"b64": base64.b64encode(code).decode()} for code in codes]
        self._send(json.dumps({"outputs": outputs}).encode())

    def _send(self, data):
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data)
        self.wfile.write(head + data)


class _Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


def main(port: int) -> None:
    """Serves until the process ends."""
    server = _Server(("127.0.0.1", port), _Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]))
