"""HD402, HD406, HD410: what the paths of a plan lie on."""

from typing import Any

import pytest

from hostdoctor.diagnosis import Ask
from hostdoctor.facts import BlockDevice, Gpu, Host, NvmeController, Place, System
from tests.support.build_memory import GIB, drive, fires, judge, load, quiet, two_nodes

cold_tier_full = load("nvme", "cold_tier_full")
nvme_duty_mixed = load("nvme", "nvme_duty_mixed")
nvme_far_from_gpus = load("nvme", "nvme_far_from_gpus")

MODEL = Ask(model_path="/models")
BOTH = Ask(model_path="/models", kv_path="/kv")


def place(path: str = "/models", *disks: str, **more: Any) -> Place:
    given: dict[str, Any] = {"mount_point": path, "device": "/dev/md1", "filesystem": "xfs", "disks": disks}
    return Place(path=path, **(given | more))


def gpu(index: int, *nodes: int) -> Gpu:
    return Gpu(index=index, numa_node=nodes[0] if len(nodes) == 1 else None, numa_nodes=nodes)


def planned(*places: Place, nodes: tuple[int | None, ...] = (0, 1), **more: Any) -> Host:
    """Return a host with one drive for each of the nodes and a GPU on each of two."""
    drives = tuple(drive(f"nvme{i}", numa_node=node) for i, node in enumerate(nodes))
    given: dict[str, Any] = {"nvme": drives, "gpus": (gpu(0, 0), gpu(1, 1)), "places": places}
    return two_nodes(**(given | more))


class TestFarFromGpus:
    def test_gpus_without_a_drive_of_the_path_near_them_are_named(self) -> None:
        found = fires(nvme_far_from_gpus, planned(place("/models", "nvme0n1")), MODEL)
        assert found.severity == "info"
        assert found.subject == "GPU1"
        assert "--model-path /models (nvme0n1)" in found.message
        assert "1 of 2" in found.message
        assert found.evidence[1].value == "nvme0 on node 0"
        assert "nvme1" in found.remedy.text

    def test_a_raid_over_both_nodes_is_near_everybody(self) -> None:
        assert quiet(nvme_far_from_gpus, planned(place("/models", "nvme0n1", "nvme1n1")), MODEL) is None

    def test_only_gpus_in_scope_count(self) -> None:
        host = planned(place("/models", "nvme0n1"))
        assert quiet(nvme_far_from_gpus, host, Ask(model_path="/models", gpus=(0,))) is None

    def test_a_gpu_near_both_nodes_is_near_any_drive(self) -> None:
        host = planned(place("/models", "nvme1n1"), gpus=(gpu(0, 0, 1),))
        assert quiet(nvme_far_from_gpus, host, MODEL) is None

    def test_paths_on_the_same_disks_are_one_cause(self) -> None:
        host = planned(place("/models", "nvme0n1"), place("/kv", "nvme0n1"))
        assert "--model-path /models, --kv-path /kv" in fires(nvme_far_from_gpus, host, BOTH).message

    def test_unlike_disks_are_two(self) -> None:
        host = planned(place("/models", "nvme0n1"), place("/kv", "nvme1n1"))
        findings, _ = judge(nvme_far_from_gpus, host, BOTH)
        assert [found.subject for found in findings] == ["GPU1", "GPU0"]

    @pytest.mark.parametrize(
        ("host", "kind"),
        [
            (planned(place("/models", "nvme0n1"), nodes=(None, 1)), "no-evidence"),
            (planned(place("/models", "nvme0n1"), gpus=(gpu(0),)), "no-evidence"),
            (planned(), "no-evidence"),
            (planned(place("/models", device="tank/models", filesystem="zfs")), "no-evidence"),
            (planned(place("/models", "sda")), "not-applicable"),
            (planned(place("/models", "nvme0n1", "sda")), "not-applicable"),
            (planned(place("/models", "nvme0n1"), gpus=()), "not-applicable"),
            (planned(place("/models", "nvme0n1"), nodes=()), "not-applicable"),
        ],
    )
    def test_what_is_not_known_is_not_judged(self, host: Host, kind: str) -> None:
        assert quiet(nvme_far_from_gpus, host, MODEL) == kind

    def test_no_plan(self) -> None:
        assert quiet(nvme_far_from_gpus, planned(place("/models", "nvme0n1"))) == "no-plan"


def held(*holds: tuple[str, ...]) -> tuple[BlockDevice, ...]:
    return tuple(BlockDevice(name=f"nvme{i}n1", holds=names) for i, names in enumerate(holds))


