"""``hostdoctor compare`` of files: what it prints, what it refuses."""

import json
from pathlib import Path

import jsonschema
import pytest

from tests.cli.support import hostdoctor
from tests.support import write_schemas
from tests.support.serving_results import options, write_results


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    folder = tmp_path_factory.mktemp("results")
    return {
        "near": write_results(folder, "near"),
        "far": write_results(folder, "far", 1.25),
        "control": write_results(folder, "control"),
    }


def test_a_slower_far_node_is_said_in_words(arms: dict[str, list[str]]) -> None:
    ran = hostdoctor("compare", *options(**arms))
    assert (ran.status, ran.err) == (0, "")
    first, guard, control, head, *rows = ran.out.splitlines()
    assert first.startswith("near is faster by 2")
    assert first.endswith("%: median ITL, 10 pairs")
    assert guard == "  at p99: near is not worse than far by more than 10 %"
    assert control.startswith("  control: near again/near [")
    assert control.endswith("], no difference")
    assert head.split("  ")[-1] == "verdict"
    assert [row.split()[:2] for row in rows] == [
        [m, p] for m in ("ITL", "TTFT", "TPOT", "E2EL") for p in ("p50", "p99")
    ]


def test_the_document_has_the_promised_shape(arms: dict[str, list[str]]) -> None:
    ran = hostdoctor("compare", *options(**arms), "--format", "json")
    document = json.loads(ran.out)
    schema = json.loads((write_schemas.FOLDER / "comparison.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, schema)
    assert (document["schema_version"], document["pairs"]) == ("1", 10)
    assert list(document["metrics"]) == ["ttft", "tpot", "itl", "e2el"]
    row = document["metrics"]["itl"]["p99"]
    assert row["verdict"] == "near-faster"
    assert row["ratio_ci"][0] < row["ratio"] < row["ratio_ci"][1]
    assert row["near_ci_ms"][0] < row["near_ms"] < row["near_ci_ms"][1] < row["far_ms"]
    assert row["p_value"] == 2 / 2**10
    assert row["detectable_ratio"] > 1
    assert document["failed_requests"] == {"near": 0, "far": 0}
    assert [Path(run["source"]).name for run in document["provenance"]["far"]] == [f"far-{i}.json" for i in range(10)]
    assert document["provenance"]["near"][0]["model"] == "org/model-8b"


def test_equal_arms_say_what_would_have_been_seen(arms: dict[str, list[str]]) -> None:
    ran = hostdoctor("compare", *options(near=arms["near"], far=arms["control"]))
    assert ran.out.startswith("no measurable difference (would have seen ≥ ")
    assert "no near-against-near control" in ran.out


def test_one_pair_is_insufficient_and_that_is_no_failure(arms: dict[str, list[str]]) -> None:
    ran = hostdoctor("compare", "--near", arms["near"][0], "--far", arms["far"][0])
    assert ran.status == 0
    assert ran.out.startswith("insufficient (1 of 6 pairs): median ITL, 1 pair")


def test_repeats_may_stand_in_one_file(arms: dict[str, list[str]], tmp_path: Path) -> None:
    for arm in ("near", "far"):
        (tmp_path / arm).write_text("\n".join(Path(name).read_text() for name in arms[arm]))
    ran = hostdoctor("compare", "--near", str(tmp_path / "near"), "--far", str(tmp_path / "far"))
    assert ran.out.splitlines()[0].endswith("%: median ITL, 10 pairs")


def test_the_primary_is_declared(arms: dict[str, list[str]]) -> None:
    ran = hostdoctor("compare", *options(**arms), "--metric", "ttft.p99")
    assert ": TTFT p99, 10 pairs" in ran.out.splitlines()[0]
    assert ran.out.splitlines()[3].startswith("  TTFT p50")
    for wrong in ("tokens", "itl.p95", "", "wall.p50.p50"):
        assert hostdoctor("compare", *options(**arms), "--metric", wrong).status == 64


def test_another_model_is_another_workload(arms: dict[str, list[str]], tmp_path: Path) -> None:
    other = json.loads(Path(arms["far"][0]).read_text()) | {"model_id": "org/model-70b", "request_rate": 8.0}
    (tmp_path / "other.json").write_text(json.dumps(other))
    command = ("compare", "--near", arms["near"][0], "--far", str(tmp_path / "other.json"))
    ran = hostdoctor(*command)
    assert (ran.status, ran.out) == (3, "")
    assert ran.err == (
        "hostdoctor: not the same workload (--force compares anyway): model org/model-8b (near-0.json) but"
        " org/model-70b (other.json); request rate 4 (near-0.json) but 8 (other.json)\n"
    )
    forced = hostdoctor(*command, "--force")
    assert forced.status == 0
    assert "note: not the same workload: model org/model-8b" in forced.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give results from both nodes"),
        (["--near", "{near}"], "give results from both nodes"),
        (["--near", "{near}", "--near", "{near}", "--far", "{far}"], "2 near runs, 1 far runs"),
        (["--near", "{near}", "--far", "/nowhere.json"], "no such file"),
        (["--near", "{near}", "{far}", "--far", "{far}"], "each file wants a --near, --far or --control of its own"),
        (["--near", "{near}", "--far", "{far}", "--", "serve"], "give no command with them\n"),
        (["--near", "{near}", "--far", "{far}", "--margin", "nan"], "--margin"),
        (["--near", "{near}", "--far", "{far}", "--metric", "wall"], "no run has the latency 'wall'"),
        (["--near", "{near}", "--far", "{far}", "--pairs", "8"], "results taken elsewhere: --pairs says nothing there"),
        (["--near", "{near}", "--far", "{far}", "--dry-run"], "--dry-run says nothing there"),
    ],
)
def test_mistakes_of_usage(arms: dict[str, list[str]], arguments: list[str], said: str) -> None:
    ran = hostdoctor("compare", *(x.format(near=arms["near"][0], far=arms["far"][0]) for x in arguments))
    assert (ran.status, ran.out) == (64, "")
    assert said in ran.err


@pytest.mark.parametrize("text", [b"", b"\0\1\2", b"{", b'{"median_itl_ms": 0}', b"[" * 100_000, b"\xff\xfe{\x00"])
def test_what_is_no_result_is_refused_in_one_line(arms: dict[str, list[str]], tmp_path: Path, text: bytes) -> None:
    (tmp_path / "broken.json").write_bytes(text)
    ran = hostdoctor("compare", "--near", str(tmp_path / "broken.json"), "--far", arms["far"][0])
    assert (ran.status, ran.out, ran.err.count("\n")) == (3, "", 1)


def test_a_folder_is_no_result(arms: dict[str, list[str]], tmp_path: Path) -> None:
    ran = hostdoctor("compare", "--near", str(tmp_path), "--far", arms["far"][0])
    assert ran.status == 3
    assert "not a regular file" in ran.err


def test_a_client_s_name_for_things_cannot_write_to_the_terminal(arms: dict[str, list[str]], tmp_path: Path) -> None:
    for name, model in (("a", "m\x1b[31m\nx"), ("b", "m")):
        run = json.loads(Path(arms["near"][0]).read_text()) | {"model_id": model}
        (tmp_path / name).write_text(json.dumps(run))
    command = ("compare", "--near", str(tmp_path / "a"), "--far", str(tmp_path / "b"))
    for ran in (hostdoctor(*command), hostdoctor(*command, "--force")):
        assert "\x1b" not in ran.out + ran.err
