"""``capture --redact``: no identifier of the host is left, equal ones stay equal, and the map stays the same map."""

import json
import re
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostdoctor.diagnosis import Ask, Report
from hostdoctor.diagnosis.registry import load_rules
from hostdoctor.diagnosis.runner import diagnose
from hostdoctor.facts import Host
from hostdoctor.sources.base import LSCPU, LSPCI, NVME_LIST, NvmlOutput, Space
from hostdoctor.sources.identifiers import disguise
from hostdoctor.sources.manifest import CapturedOutput, Manifest
from hostdoctor.sources.opening import open_source
from hostdoctor.sources.recording import RecordingSource
from hostdoctor.sources.redacting import redacted
from hostdoctor.sources.root import RootSource
from hostdoctor.sources.snapshot import Snapshot, members, snapshot
from hostdoctor.sources.tar_writing import write_archive
from hostdoctor.sources.tree import MemoryTree
from hostdoctor.survey import survey
from tests.support.hostbuilder import build_files, host_names, load_host, rooted_files

UUID = "4c4c4544-0042-3510-8053-b7c04f4d3532"
PLANTED = {
    "host name": "axolotl-17",
    "domain": "reef.example.org",
    "user": "wilhelmina",
    "other user": "k.osborne",
    "server": "filer03",
    "boot id": "0f3a8c9e-61d2-4b57-9c0d-2f7be1a4d866",
    "pod": "7b1d9e42_5c3a_4f80_a6ee_90d1c2b3a4f5",
    "container": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "machine id": "8c1f2d3e4b5a69788796a5b4c3d2e1f0",
    "DMI UUID": UUID,
    "DMI serial": "J7KQ2W3",
    "board serial": "/J7KQ2W3/CNFCP0012345AB/",
    "asset tag": "RACK-00471-B",
    "drive serial": "S6CKNT0W700868",
    "wwid": "eui.36344630575008680025384500000001",
    "wwid of t10": "t10.NVMe____KXG60ZNV512G______________________S6CKNT0W700868",
    "nqn": "nqn.2014-08.org.nvmexpress:uuid:1f0e4d2c-aaaa-4bbb-8ccc-123456789abc",
    "subsystem nqn": "nqn.1994-11.com.samsung:nvme:PM1733:2.5-inch:S6CKNT0W700868",
    "wwn": "0x5000c500a1b2c3d4",
    "MAC": "b8:ce:f6:1a:2b:3c",
    "MAC in a name": "enxb8cef61a2b3c",
    "device serial": "b8-ce-f6-ff-ff-1a-2b-3c",
    "GUID": "b8ce:f603:001a:2b3c",
    "IPoIB": "00:00:10:49:fe:80:00:00:00:00:00:00:b8:ce:f6:03:00:1a:2b:3c",
    "IPv4": "10.23.117.42",
    "other IPv4": "172.31.9.200",
    "AWS name": "ip-10-23-117-43",
    "IPv6": "2a02:8109:b640:1f7c::1a2b",
    "long IPv6": "fe80:0000:0000:0000:bace:f6ff:fe1a:2b3c",
    "GPU UUID": "GPU-d5b1c7e0-8a43-4e0f-9d2f-6f1c2b3a4d5e",
    "MIG UUID": "MIG-5f3c1a2b-9d8e-5c7f-8a6b-4d3e2f1a0b9c",
    "GPU serial": "1652322004321",
    "VPD serial": "MT2147X09876",
}
KEPT = (
    "00:00:00:00:00:00",
    "00000000-0000-0000-0000-000000000000",
    "127.0.0.1",
    "nqn.2014-08.org.nvmexpress.discovery",
    "0000:3b:00.0",
    "pci0000:3a",
    "570.133.20",
    "6.8.0-60.1.2.3-generic",
    "0::/user.slice",
    "To Be Filled By O.E.M.",
    "fec00000-fec003ff",
    "00000000,0000ffff,ffffffff",
)
NVME_TABLE = """\
Node             Generic          SN                   Model                Namespace Usage
---------------- ---------------- -------------------- -------------------- --------- --------------------
/dev/nvme0n1     /dev/ng0n1       {drive serial}       SAMSUNG MZ1WL1T9     0x1       1.92  TB /   1.92  TB
/dev/nvme1n1     /dev/ng1n1       PHLN1234003A1P6      INTEL SSDPE2KX0      0x1       1.00  TB /   1.00  TB

Device   SN                   MN                   FR       TxPort Address
-------- -------------------- -------------------- -------- ------ --------------
nvme0    {drive serial}       SAMSUNG MZ1WL1T9     GDC5902Q pcie   0000:3c:00.0
"""
LSPCI_TEXT = """\
0000:3b:00.0 Ethernet controller [0200]: Mellanox Technologies MT2910 Family [ConnectX-7] [15b3:1021]
\tCapabilities: [148] Device Serial Number {device serial}
\tCapabilities: [9c] Vital Product Data
\t\t[PN] Part number: MCX75310AAS-NEAT
\t\t[SN] Serial number: {VPD serial}
\tMemory at fec00000-fec003ff (64-bit, prefetchable) [size=32M]
"""
LSTOPO_TEXT = """\
<info name="HostName" value="{host name}"/>
<info name="DMIBoardAssetTag" value="{asset tag}"/>
<info name="SerialNumber" value="{drive serial}"/>
<info name="CPUModel" value="Intel(R) Xeon(R)"/>
"""


