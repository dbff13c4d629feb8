"""Docker, Compose and Kubernetes: what the real clients and schemas read, and every word as it was given."""

import http.server
import json
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import msgspec
import pytest
import yaml
from hypothesis import example, given, settings

from hostdoctor.errors import PlacementError
from hostdoctor.placement.emitting import Container, Form, render
from hostdoctor.placement.model import Launch, Reason
from tests.placement.hostile import NASTY, text
from tests.placement.launches import MADE, by_rank, launch, one_node, spanning, two_nodes
from tests.placement.tools import Bench, needs, run

PLAIN = Container(image="registry/vllm:1")
VARIANTS = {
    "bind": launch(),
    "preferred": launch(binding=one_node(policy="preferred")),
    "interleave": launch(binding=two_nodes(policy="interleave")),
    "memory alone": launch(binding=one_node(limits_cpus=False)),
    "spanning": spanning(),
}


def form(started: Launch, name: Form, container: Container = PLAIN) -> str:
    return render(started, name, made=MADE, container=container)


class Daemon(http.server.BaseHTTPRequestHandler):
    """Takes what the docker client sends and starts nothing."""

    created: list[dict[str, Any]]

    def do_HEAD(self) -> None:
        self._answer(200, b"")

    def do_GET(self) -> None:
        self._answer(200, b"")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "/containers/create" in self.path:
            self.created.append(json.loads(body))
        self._answer(500, b'{"message": "nothing is started here"}')

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Api-Version", "1.41")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def daemon() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    created: list[dict[str, Any]] = []
    handler = type("Recording", (Daemon,), {"created": created})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"tcp://127.0.0.1:{server.server_port}", created
        server.shutdown()
        thread.join()


def asked_of(daemon: tuple[str, list[dict[str, Any]]], script: str, **variables: str) -> dict[str, Any]:
    """Return the container that the real docker client asks its daemon for when the script runs."""
    address, created = daemon
    docker = needs("docker")
    created.clear()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "wrapper.sh")
        path.write_text(script, encoding="utf-8")
        environment = {"PATH": f"{Path(docker).parent}:/usr/bin:/bin", "DOCKER_HOST": address, "HOME": folder}
        done = run(needs("dash"), str(path), environment=environment | variables)
    assert created, done.stderr
    return created[0]


def test_the_docker_client_asks_for_the_binding(daemon: tuple[str, list[dict[str, Any]]]) -> None:
    asked = asked_of(daemon, form(launch("vllm", "serve", "m"), "docker"))
    host = asked["HostConfig"]
    assert (host["CpusetCpus"], host["CpusetMems"]) == ("0-3,8-11", "0")
    assert (asked["Image"], asked["Entrypoint"], asked["Cmd"]) == ("registry/vllm:1", ["vllm"], ["serve", "m"])
    assert host["CapAdd"] in (["SYS_NICE"], ["CAP_SYS_NICE"])
    assert host["Ulimits"] == [{"Name": "memlock", "Hard": -1, "Soft": -1}]
    assert host["IpcMode"] == "host"
    assert host["DeviceRequests"][0]["DeviceIDs"] == ["0", "1"]
    assert not asked["Env"]


def test_the_words_given_to_docker(tmp_path: Path) -> None:
    bench = Bench(tmp_path, {0: [0]})
    bench.command("docker")
    bench.start(form(launch("vllm", "serve", *NASTY, environment={"A": "b\nc"}), "docker"), "more")
    options = ["--cpuset-cpus=0-3,8-11", "--cpuset-mems=0", "--cap-add=SYS_NICE", "--ulimit=memlock=-1", "--ipc=host"]
    assert bench.words == [
        *("run", "--rm", "--gpus", '"device=0,1"', *options, "--env", "A=b\nc", "--entrypoint", "vllm"),
        *("registry/vllm:1", "serve", *NASTY, "more"),
    ]


def test_docker_prefers_a_node_by_its_cpus_alone(daemon: tuple[str, list[dict[str, Any]]]) -> None:
    asked = asked_of(daemon, form(VARIANTS["preferred"], "docker"))
    assert (asked["HostConfig"]["CpusetCpus"], asked["HostConfig"]["CpusetMems"]) == ("0-3,8-11", "")
    assert asked["Entrypoint"] == ["vllm"]


