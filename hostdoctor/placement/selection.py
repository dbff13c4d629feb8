"""Which GPUs a command will see and in which order: ``--gpus``, else CUDA_VISIBLE_DEVICES, else all."""

from collections import Counter
from collections.abc import Sequence

from hostdoctor.diagnosis.needs import is_listed
from hostdoctor.diagnosis.paths import model
from hostdoctor.diagnosis.subjects import brief, gpu_labels
from hostdoctor.errors import PlacementError, UnknownNodeError, UsageError
from hostdoctor.facts import Host
from hostdoctor.parsers.bdf import canonical_bdf
from hostdoctor.placement.model import Selection

VISIBLE, BY_ADDRESS = "CUDA_VISIBLE_DEVICES", "PCI_BUS_ID"
SHOWN_CHARACTERS = 60

Device = tuple[int, str | None]  # position in host.gpus, and the MIG instance where one was named


def select(host: Host, text: str, *, environ_devices: str | None, environ_order: str | None) -> Selection:
    """Return the GPUs that a command will see, in its order.

    ``text`` is ``--gpus``: indices (the driver's), UUIDs, their unique beginnings, PCI addresses, MIG instances, or
    ``all``; it replaces CUDA_VISIBLE_DEVICES (``environ_devices``), which is read as CUDA reads it where ``text`` is
    empty. ``environ_order`` is CUDA_DEVICE_ORDER.

    Raises UsageError for a GPU that does not exist or is named twice, PlacementError where no GPU is left or where
    CUDA's order of the GPUs is not the driver's, UnknownNodeError where it cannot be told which GPU is meant.
    """
    natural = _usable(host)
    if not natural:
        raise _none_usable(host)
    if not text.strip() and environ_devices is not None:
        return _from_environment(host, natural, environ_devices, environ_order)
    if text.strip() in ("", "all"):
        chosen: list[Device] = [(i, None) for i in natural]
    else:
        chosen = [_stated(host, word) for word in _words(text)]
        _refuse_hidden(host, chosen)
    _refuse_twice(host, chosen, "--gpus")
    origin = f"--gpus {shown(text)}" if text.strip() else "every GPU that may be used"
    as_is = chosen == [(i, None) for i in natural] and environ_devices is None
    if as_is and (environ_order == BY_ADDRESS or _alike(host, natural)):
        return _selection(host, chosen, origin, None)
    replaced = "" if environ_devices is None else f", replaces {VISIBLE}={shown(environ_devices)}"
    return _selection(host, chosen, origin + replaced, _value(host, chosen))


def named_gpus(host: Host, text: str) -> tuple[int, ...] | None:
    """Return which of ``host.gpus`` an option ``--gpus`` names, in its order and each once; None for all.

    Raises UsageError for a GPU that does not exist, UnknownNodeError for a MIG instance of an unknown GPU.
    """
    if text.strip() in ("", "all"):
        return None
    return tuple(dict.fromkeys(_stated(host, word)[0] for word in _words(text)))


def first_of(host: Host, selection: Selection, count: int, engine: str) -> Selection:
    """Return the first ``count`` of the GPUs where an engine uses no more; the selection as it is where it uses all."""
    if count >= len(selection.gpus):
        return selection
    kept = selection.gpus[:count]
    listed = selection.visible_devices
    return Selection(
        gpus=kept,
        labels=selection.labels[:count],
        visible_devices=",".join(listed.split(",")[:count]) if listed else _value(host, [(i, None) for i in kept]),
        origin=f"the first {count} of {selection.origin}: {engine} uses no more",
    )


def shown(text: str) -> str:
    """Return a caller's words fit for one line."""
    short = text.strip() if len(text.strip()) <= SHOWN_CHARACTERS else text.strip()[: SHOWN_CHARACTERS - 1] + "…"
    return short if short.isprintable() and short else repr(short)


def _from_environment(host: Host, natural: list[int], listed: str, order: str | None) -> Selection:
    """Read CUDA_VISIBLE_DEVICES as CUDA does: an entry that names no device hides itself and what follows."""
    chosen: list[Device] = []
    origin = f"{VISIBLE}={shown(listed)}"
    for word in (part.strip() for part in listed.split(",")):
        device = _entry(host, natural, word, order)
        if device is None:
            origin += f" (CUDA stops at {shown(word)})"
            break
        chosen.append(device)
    if not chosen:
        raise PlacementError(f"{VISIBLE}={shown(listed)} hides every GPU: nothing to place")
    _refuse_twice(host, chosen, VISIBLE)
    return _selection(host, chosen, origin, None)


def _entry(host: Host, natural: list[int], word: str, order: str | None) -> Device | None:
    if _is_number(word):
        if int(word) >= len(natural):
            return None
        _refuse_doubtful_order(host, natural, order)
        return natural[int(word)], None
    if not word.lower().startswith(("gpu-", "mig-")):
        return None
    found = [device for device in _matches(host, word) if device[0] in natural]
    return found[0] if len(found) == 1 else None


def _refuse_doubtful_order(host: Host, natural: list[int], order: str | None) -> None:
    if len(natural) < 2:
        return
    if any(host.gpus[i].mig for i in natural):
        raise UnknownNodeError(f"{VISIBLE} names GPUs by index and some are divided by MIG: name instances by UUID")
    if order == BY_ADDRESS or _alike(host, natural):
        return
    models = {model(host, host.gpus[i]) for i in natural}
    remedy = f"set CUDA_DEVICE_ORDER={BY_ADDRESS} or name GPUs by UUID"
    if None in models:
        raise UnknownNodeError(f"{VISIBLE} names GPUs by index; whether they are alike is not known: {remedy}")
    raise PlacementError(f"{VISIBLE} names unlike GPUs by index, and CUDA counts the fastest first: {remedy} (HD504)")


