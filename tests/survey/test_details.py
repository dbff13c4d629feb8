"""What only checks judge: PCI attributes, isolation, control groups, modules; each found, absent, unreadable."""

from typing import Any

import msgspec
import pytest

from hostdoctor.diagnosis import Ask
from hostdoctor.diagnosis.registry import load_rules
from hostdoctor.diagnosis.report import CheckResult
from hostdoctor.diagnosis.runner import diagnose
from hostdoctor.facts import Cgroup, Host, PciErrors
from hostdoctor.sources.base import Space
from hostdoctor.sources.manifest import Manifest
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.tree import MemoryTree
from hostdoctor.survey import survey, survey_map
from hostdoctor.survey.cgroups import read_cgroups
from hostdoctor.survey.isolation import read_isolation
from hostdoctor.survey.limits import read_huge_pages
from hostdoctor.survey.nodes import read_cores
from hostdoctor.survey.power import read_cpu_power
from hostdoctor.survey.sandbox import read_kernel_modules, read_mempolicy
from hostdoctor.survey.storage import read_places
from tests.support.config_space import config_space
from tests.support.hostbuilder import build_files, load_host, rooted_files

ODD = "0x0000004000000000 0x0000004300000000 0x000000000014220c\n"  # no power of two
GPU0, NIC0, ROOT0 = "0000:1b:00.0", "0000:18:00.0", "0000:15:01.0"


def surveyed(name: str = "dgx-h100", *, details: bool = True, **changes: Any) -> Host:
    """Return a described host with more files; a name ``bdf/attribute`` is of that function."""
    built = build_files(load_host(name))
    files = rooted_files(built)
    parents = {path.rpartition("/")[0] for path in built.files if path.startswith("/sys/devices/")}
    folders = {path.rpartition("/")[2]: path for path in parents}
    for key, value in changes.pop("files", {}).items():
        bdf, _, attribute = key.partition("/")
        files[f"{folders[bdf]}/{attribute}" if bdf else key] = value if isinstance(value, bytes) else value.encode()
    links = built.links | {f"{folders[bdf]}/iommu_group": target for bdf, target in changes.pop("groups", {}).items()}
    source = RootSource(MemoryTree(files, links), name)
    return survey(source) if details else survey_map(source)


def source(files: dict[str, str]) -> RootSource:
    return RootSource(MemoryTree({path: text.encode() for path, text in files.items()}, {}), "x")


def verdict(host: Host, id: str) -> CheckResult:
    rules = tuple(rule for rule in load_rules() if rule.id == id)
    return diagnose(host, Ask(), rules).results[0]


def device(host: Host, bdf: str) -> Any:
    return next(d for d in host.pci_devices if d.bdf == bdf)


def aer(name: str, total: int) -> str:
    return f"RxErr 0\nBadTLP {total}\nTOTAL_ERR_{name} {total}\n"