@pytest.mark.parametrize(
    ("started", "inner"),
    [
        (launch("a", binding=one_node(policy="preferred", limits_cpus=False)), ["numactl", "--preferred=0", "a"]),
        (launch("a", binding=two_nodes(policy="interleave")), ["numactl", "--interleave=0,1", "a"]),
        (launch("-a", binding=two_nodes(policy="interleave")), ["numactl", "--interleave=0,1", "--", "-a"]),
    ],
)
def test_what_docker_has_no_flag_for_numactl_does_inside(
    started: Launch, inner: list[str], daemon: tuple[str, list[dict[str, Any]]]
) -> None:
    script = form(started, "docker")
    asked = asked_of(daemon, script)
    assert [*asked["Entrypoint"], *asked["Cmd"]] == inner
    assert "The image must have numactl." in script


def test_docker_around_an_engine_that_binds_itself(daemon: tuple[str, list[dict[str, Any]]]) -> None:
    asked = asked_of(daemon, form(spanning(), "docker", msgspec.structs.replace(PLAIN, shm_gib=16)))
    host = asked["HostConfig"]
    assert (host["CpusetCpus"], host["CpusetMems"], host["ShmSize"]) == ("0-15", "0,1", 16 << 30)
    assert asked["Cmd"][-5:] == ["--numa-bind-nodes", "0", "0", "1", "1"]


def test_docker_asks_for_the_image_it_was_not_told(daemon: tuple[str, list[dict[str, Any]]], tmp_path: Path) -> None:
    script = form(launch(), "docker", Container())
    assert asked_of(daemon, script, IMAGE="mine:2")["Image"] == "mine:2"
    (tmp_path / "x.sh").write_text(script)
    done = run(needs("dash"), str(tmp_path / "x.sh"), environment={})
    assert done.returncode != 0
    assert b"set IMAGE to the image to run" in done.stderr


@settings(max_examples=30)
@given(word=text)
def test_docker_passes_every_word_on(word: str, daemon: tuple[str, list[dict[str, Any]]]) -> None:
    asked = asked_of(daemon, form(launch("a", word, environment={"B": word}), "docker"))
    assert asked["Cmd"] == [word]
    assert asked["Env"] == [f"B={word}"]


def test_docker_passes_all_odd_words_on_at_once(daemon: tuple[str, list[dict[str, Any]]]) -> None:
    assert asked_of(daemon, form(launch("-x y", *NASTY), "docker"))["Entrypoint"] == ["-x y"]
    assert asked_of(daemon, form(launch("a", *NASTY), "docker"))["Cmd"] == NASTY


@pytest.mark.parametrize(
    ("visible", "devices", "expected"),
    [
        ("0,1", (), (["0", "1"], None)),
        ("3,1", (), (["3", "1"], "1,0")),
        ("GPU-b,GPU-a", (), (["GPU-b", "GPU-a"], "GPU-b,GPU-a")),
        ("1,0", ("GPU-b", "GPU-a"), (["GPU-b", "GPU-a"], "GPU-b,GPU-a")),
        ("MIG-1f-2e", (), (["MIG-1f-2e"], "MIG-1f-2e")),
    ],
)
def test_inside_the_gpus_are_counted_anew(
    visible: str, devices: tuple[str, ...], expected: tuple[list[str], str | None]
) -> None:
    started = launch(environment={"CUDA_VISIBLE_DEVICES": visible})
    document = yaml.safe_load(form(started, "compose", Container(image="i", devices=devices)))
    (service,) = document["services"].values()
    (asked,) = service["deploy"]["resources"]["reservations"]["devices"]
    inside = service.get("environment", {})
    assert (asked["device_ids"], inside.get("CUDA_VISIBLE_DEVICES")) == expected
    assert inside.get("CUDA_DEVICE_ORDER") == ("PCI_BUS_ID" if expected[1] == "1,0" else None)


def test_gpus_that_were_not_chosen_by_variable_are_named_by_label() -> None:
    binding = one_node()
    binding = msgspec.structs.replace(
        binding, selection=msgspec.structs.replace(binding.selection, visible_devices=None)
    )
    (service,) = yaml.safe_load(form(launch(binding=binding, environment={}), "compose"))["services"].values()
    assert service["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"] == ["0", "1"]


