"""Measure how long Chromium runs a service worker whose page is gone: `python -m bench.report_worker`, six minutes.

Pages of a made-up site each start a worker and leave for another site. The worker calls home every second, by a chain
of timers alone, or while it also keeps its message event open as `client/report-worker.js` does. Chromium runs without
a debugger, which would keep workers alive.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WAIT_S = 360
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ("--headless=new", "--no-sandbox", "--no-first-run", "--disable-gpu")
KINDS = {"timers": "timers alone", "event": "timers, and an event that is kept open"}
WORKER = """
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("message", (event) => {
  const began = Date.now();
  const beat = () => {
    fetch(`/beat/${event.data}/${Math.round((Date.now() - began) / 1000)}`);
    setTimeout(beat, 1000);
  };
  beat();
  if (event.data === "event") event.waitUntil(new Promise(() => {}));
});
"""
PAGE = """<!doctype html><link rel=icon href=data:,><script type="module">
  const path = "/worker.js";
  const registration = await navigator.serviceWorker.register(path, { scope: path });
  while (!registration.active) await new Promise((done) => setTimeout(done, 20));
  registration.active.postMessage("KIND");
  setTimeout(() => location.replace("http://127.0.0.1:PORT/gone"), 1000);
</script>"""


class Site(BaseHTTPRequestHandler):
    """Serves page and worker, and notes the seconds that a worker has lived."""

    lives: dict[str, int] = {}  # noqa: RUF012 -- of the one site

    def do_GET(self) -> None:
        """Respond."""
        body, kind = b"", "text/html"
        if beat := re.fullmatch(r"/beat/(\w+)/(\d+)", self.path):
            self.lives[beat[1]] = int(beat[2])
        elif self.path == "/worker.js":
            body, kind = WORKER.encode(), "text/javascript"
        elif self.path.removeprefix("/") in KINDS:
            port = self.headers["Host"].partition(":")[2]
            body = PAGE.replace("KIND", self.path[1:]).replace("PORT", port).encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def measure(seconds: float) -> dict[str, int]:
    """Return the last second in which each kind of worker ran."""
    with ExitStack() as stack:
        server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Site))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for kind in KINDS:
            folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            address = f"http://localhost:{server.server_address[1]}/{kind}"
            command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={folder}", address]
            browser = stack.enter_context(subprocess.Popen(command, stderr=subprocess.DEVNULL))
            stack.callback(browser.terminate)
        time.sleep(seconds)
        return dict(Site.lives)


def main() -> None:
    """Print the lives as a table."""
    if CHROMIUM is None:
        sys.exit("no chromium on the PATH: on Debian, apt-get install chromium")
    version = subprocess.run([CHROMIUM, "--version"], capture_output=True, text=True, check=True).stdout
    lives = measure(float(sys.argv[1]) if len(sys.argv) > 1 else WAIT_S)
    lines = [f"| worker in {version.split()[0]} {version.split()[1].split('.')[0]} | runs for |", "| --- | --: |"]
    lines += [f"| {text} | {lives.get(kind, 0)} s |" for kind, text in KINDS.items()]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
