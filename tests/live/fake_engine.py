"""A small OpenAI-like server and a benchmark client for it, and the ways in which both go wrong."""

import argparse
import contextlib
import http.server
import itertools
import json
import os
import signal
import socketserver
import subprocess  # noqa: TID251  leaves a process behind
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

CHUNKS = 5


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Answers /health, and /v1/completions in chunks."""

    daemon_threads = True
    allow_reuse_address = True
    options: argparse.Namespace
    served = 0


class Handler(http.server.BaseHTTPRequestHandler):
    """One request."""

    server: Server

    def do_GET(self) -> None:
        if self.server.options.garbage:
            self.wfile.write(b"garbage\r\n\r\n")
            self.close_connection = True
            return
        self.send_response(200)
        self.end_headers()
        if self.path == "/health":
            return
        options = self.server.options
        self.server.served += 1
        if self.server.served == options.end_after:
            print("out of memory", flush=True)
            os._exit(9)
        slow = options.slow_factor if os.environ.get("HOSTDOCTOR_ARM") == options.slow_arm else 1.0
        for _ in range(CHUNKS):
            time.sleep(0.002 * slow)
            self.wfile.write(b"data: x\n")
            self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def serve(options: argparse.Namespace) -> None:
    """Serve until ended."""
    if options.fail_in_run and os.environ["HOSTDOCTOR_RUN"] == options.fail_in_run:
        print("CUDA error: no device", flush=True)
        sys.exit(3)
    if options.leave_child:
        code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        subprocess.Popen((sys.executable, "-c", code), start_new_session=True)
    if options.never_ready:
        signal.pause()
    server = Server(("127.0.0.1", options.port), Handler)
    server.options = options
    print("x" * options.words, flush=True)
    server.serve_forever()


def bench(options: argparse.Namespace) -> None:
    """Send requests one by one, and write what ``vllm bench serve --save-detailed`` writes."""
    if options.fail_in_run and os.environ["HOSTDOCTOR_RUN"] == options.fail_in_run:
        print("ConnectionResetError", flush=True)
        sys.exit(1)
    if options.hang_in_run and os.environ["HOSTDOCTOR_RUN"] == options.hang_in_run:
        signal.pause()
    began = time.monotonic()
    ttfts, itls, errors = [], [], []
    for _ in range(options.requests):
        times = [time.monotonic()]
        error = ""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{options.port}/v1/completions", timeout=10) as answer:
                times += [time.monotonic() for _ in answer]
        except OSError as failed:
            error = str(failed)
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        ttfts.append(gaps[0] if gaps else 0.0)
        itls.append(gaps[1:])
        errors.append(error)
    done = sum(not error for error in errors)
    document = {
        "date": time.strftime("%Y%m%d-%H%M%S"),
        "backend": "openai",
        "model_id": "a/model",
        "tokenizer_id": "a/model",
        "num_prompts": options.requests,
        "seed": options.seed,
        "request_rate": options.rate,
        "max_concurrency": None,
        "duration": time.monotonic() - began,
        "completed": done,
        "failed": options.requests - done,
        "total_input_tokens": 8 * done,
        "total_output_tokens": CHUNKS * done,
        "input_lens": [8] * options.requests,
        "output_lens": [CHUNKS] * options.requests,
        "ttfts": ttfts,
        "itls": itls,
        "errors": errors,
    }
    if options.result and not (options.silent_in_run and os.environ["HOSTDOCTOR_RUN"] == options.silent_in_run):
        Path(options.result).write_text(json.dumps(document), encoding="utf-8")


def main() -> None:
    """Do what the first word says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("serve", "bench"))
    parser.add_argument("--port", type=int)
    parser.add_argument("--fail-in-run", default="")
    parser.add_argument("--hang-in-run", default="")
    parser.add_argument("--silent-in-run", default="")
    parser.add_argument("--garbage", action="store_true")
    parser.add_argument("--end-after", type=int, default=0)
    parser.add_argument("--never-ready", action="store_true")
    parser.add_argument("--leave-child", action="store_true")
    parser.add_argument("--slow-arm", default="")
    parser.add_argument("--slow-factor", type=float, default=1.0)
    parser.add_argument("--words", type=int, default=0)
    parser.add_argument("--requests", type=int, default=25)
    parser.add_argument("--rate", default="inf")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--result", default="")
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        serve(options) if options.what == "serve" else bench(options)


if __name__ == "__main__":
    main()
