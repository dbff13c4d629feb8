"""What an lspci listing says: its functions and what stayed unknown about them."""

from hostdoctor.facts import Fact, Gap, Link


class LspciFunction(Fact, frozen=True, kw_only=True):
    """What lspci prints of one function.

    ``class_code`` has the digits that were printed: four of ``[0302]``, six when ``(prog-if 02)`` stands there too.
    ``port_type`` is the Express capability's word (Endpoint, Root Port, Downstream Port, …). ``denied``: lspci was
    not allowed to read the capabilities, so that nothing about the link is known.
    """

    bdf: str
    name: str | None = None
    vendor_id: str | None = None
    device_id: str | None = None
    class_code: str | None = None
    class_name: str | None = None
    numa_node: int | None = None
    link: Link = Link()
    driver: str | None = None
    iommu_group: int | None = None
    secondary_bus: int | None = None
    subordinate_bus: int | None = None
    physical_slot: str | None = None
    port_type: str | None = None
    denied: bool = False


class LspciListing(Fact, frozen=True, kw_only=True):
    """The functions in the order of the text, each once, and what stayed unknown about them."""

    functions: tuple[LspciFunction, ...]
    gaps: tuple[Gap, ...] = ()