@pytest.mark.parametrize("name", VARIANTS)
def test_compose_takes_the_service(name: str, tmp_path: Path) -> None:
    compose = needs("docker-compose")
    (tmp_path / "compose.yaml").write_text(form(VARIANTS[name], "compose"), encoding="utf-8")
    done = run(compose, "-f", str(tmp_path / "compose.yaml"), "config", environment={"PATH": os.environ["PATH"]})
    assert (done.returncode, done.stderr) == (0, b"")
    (service,) = yaml.safe_load(done.stdout)["services"].values()
    assert service["entrypoint"] == read_compose(form(VARIANTS[name], "compose"))["entrypoint"]


def test_compose_has_cpus_outside_and_memory_inside() -> None:
    service = read_compose(form(launch("vllm", "serve"), "compose"))
    assert service["cpuset"] == "0-3,8-11"
    assert service["entrypoint"] == ["numactl", "--membind=0", "vllm", "serve"]
    assert (service["cap_add"], service["ulimits"], service["ipc"]) == (["SYS_NICE"], {"memlock": -1}, "host")
    assert read_compose(form(VARIANTS["preferred"], "compose"))["entrypoint"][0] == "vllm"
    assert read_compose(form(spanning(), "compose"))["entrypoint"][0] == "vllm"
    assert "cpuset" not in read_compose(form(VARIANTS["memory alone"], "compose"))
    assert read_compose(form(launch(), "compose", Container(image="i", shm_gib=8)))["shm_size"] == "8g"


def test_compose_asks_for_the_image_it_was_not_told() -> None:
    assert read_compose(form(launch(), "compose", Container()))["image"] == "${IMAGE:?set IMAGE to the image to run}"


def read_compose(document: str) -> dict[str, Any]:
    (service,) = yaml.safe_load(document)["services"].values()
    assert isinstance(service, dict)
    return service


def interpolated(value: str) -> str:
    """Return what Compose makes of a value without variables: ``$$`` is ``$``, and a ``$`` alone would be one."""
    assert "$" not in value.replace("$$", "")
    return value.replace("$$", "$")


@settings(max_examples=200)
@given(word=text)
@example(word="$$(A)${B}$C$")
def test_yaml_gives_every_word_back(word: str) -> None:
    started = launch("a", word, environment={"NO": word})
    service = read_compose(form(started, "compose", Container(image=word or "i")))
    assert list(map(interpolated, service["entrypoint"][-2:])) == ["a", word]
    assert {name: interpolated(value) for name, value in service["environment"].items()} == {"NO": word}
    assert interpolated(service["image"]) == word or not word
    container = the_container(form(started, "k8s", Container(image=word or "i")))
    assert list(map(expanded, container["command"])) == ["a", word]
    assert [(e["name"], expanded(e["value"])) for e in container["env"]] == [("NO", word)]
    assert container["image"] == word or not word


def test_compose_itself_gives_every_word_back(tmp_path: Path) -> None:
    compose = needs("docker-compose")
    readable = [word for word in NASTY if word.isprintable() or word in {"\n", "a\nb", "\t"}]
    (tmp_path / "c.yaml").write_text(form(launch("a", *readable, binding=one_node(policy="preferred")), "compose"))
    environment = {"PATH": os.environ["PATH"], "HOME": "/root", "A": "wrong", "LANG": "C.UTF-8"}
    done = run(compose, "-f", str(tmp_path / "c.yaml"), "config", environment=environment)
    assert done.returncode == 0, done.stderr
    (service,) = yaml.safe_load(done.stdout)["services"].values()
    assert [word.replace("$$", "$") for word in service["entrypoint"]] == ["a", *readable]


def expanded(value: str) -> str:
    """Return what Kubernetes makes of a value, by its rule: ``$$`` is ``$``, ``$(NAME)`` a variable, else as it is."""
    return re.sub(r"\$(\$|\([^)]*\))", lambda found: "$" if found[1] == "$" else "EXPANDED", value)


def pod(document: str) -> dict[str, Any]:
    found = yaml.safe_load(document)
    assert isinstance(found, dict)
    return found


