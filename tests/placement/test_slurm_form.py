"""The Slurm job: flags that srun itself takes, one task bound as a whole, or one for each rank."""

import os
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings

from hostdoctor.errors import PlacementError
from hostdoctor.placement.emitting import render
from hostdoctor.placement.model import Launch
from tests.placement.hostile import BYTES, NASTY, words
from tests.placement.launches import MADE, by_rank, launch, one_node, spanning, two_nodes
from tests.placement.tools import SHELLS, Bench, needs, run

WHOLE = "--cpu-bind=verbose,mask_cpu:0xf0f --mem-bind=verbose,map_mem:0 --gpu-bind=closest"
# Stands for srun: drops its own options and starts the command.
SRUN = """#!/bin/sh
while :; do
  case $1 in --) shift; break ;; --*) shift ;; *) break ;; esac
done
exec "$@"
"""


def job(started: Launch) -> str:
    return render(started, "slurm", made=MADE)


def flags(started: Launch) -> str:
    found = re.search(r"^exec srun --ntasks=\d+ (.*) \\$", job(started), re.MULTILINE)
    assert found
    return found[1]


JOBS = [
    (launch(), WHOLE),
    (launch(binding=one_node(policy="preferred")), WHOLE.replace("verbose,map_mem", "verbose,prefer,map_mem")),
    (launch(binding=one_node(arm="far")), WHOLE.replace("0xf0f", "0xf0f0").replace("map_mem:0", "map_mem:1")),
    (launch(binding=one_node(limits_cpus=False)), WHOLE.replace("verbose,mask_cpu:0xf0f", "none")),
    (
        launch(binding=two_nodes()),
        "--cpu-bind=verbose,mask_cpu:0xffff --mem-bind=verbose,mask_mem:0x3 --gpu-bind=closest",
    ),
    (
        launch(binding=two_nodes(policy="interleave")),
        "--cpu-bind=verbose,mask_cpu:0xffff --mem-bind=none --gpu-bind=closest",
    ),
    (spanning(), "--cpu-bind=none --mem-bind=none --gpu-bind=none"),
    (
        by_rank(),
        "--cpu-bind=verbose,mask_cpu:0xf0f,0xf0f,0xf0f0,0xf0f0 --mem-bind=verbose,map_mem:0,0,1,1 --gpu-bind=none",
    ),
]


@pytest.mark.parametrize(("started", "expected"), JOBS)
def test_flags(started: Launch, expected: str) -> None:
    assert flags(started) == expected


@pytest.mark.parametrize("started", [started for started, _ in JOBS])
def test_srun_takes_the_flags(started: Launch, tmp_path: Path) -> None:
    srun = needs("srun")
    settings_ = ("ClusterName=x", "SlurmctldHost=localhost", "AuthType=auth/none", "TaskPlugin=task/affinity")
    (tmp_path / "slurm.conf").write_text(
        "\n".join((*settings_, "NodeName=localhost", "PartitionName=a Nodes=localhost"))
    )
    environment = {"PATH": os.environ["PATH"], "SLURM_CONF": str(tmp_path / "slurm.conf")}
    # srun reads its options in order and stops at the first that it does not know: the last one.
    done = run(srun, "--exclusive", *flags(started).split(), "--mem-bind=nonsense", "true", environment=environment)
    assert done.stderr.decode().splitlines()[:1] == ['srun: error: unrecognized --mem-bind argument "nonsense"']


def test_one_task_that_runs_all_ranks_is_not_bound_as_a_whole() -> None:
    text = job(spanning())
    assert "#SBATCH --ntasks=1\n#SBATCH --gpus-per-node=4\n" in text
    assert "it is not bound as a whole" in text


def test_interleaving_is_numactls(tmp_path: Path) -> None:
    bench = job_bench(tmp_path)
    bench.start(job(launch("printer", "x", binding=two_nodes(policy="interleave"))))
    assert (bench.options, bench.words) == ("--interleave=0,1", ["x"])


def test_slurm_says_itself_what_is_visible(tmp_path: Path) -> None:
    bench = job_bench(tmp_path)
    bench.start(job(launch("printer", environment={"CUDA_VISIBLE_DEVICES": "6,7", "A": "b"})))
    assert "A=b" in bench.environ
    assert not [entry for entry in bench.environ if entry.startswith("CUDA_VISIBLE_DEVICES")]


@pytest.mark.parametrize("number", [0, 3])
def test_each_task_has_its_ranks_variables(number: int, tmp_path: Path) -> None:
    bench = job_bench(tmp_path)
    uuids = tuple({"CUDA_VISIBLE_DEVICES": f"GPU-{n}", "NCCL_IB_HCA": f"mlx5_{n}; $(id)"} for n in range(4))
    bench.start(job(by_rank("printer", "a b", environments=uuids)), "c", variables={"SLURM_LOCALID": str(number)})
    assert bench.words == ["a b", "c"]
    assert {f"CUDA_VISIBLE_DEVICES=GPU-{number}", f"NCCL_IB_HCA=mlx5_{number}; $(id)"} <= set(bench.environ)


def test_the_jobs_gpus_are_counted_from_zero(tmp_path: Path) -> None:
    bench = job_bench(tmp_path)
    started = by_rank("printer", environments=({"CUDA_VISIBLE_DEVICES": "6"}, {"CUDA_VISIBLE_DEVICES": "7"}))
    bench.start(job(started), variables={"SLURM_LOCALID": "1"})
    assert "CUDA_VISIBLE_DEVICES=1" in bench.environ


def job_bench(folder: Path) -> Bench:
    bench = Bench(folder, {0: [0], 1: [1]})
    bench.script("srun", SRUN)
    return bench


@settings(max_examples=40)
@given(argv=words.map(lambda word: [word]), value=words)
@example(argv=[*NASTY, *BYTES], value="\n")
def test_every_word_arrives_byte_for_byte(argv: list[str], value: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench = job_bench(Path(folder))
        for shell in SHELLS:
            bench.start(job(launch("printer", *argv, environment={"HOSTILE": value})), shell=shell)
            assert bench.words == argv
            assert f"HOSTILE={value}" in bench.environ


def test_a_command_that_looks_like_an_option(tmp_path: Path) -> None:
    bench = job_bench(tmp_path)
    bench.command("--x")
    bench.start(job(launch("--x", "--y")))
    assert bench.words == ["--y"]


def test_what_a_job_cannot_hold_is_refused_by_name() -> None:
    with pytest.raises(PlacementError, match="A B"):
        job(by_rank(environments=({"A B": "x"},)))