class TestPci:
    def test_root_reads_payload_and_redirection(self) -> None:
        built = build_files(load_host("dgx-h100"))
        bridges = {p.split("/")[-2] for p in built.files if p.endswith("/config")}
        files = {f"{bdf}/config": config_space(max_payload_bytes=512, acs_control=0x1D) for bdf in bridges}
        host = surveyed(files=files | {f"{GPU0}/config": config_space(max_payload_bytes=256)})
        assert (device(host, ROOT0).max_payload_bytes, device(host, ROOT0).acs_redirects) == (512, True)
        assert (device(host, GPU0).max_payload_bytes, device(host, GPU0).acs_redirects) == (256, False)
        assert not [gap for gap in host.gaps if gap.fact == "pci_devices.config"]
        assert verdict(host, "HD206").findings[0].severity == "warning"
        assert verdict(host, "HD208").findings[0].subject.startswith("GPU0")

    def test_without_root_one_gap_says_so(self) -> None:
        host = surveyed()
        (gap,) = (gap for gap in host.gaps if gap.fact == "pci_devices.config")
        assert (gap.kind, "64 bytes" in gap.reason) == ("denied", True)
        assert verdict(host, "HD206").skip_kind == "needs-root"

    def test_error_totals_are_read_where_it_matters(self) -> None:
        told = {
            f"{GPU0}/aer_dev_correctable": aer("COR", 12),
            f"{GPU0}/aer_dev_nonfatal": aer("NONFATAL", 0),
            f"{GPU0}/aer_dev_fatal": "garbled",
            f"{ROOT0}/aer_dev_correctable": aer("COR", 3),
            "0000:00:00.1/aer_dev_correctable": aer("COR", 99),  # a peripheral: on no GPU's way
        }
        host = surveyed(files=told)
        assert device(host, GPU0).errors == PciErrors(correctable=12, nonfatal=0)
        assert device(host, "0000:00:00.1").errors is None
        found = verdict(host, "HD210").findings[0]
        assert (found.subject, found.severity) == (f"GPU0, port {ROOT0}", "info")

    def test_the_map_alone_reads_none_of_it(self) -> None:
        host = surveyed(details=False, files={f"{GPU0}/aer_dev_correctable": aer("COR", 12)})
        assert device(host, GPU0).errors is None
        assert (host.cgroups, host.gaps) == ((), ())
        assert "cpu.isolated" not in host.settings

    def test_groups_of_an_iommu(self) -> None:
        host = surveyed("gb200-tray")
        assert device(host, host.gpus[0].bdf or "").iommu_type == "identity"
        host = surveyed(
            groups={GPU0: "/sys/kernel/iommu_groups/7"}, files={"/sys/kernel/iommu_groups/7/type": "DMA-FQ\n"}
        )
        assert (device(host, GPU0).iommu_type, device(host, NIC0).iommu_type) == ("DMA-FQ", "off")
        assert verdict(host, "HD207").findings[0].subject == "GPU0"
        assert device(surveyed(), GPU0).iommu_type is None

    def test_bar1_from_the_resource_where_the_driver_does_not_tell(self) -> None:
        host = surveyed()
        assert host.gpus[0].bar1_bytes == 131072 << 20
        built = build_files(load_host("dgx-h100"))
        files = {path: data for path, data in rooted_files(built).items() if path != "/hostdoctor/nvml.json"}
        host = survey(RootSource(MemoryTree(files, built.links), "x"))
        assert (host.gpus[0].nvlinks, host.gpus[0].bar1_bytes) == (None, 131072 << 20)

    @pytest.mark.parametrize("text", ["", "nonsense\n" * 9, "0x0 0x1 0x2\n", "0x" + "f" * 999 + " 0x1 0x2\n", ODD])
    def test_a_resource_that_says_nothing(self, text: str) -> None:
        built = build_files(load_host("dgx-h100"))
        files = {path: data for path, data in rooted_files(built).items() if path != "/hostdoctor/nvml.json"}
        path = next(path for path in files if path.endswith(f"/{GPU0}/resource"))
        host = survey(RootSource(MemoryTree(files | {path: text.encode()}, built.links), "x"))
        assert host.gpus[0].bar1_bytes is None


class TestIsolation:
    CPU = "/sys/devices/system/cpu"

    @pytest.mark.parametrize(
        ("files", "found"),
        [
            ({}, {}),
            ({f"{CPU}/isolated": "\n"}, {"cpu.isolated": ""}),
            (
                {f"{CPU}/isolated": "2-3,6\n", f"{CPU}/nohz_full": "(null)\n"},
                {"cpu.isolated": "2-3,6", "cpu.nohz_full": ""},
            ),
            ({"/proc/cmdline": "ro quiet\n"}, {"cpu.isolated": "", "cpu.nohz_full": ""}),
            (
                {"/proc/cmdline": "ro isolcpus=managed_irq,domain,4-7 nohz_full=4-5 quiet\n"},
                {"cpu.isolated": "4-7", "cpu.nohz_full": "4-5"},
            ),
            ({f"{CPU}/isolated": "junk", "/proc/cmdline": "isolcpus=1"}, {"cpu.isolated": "1", "cpu.nohz_full": ""}),
            ({"/proc/cmdline": "isolcpus=nonsense"}, {"cpu.nohz_full": ""}),
            ({"/proc/cmdline": "isolcpus=1-N nohz_full=all"}, {}),
            ({"/proc/cmdline": "isolcpus=0-7:2/4 x"}, {"cpu.isolated": "0-1,4-5", "cpu.nohz_full": ""}),
            ({"/proc/cmdline": "isolcpus=managed_irq,4-7"}, {"cpu.isolated": "", "cpu.nohz_full": ""}),
            ({"/proc/cmdline": "isolcpus=nohz,domain,4"}, {"cpu.isolated": "4", "cpu.nohz_full": ""}),
            ({"/proc/cmdline": "isolcpus= nohz_full="}, {}),
        ],
    )
    def test_sysfs_then_the_command_line(self, files: dict[str, str], found: dict[str, str]) -> None:
        assert read_isolation(source(files)) == found


