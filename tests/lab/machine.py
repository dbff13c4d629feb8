"""The guest's hardware: QEMU's arguments, and what the PCI functions are made to show. README.md draws it."""

from pathlib import Path

GPUS = ("0000:21:00.0", "0000:a3:00.0")
GPU_IDS = {"vendor": "0x10de", "device": "0x2330", "class": "0x030200"}

# Width and speed now, width and speed at most; QEMU's own values are arbitrary.
LINKS = {
    "0000:20:00.0": (16, "32.0", 16, "32.0"),  # port of the GPU on node 0
    "0000:21:00.0": (16, "32.0", 16, "32.0"),
    "0000:20:01.0": (4, "16.0", 4, "16.0"),  # port of the drive on node 0
    "0000:22:00.0": (4, "16.0", 4, "32.0"),
    "0000:a0:00.0": (8, "16.0", 8, "16.0"),  # port of the switch on node 1
    "0000:a1:00.0": (8, "16.0", 16, "32.0"),
    "0000:a2:00.0": (16, "32.0", 16, "32.0"),
    "0000:a3:00.0": (16, "32.0", 16, "32.0"),
    "0000:a2:01.0": (4, "16.0", 4, "16.0"),
    "0000:a4:00.0": (4, "16.0", 4, "16.0"),
}
# Long stores and vectors, which are instructions of a real processor, are many when emulated.
CPU = "max,-erms,-fsrm,-avx,-avx2"
DISKS = ("NEAR0", "NEAR1", "NOWHERE")  # by serial number
DISK_BYTES = 256 << 20

CPUS_AND_MEMORY = """
    -smp 8,sockets=2,cores=4,threads=1 -m 2304M
    -object memory-backend-ram,id=m0,size=1024M -numa node,nodeid=0,cpus=0-3,memdev=m0
    -object memory-backend-ram,id=m1,size=1024M -numa node,nodeid=1,cpus=4-7,memdev=m1
    -object memory-backend-ram,id=m2,size=256M -numa node,nodeid=2,memdev=m2
    -numa dist,src=0,dst=1,val=21 -numa dist,src=0,dst=2,val=17 -numa dist,src=1,dst=2,val=28
"""
# The ports are Intel's and TI's and the drives carry Intel's id: nothing below says QEMU, so that links are judged.
PCI = """
    -device pxb-pcie,id=near0,bus=pcie.0,bus_nr=0x20,numa_node=0
    -device ioh3420,id=port0,bus=near0,addr=0,chassis=1
    -device e1000e,bus=port0,romfile=
    -device ioh3420,id=port1,bus=near0,addr=1,chassis=2
    -device nvme,id=nvme-NEAR0,bus=port1,drive=NEAR0,serial=NEAR0,max_ioqpairs=4,use-intel-id=on
    -device pxb-pcie,id=near1,bus=pcie.0,bus_nr=0xa0,numa_node=1
    -device ioh3420,id=port2,bus=near1,addr=0,chassis=3
    -device x3130-upstream,id=switch,bus=port2
    -device xio3130-downstream,id=switch0,bus=switch,addr=0,chassis=4
    -device e1000e,bus=switch0,romfile=
    -device xio3130-downstream,id=switch1,bus=switch,addr=1,chassis=5
    -device nvme,id=nvme-NEAR1,bus=switch1,drive=NEAR1,serial=NEAR1,max_ioqpairs=8,use-intel-id=on
    -device nvme,id=nvme-NOWHERE,bus=pcie.0,addr=0x10,drive=NOWHERE,serial=NOWHERE,max_ioqpairs=1,use-intel-id=on
"""


def stand_ins() -> dict[str, dict[str, str]]:
    """Return, for each PCI function, the sysfs files to replace and what they then hold."""
    files: dict[str, dict[str, str]] = {
        bdf: {
            "current_link_width": f"{width}",
            "current_link_speed": f"{speed} GT/s PCIe",
            "max_link_width": f"{max_width}",
            "max_link_speed": f"{max_speed} GT/s PCIe",
        }
        for bdf, (width, speed, max_width, max_speed) in LINKS.items()
    }
    for gpu in GPUS:
        files[gpu] |= GPU_IDS
    return files


def qemu_arguments(disks: Path, shares: dict[str, tuple[Path, bool]]) -> list[str]:
    """Return the hardware's arguments; ``shares`` maps a 9p tag to a folder and whether the guest may write to it."""
    words = ["-machine", "q35", "-accel", "tcg,thread=single", "-cpu", CPU]
    words += [*CPUS_AND_MEMORY.split()]
    for name in DISKS:
        words += ["-drive", f"if=none,id={name},format=raw,file={disks / name}"]
    words += PCI.split()
    for tag, (folder, writable) in shares.items():
        access = "" if writable else ",readonly=on,multidevs=remap"
        words += ["-fsdev", f"local,id={tag},path={folder},security_model=none{access}"]
        words += ["-device", f"virtio-9p-pci,bus=pcie.0,fsdev={tag},mount_tag={tag}"]
    return words