def planted() -> Snapshot:
    """Return a capture of a host that gives itself away wherever it can."""
    p = PLANTED
    files: dict[str, str] = {
        "/proc/sys/kernel/hostname": f"{p['host name']}.{p['domain']}\n",
        "/proc/sys/kernel/osrelease": "6.8.0-60.1.2.3-generic\n",
        "/proc/sys/kernel/random/boot_id": p["boot id"] + "\n",
        "/etc/machine-id": p["machine id"] + "\n",
        "/proc/self/cgroup": f"0::/user.slice/pod{p['pod']}/cri-containerd-{p['container']}.scope\n",
        "/proc/self/environ": f"NVIDIA_VISIBLE_DEVICES={p['GPU UUID']},{p['MIG UUID']}\0HOSTNAME={p['host name']}\0",
        "/proc/cmdline": f"root=UUID={p['DMI UUID']} ip={p['IPv4']}::127.0.0.1 nvme.hostnqn={p['nqn']}\n",
        "/proc/mounts": (
            f"/dev/mapper/{p['host name'].replace('-', '--')}-home /home/{p['user']} ext4 rw 0 0\n"
            f"{p['server']}:/export/home/{p['other user']} /home/{p['other user']}/d nfs addr={p['other IPv4']} 0 0\n"
            f"[{p['IPv6']}]:/x /mnt/{p['user']} nfs rw 0 0\n//{p['server']}/c /srv cifs user={p['user']} 0 0\n"
            f"overlay / overlay lowerdir=/var/lib/docker/overlay2/{p['container']}/diff 0 0\n"
            f"/dev/disk/by-id/wwn-{p['wwn']} /mnt/{p['host name']} xfs rw 0 0\n"
        ),
        "/proc/self/mountinfo": f"36 35 0:31 / /home/{p['user']} rw - nfs4 {p['server']}:/home rw,addr={p['IPv4']}\n",
        "/sys/class/dmi/id/product_uuid": p["DMI UUID"].upper() + "\n",
        "/sys/class/dmi/id/product_serial": p["DMI serial"] + "\n",
        "/sys/class/dmi/id/board_serial": p["board serial"] + "\n",
        "/sys/class/dmi/id/chassis_asset_tag": p["asset tag"] + "\n",
        "/sys/class/dmi/id/chassis_serial": "To Be Filled By O.E.M.\n",
        "/sys/class/nvme/nvme0/serial": p["drive serial"] + "  \n",
        "/sys/class/nvme/nvme0/subsysnqn": p["subsystem nqn"] + "   \n",
        "/sys/class/nvme/nvme1/subsysnqn": "nqn.2014-08.org.nvmexpress.discovery\n",
        "/sys/class/nvme/nvme0/nvme0n1/wwid": p["wwid"] + "\n",
        "/sys/class/nvme/nvme1/nvme1n1/wwid": p["wwid of t10"] + "\n",
        f"/sys/class/net/{p['MAC in a name']}/address": p["MAC"] + "\n",
        "/sys/class/net/ib0/address": p["IPoIB"] + "\n",
        "/sys/class/net/lo/address": "00:00:00:00:00:00\n",
        "/sys/class/infiniband/mlx5_0/node_guid": p["GUID"] + "\n",
        "/sys/class/infiniband/mlx5_0/node_desc": f"{p['host name']} mlx5_0\n",
        "/sys/class/infiniband/mlx5_0/ports/1/gids/0": p["long IPv6"] + "\n",
        "/proc/driver/nvidia/gpus/0000:3b:00.0/information": f"GPU UUID: \t {p['GPU UUID']}\nBus: 0000:3b:00.0\n",
        "/sys/devices/system/node/node0/cpumap": "00000000,0000ffff,ffffffff\n",
        "/sos_commands/hostdoctor/nvme_list": NVME_TABLE.format(**p),
        "/sos_commands/hostdoctor/lstopo": LSTOPO_TEXT.format(**p),
        "/sos_commands/hostdoctor/lspci": LSPCI_TEXT.format(**p),
    }
    nvml = {
        "driver_version": "570.133.20",
        "fabric": {"cluster_uuid": "00000000-0000-0000-0000-000000000000"},
        "gpus": [{"uuid": p["GPU UUID"], "serial": p["GPU serial"], "link": {"width_lanes": 16}}],
    }
    gone = f"{p['AWS name']}: no route to {p['IPv4']}"
    return Snapshot(
        files=files,
        links={
            f"/sys/bus/{p['MAC in a name']}": f"/sys/class/net/{p['MAC in a name']}",
            "/sys/a": "/sys/devices/pci0000:3a",
        },
        folders=frozenset((f"/sys/class/net/{p['MAC in a name']}",)),
        outputs=(
            _output(NVME_LIST.argv, "/sos_commands/hostdoctor/nvme_list", f"/home/{p['user']}/a:nvme list"),
            _output(LSPCI.argv, "/sos_commands/hostdoctor/lspci", "lspci"),
            CapturedOutput(kind="lscpu", argv=LSCPU.argv, source="lscpu", reason=gone),
        ),
        nvml=NvmlOutput(document=nvml, state="error", reason=f"{p['GPU serial']} on {p['host name']}"),
        manifest=Manifest(
            spaces={f"/home/{p['user']}": Space(size_bytes=3, free_bytes=2, available_bytes=1)},
            errors={f"/sys/class/net/{p['MAC in a name']}/mtu": ("denied", f"not {p['user']}'s")},
        ),
    )