class TestCgroups:
    def test_every_ancestor_of_version_2(self) -> None:
        root = "/sys/fs/cgroup"
        files = {
            "/proc/self/cgroup": "0::/kubepods/pod1/box\n",
            f"{root}/cgroup.controllers": "cpu memory\n",
            f"{root}/kubepods/cpu.max": "max 100000\n",
            f"{root}/kubepods/pod1/cpu.max": "250000 100000\n",
            f"{root}/kubepods/pod1/box/cpu.max": "max 100000\n",
        }
        groups = read_cgroups(source(files))
        assert [(group.path, group.cpu_limit_cpus) for group in groups] == [
            ("/kubepods/pod1/box", None),
            ("/kubepods/pod1", 2.5),
            ("/kubepods", None),
        ]
        assert [group.cpu_limited for group in groups] == [False, True, False]

    def test_version_1_by_its_controllers(self) -> None:
        root = "/sys/fs/cgroup/cpu,cpuacct"
        files = {
            "/proc/self/cgroup": "5:memory:/x\n4:cpu,cpuacct:/job\n0::/\n",
            f"{root}/job/cpu.cfs_quota_us": "50000\n",
            f"{root}/job/cpu.cfs_period_us": "100000\n",
            f"{root}/cpu.cfs_quota_us": "-1\n",
        }
        assert read_cgroups(source(files)) == (
            Cgroup(path="/job", folder=f"{root}/job", cpu_limited=True, cpu_limit_cpus=0.5),
            Cgroup(path="/", folder=root, cpu_limited=False),
        )

    def test_a_container_sees_its_own_group_as_the_root(self) -> None:
        files = {"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": "200000 100000\n"}
        assert [group.cpu_limit_cpus for group in read_cgroups(source(files))] == [2.0]
        files["/proc/self/cgroup"] = "0::/../../other\n"
        assert [group.path for group in read_cgroups(source(files))] == ["/"]

    @pytest.mark.parametrize("text", ["", "junk", "1 2 3", "100000", "100000 0", "-5 100000", "0 100000"])
    def test_what_is_no_quota(self, text: str) -> None:
        files = {"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/cpu.max": text}
        assert read_cgroups(source(files)) == ()

    @pytest.mark.parametrize("text", ["", ":::\n", "0::" + "/a" * 100_000, "x\n" * 1000])
    def test_hostile_membership_ends(self, text: str) -> None:
        assert read_cgroups(source({"/proc/self/cgroup": text})) == ()


class TestSandbox:
    OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n"

    def test_modules(self) -> None:
        files = {"/proc/modules": "nvidia_peermem 16384 0 - Live 0x0\nnvidia 1 2 - Live 0x0\n"}
        assert read_kernel_modules(source(files)) == {"modules.peer_memory": "nvidia_peermem"}
        files = {"/proc/modules": "ext4 1 2\nnvidia 1 2\n", "/proc/driver/nvidia/version": self.OPEN}
        assert read_kernel_modules(source(files)) == {"modules.peer_memory": "", "modules.nvidia": "open"}
        assert read_kernel_modules(source({})) == {}

    @pytest.mark.parametrize(
        ("modules", "version"), [("", ""), ("nvi", "NVRM ver"), ("ext4 1 2\n", "null"), ("0", "\0")]
    )
    def test_what_is_cut_short_does_not_tell_that_something_is_missing(self, modules: str, version: str) -> None:
        files = {"/proc/modules": modules, "/proc/driver/nvidia/version": version}
        assert read_kernel_modules(source(files)) == {}
        host = surveyed(files=files)
        assert verdict(host, "HD506").status == "skip"

    def test_a_capture_tries_nothing(self) -> None:
        assert read_mempolicy(source({"/proc/self/status": "Seccomp:\t0\n"})) == {}


