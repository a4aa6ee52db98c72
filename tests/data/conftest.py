import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    """No test sees the cache of the user."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("PROTOREPLAY_DATA", str(folder))
    return folder


@pytest.fixture
def web(monkeypatch):
    """A web server: its address, and a mapping from path to (content, the length it claims to have)."""
    pages: dict[str, tuple[bytes, int]] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path not in pages:
                return self.send_error(404)
            content, length = pages[self.path]
            self.send_response(200)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            return self.wfile.write(content)

        def log_message(self, *_):
            pass

    monkeypatch.setenv("no_proxy", "*")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", pages
        server.shutdown()
        thread.join(60)