def _output(argv: tuple[str, ...], file: str, source: str) -> CapturedOutput:
    return CapturedOutput(kind="nvme-list" if "nvme" in argv else "lspci", argv=argv, source=source, file=file)


@pytest.fixture(scope="module")
def clean() -> Snapshot:
    return redacted(planted())


def everything(taken: Snapshot) -> str:
    """Return every byte of a capture: names, targets and contents."""
    parts = members(taken)
    return "\n".join(f"{name}\n{part.decode() if isinstance(part, bytes) else part}" for name, part in parts.items())


@pytest.mark.parametrize("what", PLANTED)
def test_no_identifier_is_left(clean: Snapshot, what: str) -> None:
    before, after = everything(planted()), everything(clean)
    for spelling in (PLANTED[what], PLANTED[what].upper(), PLANTED[what].replace("-", "--")):
        assert spelling not in after
    assert PLANTED[what] in before or PLANTED[what].upper() in before


@pytest.mark.parametrize("text", KEPT)
def test_what_is_none_is_kept(clean: Snapshot, text: str) -> None:
    assert text in everything(planted())
    assert text in everything(clean)


def test_equal_ones_stay_equal(clean: Snapshot) -> None:
    mac = clean.files[next(path for path in clean.files if path.startswith("/sys/class/net/enx"))].strip()
    name = f"enx{mac.replace(':', '')}"
    assert re.fullmatch("02(:[0-9]{2}){5}", mac)
    assert clean.links[f"/sys/bus/{name}"] == f"/sys/class/net/{name}"
    assert clean.folders == {f"/sys/class/net/{name}"}
    assert list(clean.manifest.errors) == [f"/sys/class/net/{name}/mtu"]
    document = clean.nvml.document or {}
    gpu = document["gpus"][0]["uuid"]
    assert re.fullmatch("GPU-0{8}-0{4}-0{4}-0{4}-[0-9]{12}", gpu)
    assert f"GPU UUID: \t {gpu}\n" in clean.files["/proc/driver/nvidia/gpus/0000:3b:00.0/information"]
    assert clean.files["/proc/self/environ"].startswith(f"NVIDIA_VISIBLE_DEVICES={gpu},MIG-0000")
    serial = clean.files["/sys/class/nvme/nvme0/serial"].strip()
    assert serial in clean.files["/sos_commands/hostdoctor/nvme_list"]
    assert document["gpus"][0]["serial"] in (clean.nvml.reason or "")
    uuid = clean.files["/sys/class/dmi/id/product_uuid"].strip()
    assert f"root=UUID={uuid} " in clean.files["/proc/cmdline"]


