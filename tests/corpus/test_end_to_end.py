"""Every sample, whole and damaged, through the command line: a document that obeys its schema, or one clear line."""

import json
import random
import resource
import subprocess  # noqa: TID251  a process with its own limits
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from tests.cli.support import Ran, hostdoctor
from tests.support.corpus import ROOT
from tests.support.write_schemas import FOLDER

KINDS = (
    "bench-serve",
    "collect-env",
    "interrupts",
    "lscpu",
    "lspci-tree",
    "lspci-verbose",
    "nccl-xml",
    "numactl-hardware",
    "nvidia-smi-topo",
    "nvme",
)
SAMPLES = sorted(path for kind in KINDS for path in ROOT.glob(f"{kind}/*"))
VALIDATOR = jsonschema.Draft202012Validator(json.loads((FOLDER / "report.schema.json").read_text(encoding="utf-8")))
STATUSES = {0, 1, 2, 3, 64}
NOISE_BYTES = 50 << 20
MEMORY_BYTES = 3 << 30
LIMIT_S = 300  # a hang, not a speed: these took 1 to 21 s on two busy cores

pytestmark = [pytest.mark.corpus, pytest.mark.skipif(not SAMPLES, reason="no corpus")]


def check(path: Path) -> Ran:
    return hostdoctor("check", "--from", str(path), "--format", "json")


def assert_clear(ran: Ran, path: Path) -> None:
    assert ran.status in STATUSES, path
    assert "internal error" not in ran.err
    assert "Traceback" not in ran.err
    if ran.out:
        report = json.loads(ran.out)
        VALIDATOR.validate(report)
        assert [result for result in report["results"] if result["status"] == "error"] == []
        assert list(negatives(report["host"])) == []
    else:
        assert (ran.status, ran.err.count("\n")) == (3, 1)


def negatives(value: object, path: str = "host") -> Iterator[str]:
    """Yield where a number below zero stands: unknown is null."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from negatives(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from negatives(inner, f"{path}[{i}]")
    elif isinstance(value, (int, float)) and value < 0:
        yield path


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name[:40])
def test_a_sample_is_a_document_or_one_line(path: Path) -> None:
    assert_clear(check(path), path)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name[:40])
def test_a_damaged_sample_is_a_document_or_one_line(path: Path, tmp_path: Path) -> None:
    chance = random.Random(path.name)
    for number, data in enumerate(damaged(path.read_bytes(), chance)):
        target = tmp_path / str(number)
        target.write_bytes(data)
        assert_clear(check(target), path)


def damaged(data: bytes, chance: random.Random) -> Iterator[bytes]:
    """Yield the data cut at both ends, its lines shuffled and halved, and its bytes flipped."""
    lines = data.splitlines(keepends=True)
    yield data[: chance.randrange(len(data) + 1)]
    yield data[chance.randrange(len(data) + 1) :]
    yield b"".join(chance.sample(lines, len(lines)))
    yield b"".join(line for line in lines if chance.random() < 0.5)
    yield b"".join(line[: chance.randrange(len(line) + 1)] for line in lines)
    flipped = bytearray(data)
    for _ in range(len(data) // 50 + 1):
        flipped[chance.randrange(len(flipped))] = chance.randrange(256)
    yield bytes(flipped)
    yield data + data


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", ["bytes", "letters", *KINDS])
def test_fifty_megabytes_of_noise_end_soon_and_in_bounds(kind: str, tmp_path: Path) -> None:
    chance = random.Random(kind)
    target = tmp_path / "noise"
    target.write_bytes(noise(kind, chance))
    done = subprocess.run(
        [sys.executable, "-m", "hostdoctor", "check", "--from", str(target), "--format", "nagios"],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES)),
    )
    assert done.returncode in STATUSES, done.stderr
    assert "internal error" not in done.stderr


def noise(kind: str, chance: random.Random) -> bytes:
    if kind == "bytes":
        return chance.randbytes(NOISE_BYTES)
    if kind == "letters":
        words = [
            chance.choice((b"GPU0 ", b"node 0 ", b"\n", b"0000:00:00.0 ", b"NIC1\t", b"+-", b"x16 "))
            for _ in range(999)
        ]
        block = b"".join(words)
    else:
        lines = [line for path in SAMPLES if path.parent.name == kind for line in path.read_bytes().splitlines(True)]
        block = b"".join(chance.sample(lines, len(lines)))
    return (block * (NOISE_BYTES // len(block) + 1))[:NOISE_BYTES]
