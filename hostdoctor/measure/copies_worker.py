"""The child process that copies: one for each CPU node, bound to it before the driver is loaded.

It reads questions as JSON lines and answers each with one line, ``{"error": …}`` when it fails. A process of its own
because a driver can hang or crash, and because a context's own memory and threads should be where its program is.
"""

import array
import ctypes
import gc
import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from hostdoctor.errors import MeasureError
from hostdoctor.measure import kernel, placing
from hostdoctor.measure.clock import clock_floor
from hostdoctor.measure.cuda import Cuda

PINNED, PAGEABLE = "pinned", "pageable"
TO_GPU = "to-gpu"
PR_SET_PDEATHSIG = 1
PLACED_SHARE = 0.95  # of the pages must be on the node that was asked for
CONTEND_BYTES = 32 << 20
CONTEND_POLL_S = 0.001
_COUNTER = re.compile(r"^(RssShmem|VmPin|VmLck|nr_foll_pin_acquired|nr_foll_pin_released):?\s+(\d{1,18})", re.MULTILINE)

Answer = dict[str, Any]


class Buffer:
    """Host memory on one node, and how it came to be there."""

    def __init__(self, address: int, size_bytes: int, way: str, owner: placing.Buffer | None = None) -> None:
        self.address = address
        self.size_bytes = size_bytes
        self.way = way
        self.owner = owner  # keeps the mapping

    def told(self, node: int) -> Answer:
        """Return where the pages are now, and by which way."""
        found = placing.placement_of(self.address, self.size_bytes)
        return {
            "way": self.way,
            "source": found.source,
            "pages": {str(n): pages for n, pages in found.pages.items()},
            "pages_asked": found.asked,
            "pages_elsewhere": found.elsewhere,
            "share": found.share_on(node),
            "page_aligned": self.address % placing.PAGE_BYTES == 0,
            "huge_bytes": self.owner.huge_bytes() if self.owner else None,
        }


