"""py-cpuinfo's answer: asked in a child, kept in a capture, used only where nothing else names the CPU."""

import json
from pathlib import Path

import pytest

from hostdoctor.sources.commands import Completed
from hostdoctor.sources.cpu import CpuDescription, cpu_output, start_cpu
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.tree import MemoryTree
from hostdoctor.survey import survey_map

GRACE = {"brand": "Neoverse-V2", "vendor": "ARM", "arch": "ARM_8", "flags": ["fp", "asimd"]}
CPUINFO = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"
LSCPU = "Architecture: aarch64\nCPU(s): 2\nOn-line CPU(s) list: 0,1\nModel name: Neoverse-V2 (lscpu)\n"


def model_of(cpu_json: str | None, **files: str) -> str | None:
    texts = {"/proc/cpuinfo": CPUINFO} | files | ({} if cpu_json is None else {"/hostdoctor/cpu.json": cpu_json})
    tree = MemoryTree({path: text.encode() for path, text in texts.items()}, {})
    return survey_map(RootSource(tree, "a capture")).system.cpu_model


def test_it_names_a_cpu_that_nothing_else_names() -> None:
    assert model_of(None) is None
    assert model_of(json.dumps(GRACE)) == "Neoverse-V2"


def test_the_kernel_and_lscpu_come_first() -> None:
    told = json.dumps(GRACE)
    assert model_of(told, **{"/sos_commands/processor/lscpu": LSCPU}) == "Neoverse-V2 (lscpu)"
    assert model_of(told, **{"/proc/cpuinfo": "processor\t: 0\nmodel name\t: Kernel's\n"}) == "Kernel's"


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{}", '{"brand": 5}', '{"brand": null}', '{"brand": " "}', "[" * 100_000, '{"brand": "x']
)
def test_what_is_no_answer_names_nothing(text: str) -> None:
    assert model_of(text) is None


def test_a_name_is_one_line_of_sane_length() -> None:
    assert model_of(json.dumps(GRACE | {"brand": " A\n B" + "C" * 9999})) == "A B" + "C" * 197


def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str) -> Completed:
    """Return how the child ends when this is py-cpuinfo."""
    (tmp_path / "cpuinfo.py").write_text(module)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return start_cpu(20).wait()


def test_its_answer_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"brand_raw": "X", "arch": "X86_64", "flags": ["fpu"], "hz_actual": [1, 0]}
    module = f"def get_cpu_info():\n    print('a word')\n    return {told}"
    assert cpu_output(child(tmp_path, monkeypatch, module)) == CpuDescription(brand="X", arch="X86_64", flags=("fpu",))


FAILURES = {
    "missing": ("raise ModuleNotFoundError('no py-cpuinfo')", "exit status 1: ModuleNotFoundError: no py-cpuinfo"),
    "strange": ("def get_cpu_info(): return {}", "exit status 1: py-cpuinfo does not know this CPU"),
    "nameless": ("def get_cpu_info(): return {'arch': 'S390X'}", "exit status 1: py-cpuinfo does not know this CPU"),
    "broken": ("def get_cpu_info(): raise KeyError('hz')", "exit status 1: KeyError: 'hz'"),
    "killed": ("import os\nos.kill(os.getpid(), 9)", "killed by SIGKILL"),
    "silent": ("import os\nos._exit(0)", "no answer that is understood"),
    "odd": ("def get_cpu_info(): return {'brand_raw': 5}", "no answer that is understood"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_failure_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    module, reason = FAILURES[case]
    assert cpu_output(child(tmp_path, monkeypatch, module)) == reason


def test_one_that_never_answers_costs_its_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpuinfo.py").write_text("import time\ntime.sleep(1000)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    completed = start_cpu(0.3).wait()
    assert (completed.kind, cpu_output(completed)) == ("timeout", "did not answer in time")


def test_the_real_one_answers_here() -> None:
    pytest.importorskip("cpuinfo")
    told = cpu_output(start_cpu(60).wait())
    if isinstance(told, str):
        pytest.skip(f"py-cpuinfo does not know this CPU: {told}")
    assert told.brand