def the_container(document: str) -> dict[str, Any]:
    (container,) = pod(document)["spec"]["containers"]
    assert isinstance(container, dict)
    return container


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("container", [Container(), Container(image="i", memory_gib=64, shm_gib=8)])
def test_the_pod_obeys_the_schema(name: str, container: Container) -> None:
    kubernetes_validate.validate(pod(form(VARIANTS[name], "k8s", container)), "1.33", strict=True)


def test_the_schema_would_object() -> None:
    odd = pod(form(launch(), "k8s"))
    odd["spec"]["containers"][0]["comand"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(odd, "1.33", strict=True)


def test_the_pod_is_of_guaranteed_quality() -> None:
    asked = the_container(form(launch(), "k8s", Container(image="i", memory_gib=64, shm_gib=8)))
    assert asked["resources"]["requests"] == {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "2"}
    assert asked["resources"]["limits"] == asked["resources"]["requests"]
    assert "env" not in asked, "the device plugin says what is visible"
    assert "securityContext" not in asked


def test_what_the_pod_was_not_told_is_refused_by_the_cluster_not_guessed() -> None:
    asked = the_container(form(launch(), "k8s", Container()))
    assert not re.fullmatch(r"[0-9.]+([EPTGMK]i?|m)?", asked["resources"]["limits"]["memory"])
    assert asked["image"] != asked["image"].lower(), "an image's name is in small letters"


def test_gpus_on_different_nodes_are_not_asked_of_single_numa_node() -> None:
    document = form(spanning(), "k8s")
    assert "TopologyAffinityError" in document
    assert "topologyManagerPolicy: restricted" in document
    assert the_container(document)["securityContext"] == {"capabilities": {"add": ["SYS_NICE"]}}
    assert "TopologyAffinityError" not in form(launch(), "k8s")
    assert "topologyManagerPolicy: single-numa-node" in form(launch(), "k8s")


@pytest.mark.parametrize("name", ["compose", "k8s"])
@pytest.mark.parametrize("hostile", ["x\ny: z", "a\u2028b: c", "\r- d", "\x00", "\udcff", "\ufeff"])
def test_no_comment_becomes_content(name: Form, hostile: str) -> None:
    binding = msgspec.structs.replace(one_node(), reasons=(Reason(text=hostile, value=hostile),), warnings=(hostile,))
    started = launch(binding=binding, notes=(hostile,))
    made = msgspec.structs.replace(MADE, host=hostile)
    document = render(started, name, made=made, container=PLAIN)
    assert yaml.safe_load(document) == yaml.safe_load(form(launch(), name))


@pytest.mark.parametrize("name", ["docker", "compose", "k8s"])
@pytest.mark.parametrize(
    ("started", "named"),
    [
        (by_rank(), "every rank"),
        (launch("a", "\udcff"), "udcff"),
        (launch("a", "\0"), "x00"),
        (launch("a", environment={"A": "\udcff"}), "udcff"),
        (launch("a", environment={"A-B": "x"}), "A-B"),
        (launch(""), "no command"),
    ],
)
def test_what_json_and_yaml_cannot_hold_is_refused_by_name(name: Form, started: Launch, named: str) -> None:
    with pytest.raises(PlacementError) as raised:
        form(started, name)
    assert named in str(raised.value)


def test_kubernetes_cannot_be_asked_for_the_far_node() -> None:
    with pytest.raises(PlacementError, match="far node"):
        form(launch(binding=one_node(arm="far")), "k8s")


@pytest.mark.parametrize("visible", ["x", "GPU-a,1", "0;1"])
def test_a_gpu_that_docker_could_not_find_is_refused(visible: str) -> None:
    with pytest.raises(PlacementError):
        form(launch(environment={"CUDA_VISIBLE_DEVICES": visible}), "docker")


def test_an_image_is_not_an_option() -> None:
    with pytest.raises(PlacementError, match="not the name of an image"):
        form(launch(), "docker", Container(image="--privileged"))


@pytest.mark.parametrize("name", ["docker", "compose", "k8s"])
def test_what_adapters_need_in_a_container_is_said(name: Form) -> None:
    with_them = launch(environment={"NCCL_IB_HCA": "=mlx5_0", "UCX_NET_DEVICES": "mlx5_0:1"})
    assert ["# RDMA needs" in form(one, name) for one in (with_them, launch())] == [True, False]