class Copier:
    """The state of the child: the driver, one stream, memory on the GPU and on the nodes."""

    def __init__(self) -> None:
        self.cuda: Cuda | None = None
        self.buffers: dict[str, Buffer] = {}
        self.device_bytes = 0
        self.device = self.stream = self.context = 0
        self.noise: list[threading.Thread] = []
        self.noise_begun = self.noise_ended = 0  # copies of the second stream
        self.noise_memory: tuple[int, int, int] | None = None  # stream, on the GPU, on the host
        self.stop = threading.Event()

    def answer(self, question: Answer) -> Answer:
        """Return the answer to one question; raise MeasureError when there is none."""
        actions: dict[str, Callable[[Answer], Answer]] = {
            "open": self.open,
            "buffer": self.buffer,
            "placement": self.placement,
            "copy": self.copy,
            "contend": self.contend,
            "load": self.load,
            "rest": self.rest,
        }
        return actions[question["do"]](question)

    def open(self, question: Answer) -> Answer:
        """Go to a node, then load the driver and make the GPU's context there."""
        self.cuda = cuda = Cuda()
        ordinal = cuda.device_at(question["bdf"])
        self.context = cuda.enter(ordinal)
        self.stream = cuda.stream()
        self.device_bytes = question["size_bytes"]
        self.device = cuda.device_memory(self.device_bytes)
        os.sched_setaffinity(0, {question["cpu"]})  # this thread alone: the driver's own keep the whole node
        thread, cpu = placing.running_on()
        return {
            "cuda_version": cuda.driver_version(),
            "name": cuda.device_name(ordinal),
            "thread": thread,
            "cpu": cpu,
            "clock": msgspec.structs.asdict(clock_floor()),
        }

    def buffer(self, question: Answer) -> Answer:
        """Get memory on a node, pinned or not."""
        node, size = question["node"], question["size_bytes"]
        make = self._pinned if question["memory"] == PINNED else self._pageable
        found = make(node, size)
        self._try(found)
        self.buffers[question["key"]] = found
        return found.told(node)

    def placement(self, question: Answer) -> Answer:
        """Say again where a buffer is, which thread copies, and what the kernel counts as pinned."""
        thread, cpu = placing.running_on()
        places = {key: self.buffers[key].told(node) for key, node in question["nodes"].items() if key in self.buffers}
        return {"buffers": places, "thread": thread, "cpu": cpu, "counters": counters()}

    def copy(self, question: Answer) -> Answer:
        """Copy so many times, or for so long, and return how long each took, in nanoseconds."""
        buffer, size = self.buffers[question["key"]], question["size_bytes"]
        cuda, to_gpu = self._cuda(), question["direction"] == TO_GPU
        name = "cuMemcpyHtoDAsync_v2" if to_gpu else "cuMemcpyDtoHAsync_v2"
        function, wait = cuda.function(name), cuda.function("cuStreamSynchronize")
        steps = offsets(min(buffer.size_bytes, self.device_bytes), size, question["first"])
        stream, device, host = self.stream, self.device, buffer.address

        def once() -> None:
            at = next(steps)
            ends = (device + at, host + at) if to_gpu else (host + at, device + at)
            code = function(*ends, size, stream)
            if code:
                cuda.check(name, code)
            code = wait(stream)
            if code:
                cuda.check("cuStreamSynchronize", code)

        before = kernel.running_cpu()
        for _ in range(question["warm"]):
            once()
        ended = self.noise_ended
        limit_ns = int(question["limit_s"] * 1e9)
        if question.get("interval_ns"):
            taken, late = open_loop(once, question["count"], question["interval_ns"], limit_ns, question["least"])
        else:
            taken, late = closed_loop(once, question["count"], limit_ns, question["least"]), 0
        return {
            "ns": list(taken),
            "late": late,
            "cpus": [before, kernel.running_cpu()],
            "contending_copies": self.noise_begun - ended,
        }

    def contend(self, question: Answer) -> Answer:
        """Copy large blocks on a second stream meanwhile, to the GPU and back, by a thread on these CPUs."""
        if self.noise_memory is None:
            cuda = self._cuda()
            host = self._pinned(question["node"], CONTEND_BYTES).address
            self.noise_memory = cuda.stream(), cuda.device_memory(CONTEND_BYTES), host
        before = self.noise_ended
        self._begin(threading.Thread(target=self._second_stream, args=(question["cpus"], *self.noise_memory)))
        while self.noise_ended == before and self.noise[-1].is_alive():
            time.sleep(CONTEND_POLL_S)
        return {"bytes": CONTEND_BYTES}

    def load(self, question: Answer) -> Answer:
        """Copy memory from one node to another, one thread on each of these CPUs."""
        size, here, there = question["size_bytes"], question["to_node"], question["from_node"]
        for cpu in question["cpus"]:
            ends = placing.bound_buffer(here, size), placing.bound_buffer(there, size)
            self._begin(threading.Thread(target=self._copy_memory, args=(cpu, *ends)))
        return {"threads": len(question["cpus"])}

    def rest(self, question: Answer) -> Answer:  # noqa: ARG002  every action takes its question
        """Stop what runs beside the copies."""
        self.stop.set()
        for thread in self.noise:
            thread.join()
        failed = next((t.failed for t in self.noise if isinstance(t, _Watched) and t.failed), None)
        self.noise.clear()
        self.stop.clear()
        if failed:
            raise MeasureError(f"the load beside the copies ended early: {failed}")
        return {}

    def _try(self, buffer: Buffer) -> None:
        """Copy a page to the GPU and back; raise MeasureError where it does not come back: nothing could be timed."""
        size = min(placing.PAGE_BYTES, buffer.size_bytes, self.device_bytes)
        sent = os.urandom(size)
        for name, *ends in (
            ("cuMemcpyHtoDAsync_v2", self.device, buffer.address),
            ("cuMemcpyDtoHAsync_v2", buffer.address, self.device),
        ):
            ctypes.memmove(buffer.address, sent if ends[0] == self.device else bytes(size), size)
            self._cuda().call(name, *ends, size, self.stream)
            self._cuda().call("cuStreamSynchronize", self.stream)
        if ctypes.string_at(buffer.address, size) != sent:
            raise MeasureError("what was copied to the GPU and back is not what was sent: the driver does not copy")

    def _cuda(self) -> Cuda:
        if self.cuda is None:
            raise MeasureError("not opened")
        return self.cuda

    def _pinned(self, node: int, size: int) -> Buffer:
        """Allocate under a policy; where that does not land on the node, bind first and pin what is there."""
        way = "cuMemHostAlloc under set_mempolicy"
        free = placing.free_bytes(node)
        if free is not None and size > free // 2:  # bound memory that does not fit ends in an out-of-memory kill
            raise MeasureError(f"node {node}: {size >> 20} MiB is more than half of the {free >> 20} MiB free")
        try:
            with placing.memory_from(node):
                buffer = Buffer(self._cuda().host_memory(size), size, way)
            share = buffer.told(node)["share"]
            if share >= PLACED_SHARE:
                return buffer
            refused = f"{way}: {share:.0%} of its pages are on node {node}"
            self._cuda().call("cuMemFreeHost", buffer.address)
        except MeasureError as error:
            refused = str(error)
        try:
            owner = placing.bound_buffer(node, size)
            self._cuda().pin(owner.address, size)
        except MeasureError as error:
            raise MeasureError(f"{refused}; {error}") from None
        return Buffer(owner.address, size, f"mmap, mbind, cuMemHostRegister ({refused})", owner)

    def _pageable(self, node: int, size: int) -> Buffer:
        owner = placing.bound_buffer(node, size)
        return Buffer(owner.address, size, "mmap, mbind", owner)

    def _second_stream(self, cpus: list[int], stream: int, device: int, host: int) -> None:
        cuda = self._cuda()
        with placing.pinned_thread(cpus):  # else it would be where its parent is: on the copying thread's CPU
            cuda.share(self.context)
            while not self.stop.is_set():
                self.noise_begun += 2
                cuda.call("cuMemcpyHtoDAsync_v2", device, host, CONTEND_BYTES, stream)
                cuda.call("cuMemcpyDtoHAsync_v2", host, device, CONTEND_BYTES, stream)
                cuda.call("cuStreamSynchronize", stream)
                self.noise_ended += 2

    def _copy_memory(self, cpu: int, to: placing.Buffer, source: placing.Buffer) -> None:
        memcpy = kernel.libc().memcpy
        with to, source, placing.pinned_thread([cpu]):
            while not self.stop.is_set():
                memcpy(to.address, source.address, min(to.size_bytes, source.size_bytes))

    def _begin(self, thread: threading.Thread) -> None:
        watched = _Watched(thread)
        self.noise.append(watched)
        watched.start()


