"""The variables that keep NCCL and UCX to the network adapters near the GPUs."""

from collections.abc import Iterable

from hostdoctor.placement.engines import EngineCommand
from hostdoctor.placement.model import Binding, Rank

NCCL = "NCCL_IB_HCA"
UCX = "UCX_NET_DEVICES"
MOST_NCCL_DEVICES = 32


def nic_variables(nics: Iterable[str]) -> dict[str, str]:
    """Return the variables that name RDMA devices, in the order given and each once; ``{}`` for none.

    ``=`` makes NCCL match whole names: ``mlx5_1`` alone is also ``mlx5_10``. UCX names a device with its port, and a
    function of a ConnectX-4 or later has the port 1 alone.
    """
    names = list(dict.fromkeys(nics))
    if not names or len(names) > MOST_NCCL_DEVICES:
        return {}
    return {NCCL: "=" + ",".join(names), UCX: ",".join(f"{name}:1" for name in names)}


def wanted(binding: Binding, command: EngineCommand, asked: bool | None) -> bool:
    """Tell whether the adapters matter: asked for, or GPUs on several nodes, several hosts, or disaggregated."""
    if asked is not None:
        return asked
    if command.engine == "llama.cpp":  # it has neither NCCL between hosts nor UCX
        return False
    return binding.spans or bool(command.disaggregated) or _several_hosts(command)


def _several_hosts(command: EngineCommand) -> bool:
    return command.recognised and command.hosts != 1 and command.config_file is None


def of_ranks(ranks: tuple[Rank, ...]) -> tuple[dict[str, str], str | None]:
    """Return the variables for one command that drives all ranks, and what to say of them.

    Nothing is set where the near adapter of a rank is not known: it would be kept to another's.
    """
    without = [rank.gpu for rank in ranks if not rank.nics]
    if len(without) == len(ranks):
        return {}, None
    if without:
        return {}, f"{NCCL} and {UCX} are not set: the network adapter near {', '.join(without)} is not known"
    variables = nic_variables(nic for rank in ranks for nic in rank.nics)
    if not variables:
        return {}, f"{NCCL} and {UCX} are not set: NCCL takes at most {MOST_NCCL_DEVICES} adapters"
    near = "; ".join(f"{rank.gpu}: {', '.join(rank.nics)}" for rank in ranks)
    return (
        variables,
        f"{NCCL} and {UCX} name the adapters near the GPUs ({near}), up or not; UCX then uses no other network",
    )
