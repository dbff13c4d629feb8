from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding, in_scope, needs
from hostdoctor.diagnosis.paths import Tree
from hostdoctor.diagnosis.sockets import X86
from hostdoctor.diagnosis.subjects import brief, gpu_labels, sysfs
from hostdoctor.facts import Host


@check("HD207", "iommu-translating", "info", needs=(needs.gpus,))
def iommu_translating(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Say that the IOMMU translates every address that the GPUs use.

    ## What it checks
    The type of each GPU's IOMMU group: DMA or DMA-FQ translate, identity passes through.

    ## Why it matters
    Translation costs a look-up for each page of a transfer and can miss its cache under many small copies; with
    peer-to-peer traffic it usually comes with redirection (HD206). Published effects range from none to considerable:
    measure copies before changing anything.

    ## Remedy
    On x86 bare metal, if a measurement shows a loss and no guest or user-space driver (vfio) needs isolation: boot with
    `iommu=pt`. On other architectures leave it as it is.

    ## References
    - https://docs.kernel.org/admin-guide/abi-testing.html (sysfs-kernel-iommu_groups)
    - https://docs.kernel.org/admin-guide/kernel-parameters.html (iommu=pt)
    """
    tree = Tree(host)
    types = {gpu: function.iommu_type for gpu in in_scope(host, ask) if (function := tree.function(gpu.bdf))}
    translated = [gpu for gpu, kind in types.items() if (kind or "").startswith("DMA")]
    if translated:
        labels = gpu_labels(host, translated)
        kinds = sorted({str(types[gpu]) for gpu in translated})
        passthrough = any("vfio" in (device.driver or "") for device in host.pci_devices)
        ours = host.system.architecture in X86 and host.system.virtualization is None and not passthrough
        yield finding(
            ", ".join(labels),
            f"{brief(labels)}: the IOMMU translates their addresses ({', '.join(kinds)})",
            "info",
            evidence=[(sysfs(gpu.bdf, "iommu_group/type"), types[gpu]) for gpu in translated],
            effect="effect unknown: from none to considerable, measure copies",
            remedy=Remedy(
                text="Only if measured copies are slower than on a like host: boot with iommu=pt."
                if ours
                else "Leave it as it is: isolation, the hypervisor or the platform needs it.",
                risk="isolation" if ours else "none",
                undo="Boot without the option.",
                verify=f"cat {sysfs(translated[0].bdf, 'iommu_group/type')}",
            ),
        )
    elif not types or None in types.values():
        yield Skip(kind="no-evidence", reason="the type of the GPUs' IOMMU groups is not known")