class _Watched(threading.Thread):
    """A thread that keeps why it ended early."""

    def __init__(self, inner: threading.Thread) -> None:
        super().__init__(daemon=True)
        self._inner = inner
        self.failed: str | None = None

    def run(self) -> None:
        try:
            self._inner.run()
        except MeasureError as error:
            self.failed = str(error)


def offsets(room_bytes: int, size_bytes: int, first: int) -> Iterator[int]:
    """Yield page-aligned places for copies, one after another and round, so that no cache holds what is copied."""
    page = placing.PAGE_BYTES
    step = -(-size_bytes // page) * page
    places = max(1, room_bytes // step)
    number = first
    while True:
        yield number % places * step
        number += 1


def closed_loop(once: Callable[[], Any], count: int, limit_ns: int, least: int) -> "array.array[int]":
    """Return the nanoseconds of each call, one after another, until so many are made or so much time is over."""
    taken = array.array("q")
    now = time.perf_counter_ns
    end = now() + limit_ns
    for number in range(count):
        began = now()
        once()
        ended = now()
        taken.append(ended - began)
        if ended > end and number + 1 >= least:
            break
    return taken


def open_loop(
    once: Callable[[], Any], count: int, interval_ns: int, limit_ns: int, least: int
) -> "tuple[array.array[int], int]":
    """Return how long after its planned start each call ended, and how many could not start when planned.

    The plan does not wait for calls that take longer: what queues behind a slow one counts in full.
    """
    taken = array.array("q")
    now, late = time.perf_counter_ns, 0
    origin = now() + interval_ns
    for number in range(count):
        planned = origin + number * interval_ns
        late += now() > planned
        while now() < planned:
            pass
        once()
        taken.append(now() - planned)
        if now() - origin > limit_ns and number + 1 >= least:
            break
    return taken, late


def counters() -> dict[str, int]:
    """Return what the kernel counts of this process' pinned memory, in bytes, and of the host's pins, in pages."""
    texts = [_text(path) for path in ("/proc/self/status", "/proc/vmstat")]
    found = dict(_COUNTER.findall("\n".join(texts)))
    return {name: int(value) if name.startswith("nr_") else int(value) * 1024 for name, value in found.items()}


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def main(stream: Any = None, out: Any = None) -> int:
    """Answer until nobody asks any more; return the exit status."""
    _die_with_parent()
    os.sched_setaffinity(0, [int(cpu) for cpu in sys.argv[1].split(",")])
    gc.disable()
    copier = Copier()
    out = out or _own_output()
    for line in stream or sys.stdin:
        try:
            answer = copier.answer(json.loads(line))
        except (MeasureError, OSError) as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), file=out, flush=True)
    os._exit(0)  # the driver's own way down can hang, and everything ends with the process


def _own_output() -> Any:
    """Return a stream for answers alone: what a driver prints goes to standard error."""
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return stream


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