def _stated(host: Host, word: str) -> Device:
    """Return the one GPU that a word of ``--gpus`` names."""
    found = _matches(host, word)
    if not found:
        known = ", ".join(str(gpu.index) for gpu in host.gpus if gpu.index is not None) or "none"
        raise UsageError(f"--gpus: no GPU {word[:SHOWN_CHARACTERS]!r} here (known: {known})")
    if len(found) > 1:
        several = ", ".join(f"{host.gpus[i].uuid or host.gpus[i].bdf}" for i, _ in found)
        raise UsageError(f"--gpus: {word[:SHOWN_CHARACTERS]!r} may be any of {several}")
    return found[0]


def _matches(host: Host, word: str) -> list[Device]:
    if word.lower().startswith("mig-"):
        return [(parent, _instance(host, parent, word)) for parent in _parents(host, word)]
    bdf = canonical_bdf(word)
    return [
        (i, None)
        for i, gpu in enumerate(host.gpus)
        if (gpu.index is not None and word == str(gpu.index))
        or (gpu.bdf is not None and gpu.bdf == bdf)
        or _begins(gpu.uuid, word)
    ]


def _parents(host: Host, word: str) -> list[int]:
    """Return the GPU that an instance is part of: the old spelling names it, else only one can be it."""
    instance = word[len("mig-") :]
    if instance.lower().startswith("gpu-"):
        uuid, _, number = instance.partition("/")
        divided = [i for i, gpu in enumerate(host.gpus) if gpu.mig is not False and number]
        return [i for i in divided if _begins(host.gpus[i].uuid, uuid)]
    owners = [i for i in _usable(host) if host.gpus[i].mig is not False]
    if len(owners) > 1:
        raise UnknownNodeError(
            f"{shown(word)}: which of {brief(gpu_labels(host, (host.gpus[i] for i in owners)))} it is part of is not"
            " known (nvidia-smi -L tells): name the GPU instead"
        )
    return owners


def _instance(host: Host, parent: int, word: str) -> str:
    """Return an instance's name as CUDA spells it: the whole UUID, and capitals."""
    name = word[len("mig-") :]
    return (
        f"MIG-{host.gpus[parent].uuid}/{name.partition('/')[2]}" if name.lower().startswith("gpu-") else f"MIG-{name}"
    )


def _begins(uuid: str | None, word: str) -> bool:
    if uuid is None:
        return False
    abbreviated = len(word) > len("gpu-") and word.lower().startswith("gpu-")
    return uuid == word or (abbreviated and uuid.lower().startswith(word.lower()))


def _usable(host: Host) -> list[int]:
    """Return the GPUs that the caller may use in the driver's order; those the driver lists where it lists any."""
    allowed = [i for i, gpu in enumerate(host.gpus) if gpu.visible is not False]
    counted = [(index, i) for i in allowed if (index := host.gpus[i].index) is not None]
    return [i for _, i in sorted(counted)] or allowed


def _alike(host: Host, positions: Sequence[int]) -> bool:
    models = {model(host, host.gpus[i]) for i in positions}
    return len(positions) < 2 or (len(models) == 1 and None not in models)


def _value(host: Host, chosen: Sequence[Device]) -> str:
    gpus = [host.gpus[i] for i, _ in chosen]
    if all(gpu.index is not None and mig is None and not gpu.mig for gpu, (_, mig) in zip(gpus, chosen, strict=True)):
        return ",".join(str(gpu.index) for gpu in gpus)  # older engines read nothing but numbers
    ids = [mig or gpu.uuid for gpu, (_, mig) in zip(gpus, chosen, strict=True)]
    if None in ids:
        nameless = gpu_labels(host, (gpu for gpu in gpus if gpu.uuid is None))
        raise PlacementError(f"{brief(nameless)}: no index or UUID is known by which CUDA could be told to use it")
    return ",".join(word for word in ids if word)


def _selection(host: Host, chosen: Sequence[Device], origin: str, visible_devices: str | None) -> Selection:
    positions = tuple(i for i, _ in chosen)
    labels = tuple(gpu_labels(host, (host.gpus[i] for i in positions)))
    return Selection(gpus=positions, labels=labels, visible_devices=visible_devices, origin=origin)


def _refuse_hidden(host: Host, chosen: Sequence[Device]) -> None:
    hidden = [host.gpus[i] for i, _ in chosen if host.gpus[i].visible is False]
    if hidden:
        raise UsageError(f"--gpus: the driver does not show {brief(gpu_labels(host, hidden))} to this caller")


def _refuse_twice(host: Host, chosen: Sequence[Device], option: str) -> None:
    twice = [device for device, count in Counter(chosen).items() if count > 1]
    if twice:
        names = [mig or gpu_labels(host, [host.gpus[i]])[0] for i, mig in twice]
        raise UsageError(f"{option}: names {', '.join(names)} twice, which CUDA refuses")


def _none_usable(host: Host) -> PlacementError:
    if host.nvidia.state in ("error", "timeout"):
        return UnknownNodeError(f"no GPU known: the NVIDIA driver answered {host.nvidia.reason or host.nvidia.state}")
    if not is_listed(host, "gpus"):
        return UnknownNodeError("no source lists the GPUs: whether there is one to place is not known")
    return PlacementError("no GPU that the caller may use: nothing to place")


def _words(text: str) -> list[str]:
    words = text.replace(",", " ").split()
    if not words:
        raise UsageError(f"--gpus: {text!r} names no GPU")
    return words


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= 9