class TestNonsense:
    """A file that holds no value of its kind: nothing is known, and nobody is blamed."""

    @pytest.mark.parametrize("text", ["", "N/A", "0 0", "-1", "performanc", "\x1b[31m", "a" * 5000])
    def test_governors(self, text: str) -> None:
        policies = "/sys/devices/system/cpu/cpufreq"
        files = {f"{policies}/policy0/scaling_governor": text, f"{policies}/policy1/scaling_governor": "performance\n"}
        assert read_cpu_power(source(files)).governors == {"performance": 1}

    @pytest.mark.parametrize("text", ["", "[]", "[alway", "[alw] madvise never", "always [madvis] never", "[0]"])
    def test_transparent_huge_pages(self, text: str) -> None:
        folder = "/sys/kernel/mm/transparent_hugepage"
        files = {f"{folder}/{name}": text for name in ("enabled", "defrag", "shmem_enabled")}
        assert read_huge_pages(source(files)) == {}

    @pytest.mark.parametrize("text", ["", "0.1 GT/s", "999 GT/s PCIe", "3 GT/s", "16.5 GT/s", "Unknown", "32"])
    def test_link_speeds(self, text: str) -> None:
        host = surveyed(details=False, files={f"{GPU0}/current_link_speed": text})
        assert device(host, GPU0).link.speed_gts is None
        assert device(host, GPU0).link.max_speed_gts == 32.0

    @pytest.mark.parametrize("text", ["", "²", "٣", "1" * 5000, "-1", "N/A", "99999999999"])
    @pytest.mark.parametrize("id", ["HD301", "HD302"])
    def test_settings_that_no_kernel_has(self, text: str, id: str) -> None:
        files = {f"/proc/sys/{name}": text for name in ("kernel/numa_balancing", "vm/zone_reclaim_mode")}
        result = verdict(surveyed(files=files), id)
        assert (result.status, result.skip_kind) == ("skip", "no-evidence")

    @pytest.mark.parametrize("text", ["", "7,103", "255", "0-8191", "x", "1" * 5000])
    def test_threads_that_are_no_cores(self, text: str) -> None:
        built = build_files(load_host("workstation"))
        files = rooted_files(built)
        files |= {path: text.encode() for path in files if "/topology/" in path and "_siblings" in path}
        files |= {path: text.encode() for path in files if "/topology/core_cpus" in path}
        host = survey_map(RootSource(MemoryTree(files, built.links), "x"))
        whole = survey_map(RootSource(MemoryTree(rooted_files(built), built.links), "x"))
        assert host.cores in ((), whole.cores)  # those of /proc/cpuinfo, where no list contradicts it
        assert whole.cores

    def test_a_core_that_one_thread_tells_is_known(self) -> None:
        folder = "/sys/devices/system/cpu"
        files = {f"{folder}/cpu{i}/topology/thread_siblings_list": f"{i % 2},{i % 2 + 2}\n" for i in range(4)}
        files |= {f"{folder}/online": "0-3\n", f"{folder}/cpu3/topology/thread_siblings_list": "255\n"}
        assert [core.cpus for core in read_cores(source(files))] == ["0,2", "1,3"]
        files[f"{folder}/cpu1/topology/thread_siblings_list"] = "0\n"
        assert read_cores(source(files)) == ()

    @pytest.mark.parametrize("text", ["", "²", "٣", "1" * 5000, "-1", "max"])
    def test_max_map_count(self, text: str) -> None:
        host = surveyed(files={"/proc/sys/vm/max_map_count": text})
        rules = tuple(rule for rule in load_rules() if rule.id == "HD310")
        (result,) = diagnose(host, Ask(model_path="/m"), rules).results
        assert (result.status, result.skip_kind) == ("skip", "no-evidence")

    @pytest.mark.parametrize("space", [(-5, -5, -5), (0, 9, 9), (10, 5, 6), (10, -1, -2)])
    def test_room_that_cannot_be(self, space: tuple[int, int, int]) -> None:
        size, free, available = space
        told = Space(size_bytes=size, free_bytes=free, available_bytes=available)
        manifest = msgspec.json.encode(Manifest(spaces={"/kv": told})).decode()
        files = {"/proc/self/mountinfo": "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n", "/hostdoctor/manifest.json": manifest}
        (place,) = read_places(source(files), ["/kv"])
        assert (place.mount_point, place.size_bytes, place.free_bytes) == ("/", None, None)