class TestDutyMixed:
    @pytest.mark.parametrize(
        ("duty", "said"),
        [
            ("/", "the root file system"),
            ("swap", "swap"),
            ("/var", "logs (/var)"),
            ("/var/log/journal", "logs (/var/log/journal)"),
            ("/srv/postgresql", "a database (/srv/postgresql)"),
        ],
    )
    def test_a_drive_with_other_duties_warns_when_there_is_another(self, duty: str, said: str) -> None:
        host = planned(place("/models", "nvme0n1"), block_devices=held((duty, "/models"), ("/data",)))
        found = fires(nvme_duty_mixed, host, MODEL)
        assert found.severity == "warning"
        assert found.subject == "nvme0n1"
        assert f"nvme0n1 also has {said}" in found.message
        assert "nvme1n1" in found.remedy.text
        assert duty in found.evidence[1].value

    def test_the_model_in_the_root_file_system_counts(self) -> None:
        host = planned(place("/models", "nvme0n1", mount_point="/"), block_devices=held(("/",), ()))
        assert fires(nvme_duty_mixed, host, MODEL)

    def test_without_another_drive_nothing_can_be_done(self) -> None:
        mixed = ("/", "/models")
        host = planned(place("/models", "nvme0n1"), nodes=(0,), block_devices=held(mixed))
        assert quiet(nvme_duty_mixed, host, MODEL) is None
        both = planned(place("/models", "nvme0n1"), block_devices=held(mixed, ("swap",)))
        assert quiet(nvme_duty_mixed, both, MODEL) is None

    def test_a_remote_drive_is_not_another_one(self) -> None:
        remote = NvmeController(name="nvme1", transport="tcp", namespaces=("nvme1n1",))
        host = planned(place("/models", "nvme0n1"), nvme=(drive(), remote), block_devices=held(("/",), ()))
        assert quiet(nvme_duty_mixed, host, MODEL) is None

    def test_a_drive_of_its_own_passes(self) -> None:
        host = planned(place("/models", "nvme1n1"), block_devices=held(("/", "/boot/efi"), ("/models", "/home")))
        assert quiet(nvme_duty_mixed, host, MODEL) is None

    def test_a_container_does_not_see_the_hosts_mounts(self) -> None:
        host = planned(
            place("/models", "nvme0n1"), block_devices=held(("/",), ()), system=System(container="kubernetes")
        )
        assert quiet(nvme_duty_mixed, host, MODEL) == "no-evidence"

    def test_no_plan_and_no_drive(self) -> None:
        assert quiet(nvme_duty_mixed, planned()) == "no-plan"
        assert quiet(nvme_duty_mixed, planned(place("/models", "sda")), MODEL) == "not-applicable"


def filled(percent: float, reserved: float = 0.0) -> Host:
    """Return a host whose /kv has 1,000 GiB; ``reserved`` percent of them are root's."""
    size = 1000 * GIB
    free = int(size * (100 - percent) / 100)
    room = {"size_bytes": size, "free_bytes": free, "available_bytes": free - int(size * reserved / 100)}
    return two_nodes(places=(place("/models"), place("/kv", **room)))


KV = Ask(kv_path="/kv")


class TestColdTierFull:
    def test_above_85_percent_warns(self) -> None:
        found = fires(cold_tier_full, filled(86), KV)
        assert found.severity == "warning"
        assert found.subject == "/kv"
        assert "86% full: 140.0 GiB left" in found.message

    def test_what_is_kept_for_root_does_not_count_as_room(self) -> None:
        assert fires(cold_tier_full, filled(84, reserved=5), KV)

    @pytest.mark.parametrize("percent", [0, 50, 85])
    def test_up_to_85_percent_passes(self, percent: float) -> None:
        assert quiet(cold_tier_full, filled(percent), KV) is None

    def test_an_empty_pseudo_file_system_is_not_full(self) -> None:
        nothing = place("/kv", size_bytes=0, free_bytes=0, available_bytes=0)
        assert quiet(cold_tier_full, two_nodes(places=(nothing,)), KV) is None

    def test_the_models_path_is_not_a_tier(self) -> None:
        assert quiet(cold_tier_full, filled(99), MODEL) == "no-plan"

    @pytest.mark.parametrize(("is_live", "kind"), [(True, "no-evidence"), (False, "live-only")])
    def test_a_capture_does_not_tell(self, is_live: bool, kind: str) -> None:
        assert quiet(cold_tier_full, two_nodes(places=(place("/kv"),), is_live=is_live), KV) == kind
        assert quiet(cold_tier_full, two_nodes(is_live=is_live), KV) == kind