def test_names_become_names(clean: Snapshot) -> None:
    mounts = clean.files["/proc/mounts"].splitlines()
    assert clean.files["/proc/sys/kernel/hostname"] == "host1.host2\n"
    assert mounts[0].endswith(" /home/user2 ext4 rw 0 0")
    assert mounts[1].startswith("server1:/export/home/user1 /home/user1/d nfs addr=198.18.")
    assert clean.files["/proc/self/mountinfo"].startswith(
        "36 35 0:31 / /home/user2 rw - nfs4 server1:/home rw,addr=198.18."
    )
    assert list(clean.manifest.spaces) == ["/home/user2"]
    assert mounts[3] == "//server1/c /srv cifs user=user2 0 0"
    assert clean.files["/sys/class/infiniband/mlx5_0/node_desc"] == "host1 mlx5_0\n"


def test_columns_stay_columns(clean: Snapshot) -> None:
    before, after = (taken.files["/sos_commands/hostdoctor/nvme_list"] for taken in (planted(), clean))
    assert [len(row) for row in before.splitlines()] == [len(row) for row in after.splitlines()]
    assert re.findall("SAMSUNG.*", before) == re.findall("SAMSUNG.*", after)


def test_what_was_replaced_is_counted(clean: Snapshot) -> None:
    assert planted().manifest.redacted is None
    counts = clean.manifest.redacted or {}
    assert (counts["host names"], counts["user names"], counts["server names"]) == (2, 2, 1)
    assert all(counts.values())


def test_a_host_that_is_called_like_a_word_of_the_map_keeps_the_map() -> None:
    for name in ("node0", "nvidia", "nvme0", "overlay", "docker", "x86_64", "gpu", "7"):
        taken = Snapshot(
            files={
                "/proc/sys/kernel/hostname": f"{name}\n",
                "/proc/mounts": "overlay / overlay lowerdir=/var/lib/docker/x 0 0\n",
                "/sys/devices/system/node/node0/cpulist": "0-7\n",
                "/sos_commands/hostdoctor/lscpu": "Architecture: x86_64\nNUMA node0 CPU(s): 0-7\ngpu\n",
            },
            links={"/sys/class/nvme/nvme0": "/sys/devices/nvme/nvme0", "/sys/driver": "/sys/bus/pci/drivers/nvidia"},
            folders=frozenset(),
            outputs=(
                CapturedOutput(kind="lscpu", argv=("lscpu",), source="lscpu", file="/sos_commands/hostdoctor/lscpu"),
            ),
            nvml=NvmlOutput(),
            manifest=Manifest(),
        )
        changed = redacted(taken)
        assert changed.files == taken.files | {"/proc/sys/kernel/hostname": "host1\n"}, name
        assert changed.links == taken.links


def only(**files: str) -> Snapshot:
    """Return a capture of these files (``/`` for ``__`` in their names) and nothing else."""
    named = {"/" + name.replace("__", "/"): text for name, text in files.items()}
    return Snapshot(files=named, links={}, folders=frozenset(), outputs=(), nvml=NvmlOutput(), manifest=Manifest())


