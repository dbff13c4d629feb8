"""What a PCI function is: class codes from lspci's words, and which functions are GPUs."""

import re

from hostdoctor.facts import PciDevice

NVIDIA = "10de"
_VGA_VENDORS = {NVIDIA, "1002", "8086"}
# Management controllers and virtual displays: ASPEED, Matrox, Cirrus, Bochs/QEMU, virtio, VMware, Hyper-V.
_NEVER = {"1a03", "102b", "1013", "1234", "1af4", "15ad", "1414"}
_VGA_VENDOR_NAMES = ("NVIDIA", "Advanced Micro Devices", "AMD", "ATI ", "Intel")
# The words that lspci prints without -n, where each means one class (PCI Code and ID Assignment Specification).
CLASS_CODES = {
    "RAID bus controller": "0104",
    "SATA controller": "0106",
    "Non-Volatile memory controller": "0108",
    "Ethernet controller": "0200",
    "Infiniband controller": "0207",
    "Network controller": "0280",
    "VGA compatible controller": "0300",
    "3D controller": "0302",
    "Display controller": "0380",
    "Audio device": "0403",
    "RAM memory": "0500",
    "CXL": "0502",
    "Memory controller": "0580",
    "Host bridge": "0600",
    "ISA bridge": "0601",
    "PCI bridge": "0604",
    "Bridge": "0680",
    "DMA controller": "0801",
    "System peripheral": "0880",
    "Co-processor": "0b40",
    "USB controller": "0c03",
    "SMBus": "0c05",
    "Processing accelerators": "1200",
}
_ACCELERATOR_CLASSES = ("0302", "0380", "1200")
_NEVER_NAMES = re.compile(r"^(?:ASPEED|Matrox|Cirrus|Red Hat|Microsoft|VMware|Bochs|QEMU)|\bVirtio\b", re.IGNORECASE)
# a chip's code name with a product in brackets: GH100 [GH200 120GB], TU117GL [T1000 8GB]
_CHIP = re.compile(r"\b(?:G[A-Z]|TU|AD|NV)\d{2,3}[A-Z]{0,3} (?:rev \w+ )?\[[^\]]+\]")
_PRODUCT = re.compile(
    r"\b(?:GeForce|Quadro|Tesla|RTX|GTX|TITAN|GRID|NVS|[ABHLVPTK]\d{1,3}[A-Z]{0,2}|[GB]{1,2}\d00|GB10|Jetson|CMP)\b"
)
_NOT_A_GPU = re.compile(r"audio|usb|ucsi|type-c|nvswitch|bridge|switch|ethernet|network|infiniband|mellanox|connectx|"
                        r"bluefield|memory controller|smbus|i2c|sata|host|nvlink", re.IGNORECASE)  # fmt: skip


def is_gpu(device: PciDevice) -> bool:
    """Tell whether a function is a GPU (design: classes 0302, 0380, 1200; 0300 from NVIDIA, AMD and Intel)."""
    if device.vendor_id in _NEVER or (device.vendor_id is None and _NEVER_NAMES.search(device.name or "")):
        return False
    code = (device.class_code or "")[:4]
    if code:
        return code in _ACCELERATOR_CLASSES or (code == "0300" and _makes_gpus(device))
    return _named_nvidia_gpu(device)


def _makes_gpus(device: PciDevice) -> bool:
    if device.vendor_id is not None:
        return device.vendor_id in _VGA_VENDORS
    return (device.name or "").startswith(_VGA_VENDOR_NAMES)


def is_nvidia(device: PciDevice) -> bool:
    """Tell whether a function is NVIDIA's, by id or else by name."""
    if device.vendor_id is not None:
        return device.vendor_id == NVIDIA
    return (device.name or "").startswith("NVIDIA")


def _named_nvidia_gpu(device: PciDevice) -> bool:
    """Tell a GPU by its product name alone; doubtful ones stay plain PCI functions."""
    name = device.name or ""
    is_product = _PRODUCT.search(name) or _CHIP.search(name)
    return is_nvidia(device) and not _NOT_A_GPU.search(name) and bool(is_product)
