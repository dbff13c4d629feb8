from collections import Counter
from collections.abc import Iterable

from hostdoctor.diagnosis import Ask, Finding, Remedy, Skip, check, finding
from hostdoctor.diagnosis.modules import Groups, by_channel, by_socket
from hostdoctor.facts import Host

BY_HAND = "hostdoctor runs no dmidecode: as root, dmidecode -t memory lists every slot"


@check("HD316", "memory-channels-uneven", "warning")
def memory_channels_uneven(host: Host, ask: Ask) -> Iterable[Finding | Skip]:
    """Compare the memory modules of the sockets, and those of the channels within a socket.

    ## What it checks
    The populated slots that EDAC shows (no root needed): sockets with unlike numbers or sizes of modules are a warning,
    channels with unlike ones information. Channels that are wholly empty do not show.

    ## Why it matters
    Memory is interleaved over the channels that are populated alike. A missing module takes a channel's bandwidth from
    one socket, and pinned copies from that side are slower without any error.

    ## Remedy
    Compare with what was bought: a module may have failed training and be disabled. Populate the channels alike.

    ## References
    - https://docs.kernel.org/driver-api/edac.html
    """
    sockets, channels = by_socket(host.dimms), by_channel(host.dimms)
    if not host.dimms:
        guest = host.system.virtualization is not None
        reason = "a virtual machine has no DIMMs" if guest else f"EDAC shows no DIMMs; {BY_HAND}"
        yield Skip(kind="not-applicable" if guest else "no-evidence", reason=reason)
    elif any(dimm.package is None or dimm.size_bytes is None for dimm in host.dimms):
        yield Skip(kind="no-evidence", reason=f"EDAC does not tell every module's socket and size; {BY_HAND}")
    elif len(set(sockets.values())) > 1:
        yield _finding("Sockets hold unlike memory modules", sockets, warn=True)
    elif len(set(channels.values())) > 1:
        yield _finding("Memory channels hold unlike modules", channels, warn=False)


def _finding(message: str, groups: Groups, *, warn: bool) -> Finding:
    usual = Counter(groups.values()).most_common(1)[0][0]
    odd = {where: held for where, held in groups.items() if held != usual}
    quoted = groups if warn else odd
    return finding(
        ", ".join(quoted),
        f"{message}: "
        + ", ".join(f"{where} {held}" for where, held in quoted.items())
        + f" (most: {usual})" * (not warn),
        "warning" if warn else "info",
        evidence=[(f"/sys/devices/system/edac/mc, {where}", held) for where, held in groups.items()],
        effect="less memory bandwidth where a module is missing",
        remedy=Remedy(
            text="Compare with what was bought (dmidecode -t memory, as root); reseat or replace what is missing.",
            risk="reboot",
            undo="None needed.",
            verify="The sizes below /sys/devices/system/edac/mc are the same for every socket and channel.",
        ),
    )
