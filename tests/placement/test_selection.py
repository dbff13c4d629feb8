"""Which GPUs a command sees: ``--gpus``, CUDA_VISIBLE_DEVICES as CUDA reads it, and all of them."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.errors import HostdoctorError, PlacementError, UnknownNodeError, UsageError
from hostdoctor.facts import Host, NvidiaDriver
from hostdoctor.placement.model import Selection
from hostdoctor.placement.selection import named_gpus, select
from tests.placement.hosts import surveyed
from tests.support.build import gpu, host

UUIDS = ("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "GPU-8a3c0d11-0b52-4ef0-9c0e-5f1b6e0d7a01")
MIG_ID = "MIG-5c89852c-d268-4a3d-9e4a-111111111111"


def chosen(on: Host, gpus: str = "", devices: str | None = None, order: str | None = None) -> Selection:
    return select(on, gpus, environ_devices=devices, environ_order=order)


def pair(**more: Any) -> Host:
    """Two like GPUs whose UUIDs begin alike."""
    return host([gpu(i, f"0000:{0x16 + i:02x}:00.0", uuid=UUIDS[i], **more) for i in range(2)])


def unlike() -> Host:
    """A small GPU at the lower address and a big one above it: CUDA counts the big one first."""
    small = gpu(0, "0000:16:00.0", uuid=UUIDS[0], name="NVIDIA T400")
    return host([small, gpu(1, "0000:17:00.0", uuid=UUIDS[1])])


class TestStatedGpus:
    def test_nothing_stated_is_every_gpu(self) -> None:
        found = chosen(surveyed("dgx-h100"))
        assert found.gpus == tuple(range(8))
        assert found.labels == tuple(f"GPU{i}" for i in range(8))
        assert (found.visible_devices, found.origin) == (None, "every GPU that may be used")

    def test_the_pod_has_its_two_gpus_of_eight(self) -> None:
        assert chosen(surveyed("pod-2-of-8")).labels == ("GPU0", "GPU1")
        assert chosen(surveyed("pod-2-of-8"), "all").labels == ("GPU0", "GPU1")

    def test_order_is_kept_and_becomes_indices(self) -> None:
        found = chosen(surveyed("aws-p5"), "7,0, 3")
        assert found.labels == ("GPU7", "GPU0", "GPU3")
        assert (found.visible_devices, found.origin) == ("7,0,3", "--gpus 7,0, 3")

    def test_all_in_the_natural_order_needs_no_variable(self) -> None:
        assert chosen(pair(), "0,1").visible_devices is None
        assert chosen(pair(), "1,0").visible_devices == "1,0"

    @pytest.mark.parametrize(
        "text",
        [
            "0000:16:00.0",
            "16:00.0",
            "00000000:16:00.0",
            UUIDS[0],
            UUIDS[0].upper(),
            "GPU-8932f937",
            "GPU-89",
        ],
    )
    def test_one_gpu_in_many_spellings(self, text: str) -> None:
        assert chosen(pair(), text).gpus == (0,)
        assert named_gpus(pair(), text) == (0,)

    def test_spellings_mix(self) -> None:
        assert chosen(pair(), "0000:17:00.0,GPU-8932").visible_devices == "1,0"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("2", "no GPU '2' here (known: 0, 1)"),
            ("-1", "no GPU '-1'"),
            ("None", "no GPU 'None'"),
            ("GPU-", "no GPU 'GPU-'"),
            ("GPU-ffff", "no GPU 'GPU-ffff'"),
            ("GPU-8", f"may be any of {UUIDS[0]}, {UUIDS[1]}"),
            ("0,all", "no GPU 'all'"),
            (",", "names no GPU"),
            ("0,0", "--gpus: names GPU0 twice"),
            (f"1,{UUIDS[1]}", "names GPU1 twice"),
            ("1 " + "9" * 5000, "no GPU '999"),
            ("0\n;reboot", "no GPU ';reboot'"),
        ],
    )
    def test_what_names_no_gpu_is_a_usage_error(self, text: str, message: str) -> None:
        with pytest.raises(UsageError) as caught:
            chosen(pair(), text)
        assert message in str(caught.value)
        assert len(str(caught.value)) < 250

    def test_a_gpu_that_the_driver_does_not_show_cannot_be_used(self) -> None:
        with pytest.raises(UsageError, match="does not show 0000:1b"):
            chosen(surveyed("pod-2-of-8"), "1b:00.0")

    def test_a_gpu_without_index_goes_by_its_uuid(self) -> None:
        on = host([gpu(0, "0000:16:00.0", uuid=UUIDS[0]), gpu(0, "0000:17:00.0", uuid=UUIDS[1], visible=None)])
        on = msgspec.structs.replace(on, gpus=(on.gpus[0], msgspec.structs.replace(on.gpus[1], index=None)))
        assert chosen(on, "17:00.0,0").visible_devices == f"{UUIDS[1]},{UUIDS[0]}"
        assert chosen(on).gpus == (0,)

    def test_a_gpu_that_nobody_can_name_to_cuda_is_refused(self) -> None:
        on = host([msgspec.structs.replace(gpu(0, "0000:16:00.0"), index=None), gpu(0, "0000:17:00.0")])
        with pytest.raises(PlacementError, match="no index or UUID"):
            chosen(on, "16:00.0")

    def test_unlike_gpus_are_named_even_when_all_are_meant(self) -> None:
        assert chosen(unlike()).visible_devices == "0,1"
        assert chosen(unlike(), order="PCI_BUS_ID").visible_devices is None

    def test_the_plan_replaces_the_variable_and_says_so(self) -> None:
        found = chosen(surveyed("dgx-h100"), "all", devices="4,5")
        assert found.gpus == tuple(range(8))
        assert found.visible_devices == "0,1,2,3,4,5,6,7"
        assert found.origin == "--gpus all, replaces CUDA_VISIBLE_DEVICES=4,5"

    def test_no_gpu_at_all(self) -> None:
        with pytest.raises(PlacementError, match="nothing to place") as caught:
            chosen(surveyed("no-gpu-2n"))
        assert caught.value.exit_status == 2

    def test_a_silent_driver_is_unknown_not_none(self) -> None:
        on = host((), nvidia=NvidiaDriver(state="timeout", reason="no answer within 60 s"))
        with pytest.raises(UnknownNodeError, match="no answer within 60 s"):
            chosen(on)


class TestEnvironment:
    def test_indices_keep_their_order_and_the_variable_stays(self) -> None:
        found = chosen(surveyed("dgx-h100"), devices="5,4")
        assert found.labels == ("GPU5", "GPU4")
        assert (found.visible_devices, found.origin) == (None, "CUDA_VISIBLE_DEVICES=5,4")

    def test_uuids_and_their_beginnings(self) -> None:
        assert chosen(pair(), devices=f"{UUIDS[1]},GPU-8932").gpus == (1, 0)

    @pytest.mark.parametrize(
        ("listed", "gpus"),
        [("1,-1,0", (1,)), ("0,2,1", (0,)), ("1,junk", (1,)), ("0,,1", (0,)), ("0,GPU-8,1", (0,)), ("0,16:00.0", (0,))],
    )
    def test_what_names_no_device_hides_the_rest(self, listed: str, gpus: tuple[int, ...]) -> None:
        found = chosen(pair(), devices=listed)
        assert found.gpus == gpus
        assert "CUDA stops at" in found.origin

    @pytest.mark.parametrize("listed", ["", " ", "-1", "NoDevFiles", "void", "9,0", "-1,0", "\n"])
    def test_a_variable_that_hides_everything(self, listed: str) -> None:
        with pytest.raises(PlacementError, match="hides every GPU") as caught:
            chosen(pair(), devices=listed)
        assert caught.value.exit_status == 2
        assert str(caught.value).isprintable()

    def test_a_repeated_device_is_an_error_as_in_cuda(self) -> None:
        with pytest.raises(UsageError, match="CUDA_VISIBLE_DEVICES: names GPU0 twice"):
            chosen(pair(), devices=f"0,1,{UUIDS[0]}")

    def test_indices_of_unlike_gpus_are_refused(self) -> None:
        with pytest.raises(PlacementError, match="CUDA_DEVICE_ORDER=PCI_BUS_ID") as caught:
            chosen(unlike(), devices="0")
        assert (caught.value.exit_status, "HD504" in str(caught.value)) == (2, True)
        with pytest.raises(PlacementError):
            chosen(unlike(), devices="0", order="FASTEST_FIRST")
        assert chosen(unlike(), devices="0", order="PCI_BUS_ID").gpus == (0,)
        assert chosen(unlike(), devices=UUIDS[1]).gpus == (1,)

    def test_gpus_not_known_to_be_alike_are_not_counted(self) -> None:
        with pytest.raises(UnknownNodeError, match="whether they are alike is not known"):
            chosen(pair(name=None), devices="1")

    def test_in_the_pod_indices_count_its_own_gpus(self) -> None:
        on = surveyed("pod-2-of-8")
        assert on.gpus[chosen(on, devices="1").gpus[0]].bdf == "0000:c3:00.0"


class TestInstances:
    def test_the_old_spelling_names_its_parent(self) -> None:
        named = f"MIG-{UUIDS[1]}/3/0"
        found = chosen(pair(mig=True), named)
        assert (found.gpus, found.visible_devices) == ((1,), named)

    def test_the_only_gpu_is_the_parent(self) -> None:
        on = host([gpu(0, "0000:16:00.0", uuid=UUIDS[0], mig=True)])
        assert chosen(on, MIG_ID).visible_devices == MIG_ID
        assert chosen(on, devices=MIG_ID).gpus == (0,)

    def test_the_only_divided_gpu_is_the_parent(self) -> None:
        cards = [gpu(i, f"0000:{0x16 + i:02x}:00.0", uuid=UUIDS[i], mig=i == 1) for i in range(2)]
        assert chosen(host(cards), MIG_ID).gpus == (1,)

    def test_a_parent_among_several_is_not_known(self) -> None:
        for how in ({"gpus": MIG_ID}, {"devices": MIG_ID}):
            with pytest.raises(UnknownNodeError, match="which of GPU0, GPU1"):
                chosen(pair(mig=True), **how)

    def test_no_gpu_is_divided(self) -> None:
        with pytest.raises(UsageError, match="no GPU 'MIG-"):
            chosen(pair(mig=False), MIG_ID)

    @pytest.mark.parametrize("named", [f"MIG-{UUIDS[1]}/3/0", f"mig-{UUIDS[1].lower()[:14]}/3/0"])
    def test_the_old_spelling_needs_a_divided_gpu_and_a_number(self, named: str) -> None:
        assert chosen(pair(mig=True), named).visible_devices == f"MIG-{UUIDS[1]}/3/0"
        for on, word in ((pair(mig=False), named), (pair(mig=True), named.partition("/")[0])):
            with pytest.raises(UsageError, match="no GPU"):
                chosen(on, word)
            with pytest.raises(PlacementError, match="hides every GPU"):
                chosen(on, devices=word)

    def test_indices_do_not_count_instances(self) -> None:
        with pytest.raises(UnknownNodeError, match="name instances by UUID"):
            chosen(pair(mig=True), devices="1")

    def test_a_divided_gpu_is_named_by_uuid(self) -> None:
        assert chosen(pair(mig=True), "1").visible_devices == UUIDS[1]


@given(st.permutations(range(8)).flatmap(lambda order: st.integers(1, 8).map(lambda n: order[:n])))
def test_the_order_stated_is_the_order_seen(order: list[int]) -> None:
    on = surveyed("dgx-h100")
    text = ",".join(map(str, order))
    assert chosen(on, text).gpus == tuple(order)
    assert chosen(on, devices=text).gpus == tuple(order)
    whole = list(order) == list(range(len(on.gpus)))  # then nothing needs to be said
    assert chosen(on, text).visible_devices == (None if whole else text)


@given(st.text(max_size=40), st.none() | st.text(alphabet="01289,-GPUMIGpugi/ \nx", max_size=40))
def test_any_text_gives_gpus_or_one_line(text: str, devices: str | None) -> None:
    try:
        found = chosen(pair(), text, devices=devices)
        said = found.origin
    except HostdoctorError as error:
        said = str(error)
    assert said.isprintable()
