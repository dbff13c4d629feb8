"""An OpenAI-compatible HTTP server whose latency follows a known law, and a client with ``vllm bench serve``'s options.

The law is processor sharing: with n requests in the system each takes n times as long to its first token as it would
alone, in proportion to its prompt. ``--penalty`` is what a variant's offloading costs. The ways to fail are planted by
options too, so that a variant can bring them along.
"""

import argparse
import contextlib
import http.server
import json
import os
import signal
import socketserver
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

MS_PER_TOKEN = 0.025
GAP_MS = 1.0


def ttft_ms(tokens: int, in_system: int, penalty: float) -> float:
    """Return the law's time to the first token."""
    return MS_PER_TOKEN * tokens * in_system * penalty


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Answers /health, /metrics, and POST /v1/completions as a stream."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128
    options: argparse.Namespace

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(("127.0.0.1", options.port), Handler)
        self.options = options
        self.lock = threading.Lock()
        self.in_system = self.served = 0

    def enter(self) -> int:
        """Count a request in; return how many there are."""
        with self.lock:
            self.in_system += 1
            self.served += 1
            if self.served == self.options.die_after:
                print("CUDA error: an illegal memory access was encountered", flush=True)
                os._exit(9)
            return self.in_system

    def leave(self) -> None:
        """Count a request out."""
        with self.lock:
            self.in_system -= 1


class Handler(http.server.BaseHTTPRequestHandler):
    """One request."""

    server: Server
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        if self.path == "/metrics":
            told = {"num_requests_waiting": max(0, self.server.in_system - 1), "num_preemptions_total": 0}
            told["prompt_tokens_total"] = self.server.served
            self.wfile.write("".join(f"vllm:{name} {value}\n" for name, value in told.items()).encode())

    def do_POST(self) -> None:
        options = self.server.options
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        in_system = self.server.enter()
        try:
            if options.error_every and self.server.served % options.error_every == 0:
                self.send_error(500)
                return
            self.send_response(200)
            self.end_headers()
            time.sleep(ttft_ms(len(asked["prompt"].split()), in_system, options.penalty) / 1000)
            for index in range(asked["max_tokens"]):
                if index:
                    time.sleep(GAP_MS * options.penalty / 1000)
                self.wfile.write(b'data: {"choices": [{"text": " x"}]}\n\n')
                self.wfile.flush()
            self.wfile.write(b"data: [DONE]\n\n")
        finally:
            self.server.leave()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def serve(options: argparse.Namespace) -> None:
    """Serve until ended."""
    if options.never_ready:
        print("ValueError: no available memory for the cache blocks", flush=True)
        if options.never_ready == "exit":
            sys.exit(1)
        signal.pause()
    Server(options).serve_forever()


def send(options: argparse.Namespace, tokens: int) -> tuple[float, list[float], str]:
    """Send one request; return seconds to its first token, those between the others, and what went wrong."""
    body = {"model": options.model, "prompt": "a " * tokens, "max_tokens": options.random_output_len, "stream": True}
    request = urllib.request.Request(
        f"{options.base_url}{options.endpoint}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    last = time.monotonic()
    times: list[float] = []
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            for line in answer:
                if line.startswith(b"data: {"):
                    now = time.monotonic()
                    times.append(now - last)
                    last = now
    except OSError as error:
        return 0.0, [], str(error) or type(error).__name__
    return (times[0], times[1:], "") if times else (0.0, [], "no token")


def bench(options: argparse.Namespace) -> None:
    """Drive the server as closed loops do, and write what ``vllm bench serve --save-detailed`` writes."""
    told: list[tuple[float, tuple[float, list[float], str]]] = []
    lock, left = threading.Lock(), iter(range(options.num_prompts))

    def loop() -> None:
        while True:
            with lock:
                if next(left, None) is None:
                    return
            at = time.monotonic()
            answer = send(options, options.random_input_len)
            with lock:
                told.append((at, answer))

    time.sleep(options.prepare_ms * options.num_prompts / 1000)
    began = time.monotonic()
    threads = [threading.Thread(target=loop) for _ in range(options.max_concurrency)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = sum(not error for _, (_, _, error) in told)
    document = dict(pair.split("=", 1) for pair in options.metadata) | {
        "date": time.strftime("%Y%m%d-%H%M%S"), "backend": "openai", "model_id": options.model,
        "tokenizer_id": options.model, "num_prompts": options.num_prompts, "request_rate": options.request_rate,
        "max_concurrency": options.max_concurrency, "duration": time.monotonic() - began, "completed": done,
        "failed": len(told) - done, "total_input_tokens": done * options.random_input_len,
        "total_output_tokens": done * options.random_output_len, "start_times": [at for at, _ in told],
        "output_lens": [options.random_output_len] * len(told), "ttfts": [first for _, (first, _, _) in told],
        "itls": [gaps for _, (_, gaps, _) in told], "errors": [error for _, (_, _, error) in told],
    }  # fmt: skip
    if options.result_filename:
        folder = Path(options.result_dir or ".")
        (folder / options.result_filename).write_text(json.dumps(document), encoding="utf-8")


def main() -> None:
    """Do what the first word says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("serve", "bench"))
    parser.add_argument("--port", type=int)
    parser.add_argument("--penalty", type=float, default=1.0)
    parser.add_argument("--die-after", type=int, default=0)
    parser.add_argument("--never-ready", choices=("", "exit", "hang"), default="")
    parser.add_argument("--error-every", type=int, default=0)
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument(
        "--prepare-ms", type=float, default=0.0, help="to make a prompt; all are made before one is sent"
    )
    for name in ("base-url", "endpoint", "model", "request-rate", "result-filename", "result-dir"):
        parser.add_argument(f"--{name}", default="")
    for name in ("num-prompts", "max-concurrency", "random-input-len", "random-output-len", "seed"):
        parser.add_argument(f"--{name}", type=int, default=1)
    parser.add_argument("--metadata", nargs="*", default=[])
    options, _ = parser.parse_known_args()
    with contextlib.suppress(KeyboardInterrupt):
        serve(options) if options.what == "serve" else bench(options)


if __name__ == "__main__":
    main()
