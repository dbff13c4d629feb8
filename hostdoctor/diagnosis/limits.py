"""The weakest link between a GPU and the CPU as built, against what the card itself can do."""

from collections.abc import Iterable

from hostdoctor.diagnosis.paths import Hop, Tree, link_gbs, model, spell, trusted_maximum
from hostdoctor.facts import Fact, Gpu, Host


class Limit(Fact, frozen=True, kw_only=True):
    """What a GPU's card can do (``card``: lanes, GT/s) and the weakest link above it, with that link's port."""

    model: str | None
    card_bdf: str
    card: tuple[int | None, float | None]
    card_gbs: float
    port_bdf: str
    port_text: str
    width_lanes: int | None
    speed_gts: float | None
    path_gbs: float

    @property
    def is_short(self) -> bool:
        """The path carries less than the card can; what a hundredth makes is arithmetic."""
        return self.path_gbs * 1.01 < self.card_gbs


def limits(host: Host, gpus: Iterable[Gpu]) -> dict[int, Limit]:
    """Return the limits by ``id()`` of the GPU; a GPU of which the card or no link is known is left out."""
    tree = Tree(host)
    found = ((gpu, _limit(host, tree, gpu)) for gpu in gpus)
    return {id(gpu): limit for gpu, limit in found if limit}


def _limit(host: Host, tree: Tree, gpu: Gpu) -> Limit | None:
    card = trusted_maximum(tree.card(gpu))
    card_gbs = link_gbs(*card)
    hops = tree.hops(gpu)
    if not hops or card_gbs is None or hops[-1].max_gbs is None:
        return None
    weakest = min((hop for hop in hops if hop.max_gbs is not None), key=_gbs)
    return Limit(
        model=model(host, gpu),
        card_bdf=hops[-1].end_bdf,
        card=card,
        card_gbs=card_gbs,
        port_bdf=weakest.port_bdf,
        port_text=_described(weakest),
        width_lanes=weakest.max_width_lanes,
        speed_gts=weakest.max_speed_gts,
        path_gbs=min(card_gbs, _gbs(weakest)),
    )


def _described(hop: Hop) -> str:
    stated = spell(*trusted_maximum(hop.port))
    return f"{stated}, wired x{hop.width_lanes}" if hop.wired else stated


def _gbs(hop: Hop) -> float:
    return hop.max_gbs or 0.0
