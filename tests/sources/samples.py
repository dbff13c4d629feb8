"""One output of each kind, in the shape its command prints, made up for the tests."""

TOPO = (
    "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    "GPU0\t X \tNV6\tPIX\t0-15\t0\t\tN/A\n"
    "GPU1\tNV6\t X \tSYS\t16-31\t1\t\tN/A\n"
    "NIC0\tPIX\tSYS\t X \t\t\t\t\n"
    "\n"
    "Legend:\n"
    "\n"
    "  X    = Self\n"
    "  NV#  = Connection traversing a bonded set of # NVLinks\n"
    "\n"
    "NIC Legend:\n"
    "\n"
    "  NIC0: mlx5_3\n"
)
NUMACTL = (
    "available: 2 nodes (0-1)\n"
    "node 0 cpus: 0 1 2 3\n"
    "node 0 size: 64000 MB\n"
    "node 0 free: 1200 MB\n"
    "node 1 cpus: 4 5 6 7\n"
    "node 1 size: 64400 MB\n"
    "node 1 free: 900 MB\n"
    "node distances:\n"
    "node   0   1\n"
    "  0:  10  32\n"
    "  1:  32  10\n"
)
TREE = (
    "-+-[0000:80]-+-00.0  Example Corp Host bridge\n"
    " |           \\-01.0-[81]----00.0  NVIDIA Corporation GA999 [Example GPU]\n"
    " \\-[0000:00]-+-00.0  Example Corp Host bridge\n"
    "             \\-1f.0  Example Corp ISA bridge\n"
)
LSPCI = (
    "81:00.0 3D controller [0302]: NVIDIA Corporation GA999 [Example GPU] [10de:2999] (rev a1)\n"
    "\tSubsystem: NVIDIA Corporation Device [10de:1111]\n"
    "\tNUMA node: 1\n"
    "\tCapabilities: [60] Express (v2) Endpoint, MSI 00\n"
    "\t\tLnkSta:\tSpeed 16GT/s, Width x16\n"
    "\n"
    "00:1f.0 ISA bridge: Example Corp LPC\n"
)
LSCPU = (
    "Architecture:        x86_64\n"
    "CPU op-mode(s):      32-bit, 64-bit\n"
    "Byte Order:          Little Endian\n"
    "CPU(s):              8\n"
    "On-line CPU(s) list: 0-7\n"
    "Thread(s) per core:  1\n"
    "Socket(s):           2\n"
    "NUMA node(s):        2\n"
    "Vendor ID:           GenuineIntel\n"
    "Model name:          Example CPU @ 3.00GHz\n"
    "BogoMIPS:            6000.00\n"
    "L1d cache:           32K\n"
    "NUMA node0 CPU(s):   0-3\n"
    "NUMA node1 CPU(s):   4-7\n"
    "Flags:               fpu vme de pse\n"
)
LSCPU_ZH = (
    "架构：                              x86_64\n"
    "CPU 运行模式：                      32-bit, 64-bit\n"
    "字节序：                            Little Endian\n"
    "CPU:                                8\n"
    "在线 CPU 列表：                     0-7\n"
    "每个核的线程数：                    1\n"
    "座：                                2\n"
    "NUMA 节点：                         2\n"
    "厂商 ID：                           AuthenticAMD\n"
    "BogoMIPS：                          6000.00\n"
    "L1d 缓存：                          256 KiB\n"
    "NUMA 节点0 CPU：                    0-3\n"
    "NUMA 节点1 CPU：                    4-7\n"
)
INTERRUPTS = (
    "            CPU0       CPU1       \n"
    "  0:         12          0  IR-IO-APIC    2-edge      timer\n"
    " 40:         10          0  IR-PCI-MSIX-0000:02:00.0    0-edge      nvme0q0\n"
    " 41:       4000          0  IR-PCI-MSIX-0000:02:00.0    1-edge      nvme0q1\n"
    "NMI:          3          4   Non-maskable interrupts\n"
    "RTR:          0          0   APIC ICR read retries\n"
    "ERR:          0\n"
)
NVME = (
    "Node             SN                   Model                Namespace Usage                      Format           FW Rev\n"
    "---------------- -------------------- -------------------- --------- -------------------------- ---------------- ------\n"
    "/dev/nvme0n1     SER1                 Example SSD 1TB      1           1,00  TB /   1,00  TB    512   B +  0 B   1.0\n"
    "/dev/nvme1n1     SER2                 Example SSD 1TB      1           0.00   B /   1.00  TB    512   B +  0 B   1.0\n"
)
NVME_JSON = (
    "{\n"
    '  "Devices" : [\n'
    "    {\n"
    '      "NameSpace" : 1,\n'
    '      "DevicePath" : "/dev/nvme0n1",\n'
    '      "ModelNumber" : "Example SSD"\n'
    "    }\n"
    "  ]\n"
    "}\n"
)
REPORT_HEAD = (
    "Collecting environment information...\n"
    "PyTorch version: 2.9.0\n"
    "\n"
    "OS: Example Linux 9 (x86_64)\n"
    "Python platform: Linux-6.1.0-9-generic-x86_64-with-glibc2.40\n"
    "Is CUDA available: True\n"
    "GPU models and configuration: \n"
    "GPU 0: NVIDIA Example 80GB\n"
    "GPU 1: NVIDIA Example 80GB\n"
    "\n"
    "Nvidia driver version: 570.10.01\n"
    "cuDNN version: Could not collect\n"
    "\n"
)
REPORT = (
    REPORT_HEAD
    + "CPU:\n"
    + LSCPU
    + "\nVersions of relevant libraries:\n[pip3] numpy==2.2.6\n[conda] Could not collect\nGPU Topology:\n"
    + TOPO
    + "\nLD_LIBRARY_PATH=/usr/local/cuda/lib64\n"
)
BANNERS = (
    "==============================\n"
    "        System Info\n"
    "==============================\n"
    "OS                           : Example Linux 9 (aarch64)\n"
    "\n"
    "==============================\n"
    "       CUDA / GPU Info\n"
    "==============================\n"
    "Is CUDA available            : True\n"
    "GPU models and configuration : GPU 0: NVIDIA Example 80GB\n"
    "Nvidia driver version        : 570.10.01\n"
    "\n"
    "==============================\n"
    "          CPU Info\n"
    "==============================\n" + LSCPU_ZH + "\n"
    "==============================\n"
    "         vLLM Info\n"
    "==============================\n"
    "vLLM Build Flags:\n"
    "  CUDA Archs: Not Set; ROCm: Disabled\n"
    "GPU Topology:\n" + TOPO + "\n"
    "==============================\n"
    "     Environment Variables\n"
    "==============================\n"
    "CUDA_MODULE_LOADING=LAZY\n"
)
SGLANG = (
    "Python: 3.12.0 (main) [GCC 13.3.0]\n"
    "CUDA available: True\n"
    "GPU 0,1: NVIDIA Example 80GB\n"
    "GPU 0,1 Compute Capability: 9.0\n"
    "CUDA_HOME: /usr/local/cuda\n"
    "CUDA Driver Version: 570.10.01\n"
    "PyTorch: 2.9.0+cu129\n"
    "sglang: 0.5.0\n"
    "NVIDIA Topology: \n" + TOPO + "\n"
    "Hypervisor vendor: KVM\n"
    "ulimit soft: 65535\n"
)
PLAIN = {
    "topo-matrix": TOPO,
    "numactl": NUMACTL,
    "lspci-tree": TREE,
    "lspci": LSPCI,
    "lscpu": LSCPU,
    "interrupts": INTERRUPTS,
    "nvme-list": NVME,
}
