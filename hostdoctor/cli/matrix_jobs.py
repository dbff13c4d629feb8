"""``matrix run --emit``: the whole grid as jobs for an existing scheduler, a job for each server."""

from pathlib import Path
from typing import Literal, NamedTuple

from hostdoctor.measure.matrix.commands import clients, metrics_url, ready_url
from hostdoctor.measure.matrix.grid import Series
from hostdoctor.measure.matrix.model import Plan
from hostdoctor.measure.matrix.order import Run, blocks
from hostdoctor.outputs.trial_text import around
from hostdoctor.placement.emitting import environment, write

Form = Literal["k8s", "slurm", "shell"]
_ENDINGS: dict[Form, str] = {"k8s": "yaml", "slurm": "sh", "shell": "sh"}
_TEMPLATES: dict[Form, str] = {"k8s": "job.yaml.j2", "slurm": "job.slurm.j2", "shell": "job.sh.j2"}


class Cell(NamedTuple):
    """A cell's commands: where its result goes below the folder, the client, and the one beside it."""

    folder: str
    title: str
    words: tuple[str, ...]
    beside: tuple[str, ...]


class Job(NamedTuple):
    """One server and its cells."""

    name: str
    title: str
    server: tuple[str, ...]
    variables: list[tuple[str, str]]
    ready_url: str
    metrics_url: str
    ready_s: str
    gpus: str
    cells: list[Cell]


def write_jobs(plan: Plan, out: Path, form: Form, image: str) -> list[str]:
    """Write a job for each series and repeat into a folder; return the files' names."""
    made = environment("k8s" if form == "k8s" else "slurm" if form == "slurm" else "shell", "matrix")
    body = environment("shell", "matrix").get_template("job.sh.j2")
    names = []
    for number, job in enumerate(_jobs(plan, bound=form != "k8s"), 1):
        values = {
            "job": job,
            "out": str(out),
            "count": str(len(job.cells)),
            "host": plan.hostname or "this host",
            "variables": job.variables,
            "server": job.server,
            "image": image,
        }
        if form == "k8s":
            values["script"] = str(body.render(values))
        path = out / f"{number:03d}-{job.name}.{_ENDINGS[form]}"
        write(path, made.get_template(_TEMPLATES[form]).render(values), executable=form != "k8s")
        names.append(str(path))
    return names


def _jobs(plan: Plan, *, bound: bool) -> list[Job]:
    found: dict[tuple[Series, int], list[Run]] = {}
    for run in blocks(plan.experiment):
        found.setdefault((run.cell.series, run.repeat), []).append(run)
    return [_job(plan, series, repeat, runs, bound=bound) for (series, repeat), runs in found.items()]


def _job(plan: Plan, series: Series, repeat: int, runs: list[Run], *, bound: bool) -> Job:
    """Return a job; where it is ``bound``, by the numbers of this host."""
    arm = plan.arms[series.slug]
    client = plan.experiment.client.environment
    variables = {n: v for n, v in (arm.environment | client).items() if n != "CUDA_VISIBLE_DEVICES"}
    return Job(
        name=f"{series.slug}-r{repeat}".lower().replace(".", "-").replace("_", "-"),
        title=f"repeat {repeat + 1} of {series.label}",
        server=(*(around(arm) if bound else ()), *arm.argv),
        variables=sorted(variables.items()),
        ready_url=ready_url(plan.experiment),
        metrics_url=metrics_url(plan.experiment),
        ready_s=f"{plan.experiment.server.ready_timeout_s:.0f}",
        gpus=str(len(plan.gpu_indices) or 1),
        cells=[_cell(plan, run) for run in runs],
    )


def _cell(plan: Plan, run: Run) -> Cell:
    told = clients(plan.experiment, run, "result.json", plan.versions)
    folder = f"runs/{run.cell.series.slug}/{run.cell.slug}/r{run.repeat}"
    return Cell(folder=folder, title=run.cell.label, words=told.words, beside=told.beside)
