import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.errors import ParseError
from hostdoctor.parsers.collect_env import CollectEnv, parse_collect_env
from tests.sources.samples import BANNERS, NUMACTL, REPORT, REPORT_HEAD, SGLANG, TOPO

HEAD = "PyTorch version: 2.9.0\n"


def test_reads_the_flat_form() -> None:
    assert parse_collect_env(REPORT) == CollectEnv(
        gpu_names=((0, "NVIDIA Example 80GB"), (1, "NVIDIA Example 80GB")),
        nvidia_driver="570.10.01",
        os="Example Linux 9 (x86_64)",
        kernel="6.1.0-9-generic",
        wsl2=False,
    )


def test_reads_the_form_with_banners() -> None:
    assert parse_collect_env(BANNERS) == CollectEnv(
        gpu_names=((0, "NVIDIA Example 80GB"),), nvidia_driver="570.10.01", os="Example Linux 9 (aarch64)"
    )


def test_reads_sglangs_form() -> None:
    assert parse_collect_env(SGLANG) == CollectEnv(
        gpu_names=((0, "NVIDIA Example 80GB"), (1, "NVIDIA Example 80GB")),
        nvidia_driver="570.10.01",
        hypervisor_vendor="KVM",
    )


def test_reads_gpus_of_several_models() -> None:
    text = "CUDA available: True\nGPU 0,2: NVIDIA A\nGPU 1: NVIDIA B\nGPU 0,1,2 Compute Capability: 9.0\n"
    assert parse_collect_env(text).gpu_names == ((0, "NVIDIA A"), (1, "NVIDIA B"), (2, "NVIDIA A"))


def test_notes_mig_and_skips_its_instances() -> None:
    head = REPORT_HEAD.replace(
        "GPU 1:", "  MIG 3g.40gb     Device  0: (UUID: MIG-1)\n  MIG 3g.40gb     Device  1:\nGPU 1:"
    )
    report = parse_collect_env(head.replace("80GB\n  MIG", "80GB (UUID: GPU-0)\n  MIG"))
    assert report.mig
    assert report.gpu_names == ((0, "NVIDIA Example 80GB"), (1, "NVIDIA Example 80GB"))


@pytest.mark.parametrize("said", ["Could not collect", "No CUDA", "N/A", "Not Available", ""])
def test_leaves_unknown_what_is_not_told(said: str) -> None:
    text = f"GPU models and configuration: {said}\nNvidia driver version: {said}\nOS: Could not collect\n"
    assert parse_collect_env(text) == CollectEnv()


def test_does_not_number_the_gpus_of_another_vendor() -> None:
    text = "GPU models and configuration: AMD Example MI100 (gfx908)\nNvidia driver version: Could not collect\n"
    assert parse_collect_env(text).gpu_names == ()


def test_takes_names_only_where_they_are_announced() -> None:
    text = HEAD + "GPU models and configuration : GPU 0: NVIDIA A\n\nGPU 1: 35 C\nGPU 0: error\n"
    assert parse_collect_env(text).gpu_names == ((0, "NVIDIA A"),)


def test_drops_what_is_told_in_two_ways() -> None:
    text = "Nvidia driver version: 570.10.01\n570.10.01\nOS: A\nOS: B\nCUDA Driver Versions: 570.10.01, 575.1.2\n"
    report = parse_collect_env(text)
    assert (report.nvidia_driver, report.os) == (None, None)
    text = "GPU models and configuration:\nGPU 0: NVIDIA A\nGPU 0: NVIDIA B\nGPU 1: NVIDIA B\n"
    assert parse_collect_env(text).gpu_names == ((1, "NVIDIA B"),)


@pytest.mark.parametrize(
    ("platform", "kernel", "wsl2"),
    [
        ("Linux-6.6.0-1-microsoft-standard-WSL2-x86_64-with-glibc2.39", "6.6.0-1-microsoft-standard-WSL2", True),
        ("Linux-5.14.0-503.el9.ppc64le-ppc64le-with-glibc2.34", "5.14.0-503.el9.ppc64le", False),
        ("Linux-6.8.0-aarch64-with-glibc2.39", "6.8.0", False),
        ("macOS-15.1-arm64-arm-64bit", None, False),
    ],
)
def test_tells_the_kernel_and_wsl2_from_the_platform(platform: str, kernel: str | None, wsl2: bool) -> None:
    report = parse_collect_env(f"Python platform: {platform}\n")
    assert (report.kernel, report.wsl2) == (kernel, wsl2)


@pytest.mark.parametrize(
    ("after", "not_collected"),
    [
        ("Could not collect\n", True),
        ("\n  Could not collect\n", True),
        ("(w pid=1, ip=192.0.2.1) Could not collect\n", True),
        (TOPO + "\nCould not collect\n", False),
        ("============ ROCm System Management Interface ============\n", False),
        ("\n\n\n", False),
        ("", False),
    ],
)
def test_notes_that_the_topology_was_not_collected(after: str, not_collected: bool) -> None:
    assert parse_collect_env("GPU Topology:\n" + after).topology_not_collected is not_collected
    assert parse_collect_env("NVIDIA Topology: \n" + after).topology_not_collected is not_collected


def test_reads_a_quoted_text_with_dos_line_ends() -> None:
    assert parse_collect_env(REPORT.replace("\n", "\r\n")) == parse_collect_env(REPORT)
    assert parse_collect_env("> " + REPORT_HEAD.replace("\n", "\n> ")) == parse_collect_env(REPORT_HEAD)


@pytest.mark.parametrize("text", ["", "\n\n", NUMACTL, TOPO, "Hypervisor vendor: KVM\n", "GPU 0: NVIDIA A\n"])
def test_refuses_what_is_no_report(text: str) -> None:
    with pytest.raises(ParseError, match="no environment report"):
        parse_collect_env(text, "paste.txt")


LINES = sorted(set((REPORT + BANNERS + SGLANG).split("\n")))


@given(st.lists(st.one_of(st.sampled_from(LINES), st.text(max_size=40)), max_size=40))
def test_gives_a_report_or_a_parse_error(lines: list[str]) -> None:
    try:
        report = parse_collect_env("\n".join(lines))
    except ParseError:
        return
    indexes = [index for index, _ in report.gpu_names]
    assert indexes == sorted(set(indexes))


@pytest.mark.parametrize("unit", ["GPU 0: x\n", "GPU models and configuration:\n", "OS" + " " * 200, "GPU 1,", "a:b\n"])
def test_takes_time_in_proportion_to_the_text(unit: str) -> None:
    start = time.process_time()
    parse_collect_env(HEAD + unit * (2_000_000 // len(unit)))
    assert time.process_time() - start < 3