MOUNTED = {
    "wilma@filer07:/data /m fuse.sshfs rw": "user1@server1:/data /m fuse.sshfs rw",
    "wilma@filer07: /m fuse.sshfs rw": "user1@server1: /m fuse.sshfs rw",
    "https://cloud.reef.org/dav /m fuse.davfs rw": "https://server1.server2/dav /m fuse.davfs rw",
    "filer03.reef.org:/x /m nfs rw,addr=::ffff:10.2.3.5": "server1.server2:/x /m nfs rw,addr=::ffff:198.18.0.1",
    "mds01@tcp:mds02@o2ib1:/fs /m lustre rw": "server1@tcp:server2@o2ib1:/fs /m lustre rw",
    "mona:6789,monb:6789:/ /m ceph rw,name=dino": "server1:6789,server2:6789:/ /m ceph rw,name=user1",
    "nfsa,nfsb:/vol /m fuse.glusterfs rw": "server1,server2:/vol /m fuse.glusterfs rw",
    "/dev/sda1 /nfs/home/barney ext4 rw": "/dev/sda1 /nfs/home/user1 ext4 rw",
    "/dev/sda1 /gpfs/u/home/barney/x ext4 rw": "/dev/sda1 /gpfs/u/home/user1/x ext4 rw",
    "/dev/mapper/REEF--7-root / ext4 rw": "/dev/mapper/host1-root / ext4 rw",
    "/dev/disk/by-id/ata-ST4000NM000A-2HZ_WS2145XY-part1 /m ext4 rw": (
        "/dev/disk/by-id/ata-ST4000NM000A-2HZ_00000001-part1 /m ext4 rw"
    ),
    "/dev/disk/by-id/nvme-SAMSUNG_MZ-7_S4YNNE0N800999_1 /m ext4 rw": (
        "/dev/disk/by-id/nvme-SAMSUNG_MZ-7_00000000000001_1 /m ext4 rw"
    ),
    "/dev/mapper/35000c500a1b2c3d4 /m ext4 rw": "/dev/mapper/00000000000000001 /m ext4 rw",
    "C:\\134 /mnt/c 9p rw": "C:\\134 /mnt/c 9p rw",
    "tank/data@daily /m zfs ro": "tank/data@daily /m zfs ro",
}


@pytest.mark.parametrize("mount", MOUNTED)
def test_who_and_what_a_mount_names(mount: str) -> None:
    taken = only(proc__sys__kernel__hostname="reef-7\n", proc__mounts=f"{mount} 0 0\n")
    assert redacted(taken).files["/proc/mounts"] == f"{MOUNTED[mount]} 0 0\n"


def test_a_hardware_address_behind_a_name() -> None:
    words = "ifname=eth0:b8:ce:f6:1a:2b:3c ip=:::::eth0:none:1500:b8:ce:f6:1a:2b:3d node-b8-ce-f6-1a-2b-3e"
    assert redacted(only(proc__cmdline=words)).files["/proc/cmdline"] == (
        "ifname=eth0:02:00:00:00:00:01 ip=:::::eth0:none:1500:02:00:00:00:00:02 node-02-00-00-00-00-03"
    )


def test_a_host_and_a_server_in_other_letters_are_the_same() -> None:
    taken = only(
        proc__sys__kernel__hostname="reef-7\n",
        proc__mounts="Filer3.a.org:/x /m nfs rw\n",
        proc__cmdline="REEF-7 filer3",
    )
    assert redacted(taken).files["/proc/cmdline"] == "host1 server1"


@pytest.mark.parametrize("name", ["dell", "h100"])
def test_a_host_that_is_called_like_its_model_keeps_the_model(name: str) -> None:
    vendor = {"/sys/class/dmi/id/sys_vendor": "Dell Inc.\n"}
    nvml = NvmlOutput(document={"gpus": [{"name": "NVIDIA H100 80GB HBM3"}]})
    taken = only(proc__sys__kernel__hostname=f"{name}\n")
    clean = redacted(msgspec.structs.replace(taken, files=taken.files | vendor, nvml=nvml))
    assert clean.files == vendor | {"/proc/sys/kernel/hostname": "host1\n"}
    assert clean.nvml == nvml


def test_a_variable_behind_a_home_keeps_its_name() -> None:
    environ = redacted(only(proc__self__environ="HOME=/home/wilma\0PATH=/bin\0")).files["/proc/self/environ"]
    assert environ == "HOME=/home/user1\0PATH=/bin\0"


