"""NVLink between GPUs, as groups of GPUs that reach each other: what the map draws as a bracket, not pair by pair."""

import re
from collections import Counter

from hostdoctor.diagnosis.subjects import brief
from hostdoctor.facts import Fact, Host
from hostdoctor.outputs.words import plural

_NVLINK = re.compile(r"NV\d{1,4}")


class NvlinkGroup(Fact, frozen=True, kw_only=True):
    """GPUs (labels, in order of index) joined by NVLink; ``kinds`` counts the pairs of each kind, ``NV18`` for one."""

    members: tuple[str, ...]
    kinds: dict[str, int]

    @property
    def text(self) -> str:
        """What the bracket stands for."""
        every = len(self.members) * (len(self.members) - 1) // 2
        how = ", ".join(f"{kind} ({plural(count, 'pair')})" for kind, count in self.kinds.items())
        if len(self.kinds) == 1 and sum(self.kinds.values()) == every:
            how = f"{next(iter(self.kinds))} between every pair"
            if len(self.members) == 2:
                return f"NVLink {next(iter(self.kinds))} between {' and '.join(self.members)}"
        return f"NVLink {how} of {brief(self.members)}"


def nvlink_groups(host: Host) -> list[NvlinkGroup]:
    """Return the groups, in order of their first GPU."""
    indices = {f"GPU{gpu.index}": gpu.index for gpu in host.gpus if gpu.index is not None}
    pairs = [path for path in host.paths if path.a in indices and path.b in indices and _NVLINK.fullmatch(path.kind)]
    group_of = {name: {name} for name in indices}
    for path in pairs:
        merged = group_of[path.a] | group_of[path.b]
        for name in merged:
            group_of[name] = merged
    found = {id(group): group for group in group_of.values() if len(group) > 1}
    return [
        NvlinkGroup(
            members=tuple(sorted(group, key=lambda name: indices[name] or 0)),
            kinds=dict(Counter(path.kind for path in pairs if path.a in group).most_common()),
        )
        for group in found.values()
    ]