def test_what_is_no_text_is_left_out_but_for_configuration_space() -> None:
    config = bytearray(range(256)) * 16
    config[0x100:0x104] = (0x0001 | 1 << 16 | 0x150 << 20).to_bytes(4, "little")  # AER, next at 0x150
    config[0x150:0x154] = (0x0003 | 1 << 16 | 0x100 << 20).to_bytes(4, "little")  # serial number, next in a circle
    config[0x154:0x15C] = b"\x3c\x2b\x1a\xff\xff\xf6\xce\xb8"
    folder = "/sys/bus/47505500-0001-0000-3130-444531444234"
    taken = Snapshot(
        files={},
        binaries={f"{folder}/config": bytes(config), f"{folder}/vpd": b"\x82S\0N"},
        links={"/sys/x": folder},
        folders=frozenset(),
        outputs=(),
        nvml=NvmlOutput(),
        manifest=Manifest(),
    )
    clean = redacted(taken)
    ((path, data),) = clean.binaries.items()
    assert path == f"{clean.links['/sys/x']}/config" == "/sys/bus/00000000-0000-0000-0000-000000000001/config"
    assert data == bytes(config[:0x154]) + bytes(8) + bytes(config[0x15C:])


def test_an_undisguisable_short_serial_is_replaced_where_it_stands_alone() -> None:
    files: dict[str, str] = {"/sys/class/nvme/nvme0/serial": "12\n", "/sys/devices/x/numa_node": "12\n"}
    taken = Snapshot(files=files, links={}, folders=frozenset(), outputs=(), nvml=NvmlOutput(), manifest=Manifest())
    assert redacted(taken).files == {"/sys/class/nvme/nvme0/serial": "01\n", "/sys/devices/x/numa_node": "12\n"}


@pytest.mark.parametrize(
    ("found", "number", "expected"),
    [
        ("GPU", 3, "003"),
        ("A-1", 250, "2-50"),
        ("0A1B2C3D-4E5F-6071-8293-A4B5C6D7E8F9", 17, "00000000-0000-0000-0000-000000000017"),
        ("eui.0123456789abcdef", 5, "eui.0000000000000005"),
        (r"0a1b2c3d\x2d4e5f\x2d6071", 5, r"00000000\x2d0000\x2d0005"),
    ],
)
def test_a_disguise_is_as_long(found: str, number: int, expected: str) -> None:
    assert disguise("hex" if "." in found or len(found) > 12 else "serial", found, number) == expected


# -- whole hosts --------------------------------------------------------------------------------------------------


def report(host: Host) -> Report:
    return diagnose(host, Ask(), load_rules())


def both(name: str, folder: Path) -> tuple[Report, Report, str]:
    """Return the reports of a capture and of its redacted twin, and every byte of the latter."""
    files = build_files(load_host(name))
    recording = RecordingSource(RootSource(MemoryTree(rooted_files(files), files.links), "root"))
    survey(recording)
    plain = snapshot(recording, "0.0", "")
    reports = []
    for number, taken in enumerate((plain, redacted(plain))):
        path = folder / f"{number}.tar.gz"
        write_archive(path, members(taken), force=False)
        reports.append(report(survey(open_source([str(path)]))))
    with tarfile.open(folder / "1.tar.gz") as archive:
        streams = (archive.extractfile(member) for member in archive if member.isreg())
        text = "\n".join([*archive.getnames(), *(s.read().decode(errors="replace") for s in streams if s)])
    return reports[0], reports[1], text


def differences(a: Any, b: Any, path: str = "") -> dict[str, tuple[Any, Any]]:
    """Return where two JSON documents differ."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return {k: v for key in a for k, v in differences(a[key], b[key], f"{path}.{key}").items()}
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        pairs = enumerate(zip(a, b, strict=True))
        return {k: v for i, (x, y) in pairs for k, v in differences(x, y, f"{path}[{i}]").items()}
    return {} if a == b else {path: (a, b)}


@pytest.mark.parametrize("name", host_names())
def test_the_report_is_the_same_but_for_the_identifiers(tmp_path: Path, name: str) -> None:
    plain, clean, text = both(name, tmp_path)
    found = differences(*(json.loads(msgspec.json.encode(r)) for r in (plain, clean)))
    unexpected = {
        path: values
        for path, values in found.items()
        if not re.fullmatch(
            r"\.host\.(system\.hostname|gpus\[\d+\]\.(uuid|fabric\.cluster_uuid)|settings\.env\.\w+|sources\[\d+\])",
            path,
        )
    }
    assert unexpected == {}
    assert ".host.system.hostname" in found
    identifiers = {plain.host.system.hostname, *(gpu.uuid for gpu in plain.host.gpus)} - {None}
    assert [identifier for identifier in identifiers if f"{identifier}".removeprefix("GPU-") in text] == []
