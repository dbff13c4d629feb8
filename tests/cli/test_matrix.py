"""``hostdoctor matrix``: what init writes and strikes, what a dry run prints, what boundary reads and refuses."""

import json
import random
import shutil
import subprocess  # noqa: TID251  shellcheck
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from hostdoctor.measure.matrix.experiment import read_experiment
from tests.budget.models import LLAMA_8B
from tests.budget.models import write as write_config
from tests.cli.support import hostdoctor
from tests.parsers.test_run_results import GUIDELLM, SGLANG, aiperf
from tests.support.serving_results import serving_result
from tests.support.write_schemas import FOLDER

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SLO = ("--ttft-p99-ms", "500", "--itl-p99-ms", "50")
Init = Callable[..., Path]


@pytest.fixture
def init(tmp_path: Path) -> Init:
    """Return a function that has ``init`` write an experiment for a model of 8 billion parameters at 16 bits."""

    def writer(*options: str, name: str = "x.toml") -> Path:
        config = write_config(tmp_path, {**LLAMA_8B, "max_position_embeddings": 131072})
        model = ("--model", "a/model", "--config", config, "--weights-gib", "15")
        ran = hostdoctor("matrix", "init", *model, *SLO, *options, "-o", str(tmp_path / name))
        assert ran.status == 0, ran.err
        return tmp_path / name

    return writer


# --- init ---


def struck(file: Path) -> dict[tuple[str, int], tuple[int, str]]:
    """Return what is struck of each variant and context: from which concurrency up, and why."""
    experiment = read_experiment(file)
    return {(one.variant, one.context): (one.from_concurrency, one.reason) for one in experiment.struck}


# Worked by hand: 15 GiB of weights, a reserve of 20 %, 128 KiB a token, so 0.25, 1, 4 and 16 GiB a sequence.
# A 24 GB card keeps ECC inline: 22.5 GiB. B offloads 2 GiB, a tenth of the weights. C and D: see the comments.
REASONS: dict[str, dict[tuple[str, int], tuple[int, str]]] = {
    "l4-24": {  # 22.5 - 15 - 4.5 = 3 GiB for KV
        ("A", 2048): (16, "16 × 2,048 tokens are 4.0 GiB of KV on each GPU, which has 3.0 GiB for it"),
        ("A", 8192): (4, "4 × 8,192 tokens are 4.0 GiB of KV on each GPU, which has 3.0 GiB for it"),
        ("A", 32768): (1, "one sequence of 32,768 tokens is 4.0 GiB of KV on each GPU, which has 3.0 GiB for it"),
        ("A", 131072): (1, "one sequence of 131,072 tokens is 16.0 GiB of KV on each GPU, which has 3.0 GiB for it"),
        ("B", 32768): (2, "2 × 32,768 tokens are 8.0 GiB of KV on each GPU, which has 5.0 GiB for it"),
        ("C", 32768): (1, "one sequence of 32,768 tokens is 4.0 GiB of KV on each GPU, which has 3.0 GiB for it"),
        ("D", 131072): (1, "one sequence of 131,072 tokens is 16.0 GiB of KV on each GPU, which has 3.0 GiB for it"),
    },
    "l40s-48": {  # 45 - 15 - 9 = 21 GiB for KV
        ("A", 8192): (32, "32 × 8,192 tokens are 32.0 GiB of KV on each GPU, which has 21.0 GiB for it"),
        ("A", 32768): (8, "8 × 32,768 tokens are 32.0 GiB of KV on each GPU, which has 21.0 GiB for it"),
        ("A", 131072): (2, "2 × 131,072 tokens are 32.0 GiB of KV on each GPU, which has 21.0 GiB for it"),
        ("B", 131072): (2, "2 × 131,072 tokens are 32.0 GiB of KV on each GPU, which has 23.0 GiB for it"),
        # C holds 27 of 32 sequences of 32k beyond the 5 that fit: 27 × 4 GiB; of 128k one fits, 7 × 16 do not
        ("C", 131072): (8, "the other 7 are 112.0 GiB, more than the 108.0 GiB pool in RAM"),
    },
    "h100-80": {  # 80 - 15 - 16 = 49 GiB for KV
        ("A", 32768): (16, "16 × 32,768 tokens are 64.0 GiB of KV on each GPU, which has 49.0 GiB for it"),
        ("A", 131072): (4, "4 × 131,072 tokens are 64.0 GiB of KV on each GPU, which has 49.0 GiB for it"),
        ("B", 131072): (4, "4 × 131,072 tokens are 64.0 GiB of KV on each GPU, which has 51.0 GiB for it"),
        ("C", 131072): (16, "the other 13 are 208.0 GiB, more than the 80.0 GiB pool in RAM"),
    },
}
NOT_STRUCK = {
    "l4-24": [("C", 2048), ("C", 8192), ("D", 8192)],
    "l40s-48": [("A", 2048), ("C", 2048), ("C", 8192), ("C", 32768), ("D", 131072)],
    "h100-80": [("A", 2048), ("A", 8192), ("B", 8192), ("C", 32768)],
}


@pytest.mark.parametrize("gpu", REASONS)
def test_cells_that_a_gpu_cannot_hold_are_struck_with_the_figures(init: Init, gpu: str) -> None:
    found = struck(init("--gpu", gpu, "--nvme-dir", "/mnt/kv"))
    for place, (many, reason) in REASONS[gpu].items():
        assert found[place][0] == many, place
        assert reason in found[place][1], place
    assert not set(NOT_STRUCK[gpu]) & set(found)


def test_weights_that_do_not_fit_strike_a_and_b_offloads_the_shortfall(init: Init) -> None:
    """15 GiB of weights and 3.2 of reserve in 16 GiB: 2.2 short, with a quarter GiB for one sequence 3 are moved."""
    variants = {v.name: v for v in read_experiment(init("--gpu-memory-gib", "16")).variants}
    assert variants["A"].struck == "weights and reserve take 18.2 GiB of each GPU's 16.0 GiB: no room for KV"
    assert variants["C"].struck == variants["A"].struck
    assert (variants["B"].struck, variants["B"].args) == ("", ("--cpu-offload-gb", "3"))


def test_what_the_host_cannot_pin_is_struck(init: Init) -> None:
    file = init("--demo", "--tp", "8", "--kv-offload-gib", "4000", "--cpu-offload-gib", "400")
    variants = {v.name: v for v in read_experiment(file).variants}
    assert variants["A"].struck == ""
    assert variants["B"].struck.startswith("400.0 GiB cannot be pinned here: at most ")
    assert variants["C"].struck.startswith("4000.0 GiB cannot be pinned here: at most ")


def test_an_old_engine_has_neither_pool_nor_tier(init: Init) -> None:
    told = read_experiment(init("--gpu", "h100-80", "--engine-version", "0.10.0", "--nvme-dir", "/mnt/kv"))
    variants = {v.name: v for v in told.variants}
    assert "has no --kv-offloading-size" in variants["C"].struck
    assert variants["D"].struck == "vLLM 0.10.0 has no tier of files (0.23 has; or --lmcache)"


def test_d_comes_with_its_written_contract(init: Init) -> None:
    for options in ((), ("--lmcache",)):
        file = init("--gpu", "h100-80", "--nvme-dir", "/mnt/kv", *options, "--force")
        (tier,) = (v for v in read_experiment(file).variants if v.name == "D")
        assert tier.contract is not None
        assert all(getattr(tier.contract, name) for name in tier.contract.__struct_fields__)
    assert tier.environment["LMCACHE_LOCAL_DISK"] == "file:///mnt/kv/"


def test_the_file_is_as_its_schema_says(init: Init) -> None:
    text = init("--gpu", "l40s-48", "--kv-dtypes", "auto,fp8", "--rates", "0.5,2").read_text(encoding="utf-8")
    schema = json.loads((FOLDER / "matrix-experiment.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(tomllib.loads(text), schema)
    assert text.count("\n# ") > 8  # it explains itself


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("concurrency = [1", "concurency = [1", "no such key: grid.concurency (nearest: concurrency)"),
        ("ttft_p99_ms = 500.0", "ttft_p90_ms = 500.0", "no such key: slo.ttft_p90_ms (nearest: ttft_p99_ms)"),
        ("[[variants]]", "[[variant]]", "no such key: variant (nearest: variants)"),
        ("output_tokens = 256", "output_tokens = 4096", "a context of 2048 tokens leaves none for a prompt"),
        ("repeats = 3", 'repeats = "3"', "Expected `int`"),
        ("repeats = 3", "repeats = 3\nrepeats = 4", ""),
        ('name = "B"', 'name = "A"', "variants: one is named twice"),
        ("contexts = [2048", "contexts = [8192", "grid.contexts: one is named twice"),
        ('name = "B"', 'name = "a"', "variants: one is named twice"),  # a scheduler takes small letters alone
        ('name = "B"', 'name = "B\\n"', "Expected `str` matching"),
        ("request_rates = []", "request_rates = [1.0, 1.0000001]", "grid.request_rates: one is named twice"),
        ("0.05\nconcurrency = [32]", "0.05\nconcurrency = [32, 32]", "mix.concurrency: one is named twice"),
        ("0.05\nconcurrency = [32]", "0.05\nconcurrency = [1]", "mix.concurrency: 1 at once is no mix"),
        ("4\nconcurrency = [32]", "4\nconcurrency = [8, 8]", "prefix.concurrency: one is named twice"),
        ('"8000"]', '"8000", "a\\u0000b"]', "has a NUL in it"),
        ("timeout_s = 3600.0", 'timeout_s = 3600.0\nenvironment = {"A=B" = "x"}', "'A=B' is no variable's name"),
    ],
)
def test_a_misspelt_file_is_refused_where_it_is_wrong(init: Init, before: str, after: str, said: str) -> None:
    file = init("--gpu", "h100-80")
    text = file.read_text(encoding="utf-8")
    assert before in text
    file.write_text(text.replace(before, after, 1), encoding="utf-8")
    ran = hostdoctor("matrix", "run", str(file), "--dry-run")
    assert (ran.status, ran.out, ran.err.count("\n")) == (64, "", 1)
    assert said in ran.err


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (("--gpu", "h100-80", "--demo"), 64, "each name the GPU"),
        (("--gpu", "nosuch"), 64, "not listed"),
        (("--gpu", "h100-80", "--kv-dtypes", "fp3"), 64, "fp3"),
        (("--gpu", "h100-80", "--rates", "0"), 64, "--rates"),
        (("--gpu", "h100-80", "--reserve-percent", "nan"), 64, "--reserve-percent"),
        (("--gpu", "h100-80", "--output-tokens", "2048"), 64, "--output-tokens 2048"),
        (("--demo", "--tp", "9"), 64, "more ranks than the 8 GPUs"),
        (("--demo", "--nvme-dir", "relative"), 64, "--nvme-dir"),
    ],
)
def test_mistakes_of_usage(tmp_path: Path, options: tuple[str, ...], status: int, said: str) -> None:
    config = write_config(tmp_path, LLAMA_8B)
    ran = hostdoctor("matrix", "init", "--model", "m", "--config", config, *SLO, *options)
    assert (ran.status, ran.out, ran.err.count("\n")) == (status, "", 1)
    assert said in ran.err


# --- run, without running ---


def test_a_dry_run_prints_every_command_of_every_cell(init: Init) -> None:
    file = init("--gpu", "h100-80", "--repeats", "2")
    ran = hostdoctor("matrix", "run", str(file), "--dry-run")
    assert ran.status == 0, ran.err
    lines = ran.out.splitlines()
    servers = [line for line in lines if line.startswith("vllm serve")]
    assert len(servers) == 3 * 2  # D has no folder
    assert sum("--cpu-offload-gb 2" in line for line in servers) == 2
    benches = [line for line in lines if "bench serve" in line and not line.endswith("&")]
    assert f"{len(benches)} runs of 3 series" in lines[0]
    of_one_server = [line for line in benches if "hostdoctor_variant=A " in line]
    assert len({line.split(" --seed ")[1].split()[0] for line in of_one_server}) == len(of_one_server)
    single = next(line for line in benches if "--max-concurrency 1 " in line and "hostdoctor_context=8192" in line)
    assert "--random-input-len 7872 --random-output-len 256" in single
    assert "--ignore-eos --temperature 0" in single
    assert "--save-result --save-detailed" in single
    assert sum(line.startswith("# struck: A: 131,072 tokens") for line in lines) == 4


def test_a_mix_asks_for_no_more_long_prompts_than_outlast_its_short_ones(init: Init) -> None:
    """400 requests and 8 warm-ups in 30 slots are 14 rounds; 2 × (2 × 14 + 32) long ones: each is made beforehand."""
    ran = hostdoctor("matrix", "run", str(init("--gpu", "h100-80", "--repeats", "1")), "--dry-run")
    long = next(line for line in ran.out.splitlines() if line.endswith(" &"))
    assert "--num-prompts 120 --max-concurrency 2 " in long


def test_a_tier_s_folder_is_to_be_empty_before(init: Init) -> None:
    for name, options, wanted in (("no.toml", (), 0), ("d.toml", ("--nvme-dir", "/mnt/kv"), 1)):
        ran = hostdoctor("matrix", "run", str(init("--gpu", "h100-80", *options, name=name)), "--dry-run")
        assert (ran.out + ran.err).count("D: files of its tier outlive a server") == wanted


def test_one_request_at_once_is_no_mix(init: Init) -> None:
    assert read_experiment(init("--gpu", "h100-80", "--max-concurrency", "1")).mix is None


def test_emitted_jobs_are_what_their_language_takes(init: Init, tmp_path: Path) -> None:
    file = init("--gpu", "h100-80", "--repeats", "1")
    for form in ("shell", "slurm", "k8s"):
        ran = hostdoctor("matrix", "run", str(file), "--emit", form, "--out", str(tmp_path / form))
        assert ran.status == 0, ran.err
        assert len(ran.out.splitlines()) == 3
    scripts = [str(path) for form in ("shell", "slurm") for path in (tmp_path / form).glob("*.sh")]
    assert len(scripts) == 6
    if shutil.which("shellcheck"):
        done = subprocess.run(("shellcheck", *scripts), capture_output=True, text=True, check=False)
        assert done.stdout == ""
    for path in (tmp_path / "k8s").glob("*.yaml"):
        job = yaml.safe_load(path.read_text(encoding="utf-8"))
        kubernetes_validate.validate(job, "1.33", strict=True)
        script = job["spec"]["template"]["spec"]["containers"][0]["command"][2].replace("$$", "$")
        assert script.count("bench serve") > 10
        (tmp_path / "script.sh").write_text(script, encoding="utf-8")
        assert subprocess.run(("sh", "-n", str(tmp_path / "script.sh")), check=False).returncode == 0


# --- boundary, from files made elsewhere ---


def plain(context: int, many: int, ttft: float, itl: float, **more: Any) -> dict[str, Any]:
    """Return what ``vllm bench serve --save-result`` leaves without ``--save-detailed``."""
    return {
        "date": f"2026030{len(str(more))}", "backend": "openai", "model_id": "org/m-8b", "tokenizer_id": "org/m-8b",
        "num_prompts": 400, "request_rate": "inf", "max_concurrency": many, "duration": ttft, "completed": 400,
        "failed": 0, "total_input_tokens": 400 * (context - 256), "total_output_tokens": 400 * 256,
        "median_ttft_ms": ttft / 2, "p99_ttft_ms": ttft, "median_itl_ms": itl / 2, "p99_itl_ms": itl,
    } | more  # fmt: skip


def wrote(folder: Path, **documents: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, document in documents.items():
        (folder / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


def boundary(*words: str, slo: tuple[str, ...] = SLO) -> Any:
    ran = hostdoctor("matrix", "boundary", *words, *slo, "--format", "json")
    assert ran.status == 0, ran.err
    document = json.loads(ran.out)
    jsonschema.validate(document, json.loads((FOLDER / "matrix.schema.json").read_text(encoding="utf-8")))
    return document


def grid(name: str, limit_at: int, **more: Any) -> dict[str, dict[str, Any]]:
    """Return plain results of a grid of which context × concurrency up to ``limit_at`` hold."""
    return {
        f"{name}-{context}-{many}": plain(context, many, 400.0 if context * many <= limit_at else 900.0, 20.0, **more)
        for context in (2048, 8192)
        for many in (1, 4, 16)
    }


def test_plain_results_with_metadata_tell_a_boundary_without_interval(tmp_path: Path) -> None:
    wrote(tmp_path / "r", **grid("a", 32768, variant="A"), **grid("c", 8192, variant="C"))
    document = boundary(str(tmp_path / "r"))
    rows = {
        one["series"]["variant"]: [(r["holds_to"], r["breaks_at"]) for r in one["rows"]] for one in document["series"]
    }
    assert rows == {"A": [(16, None), (4, 16)], "C": [(4, 16), (1, 4)]}
    assert {one["basis"] for one in document["series"]} == {"one-run"}
    text = hostdoctor("matrix", "boundary", str(tmp_path / "r"), *SLO).out
    assert "2,048: holds to 16; 8,192: holds to 4, breaks at 16" in text
    assert "no interval: one run of a cell" in text
    assert "Serve interactively: 2,048 tokens up to 16 at once, 8,192 tokens up to 4 at once." in text
    order = [text.index(words) for words in ("1. Trim", "2. Share", "3. Keep KV", "4. Cap", "5. Only then")]
    assert order == sorted(order)


def test_folders_name_variants_where_files_do_not(tmp_path: Path) -> None:
    wrote(tmp_path / "r" / "in-vram", **grid("x", 32768))
    wrote(tmp_path / "r" / "SERVE--cpu_offload_gb=12-BENCH--m=4", **{"run=0": plain(2048, 4, 450.0, 20.0)})
    names = [one["series"]["variant"] for one in boundary(str(tmp_path / "r"))["series"]]
    assert names == ["-cpu_offload_gb=12", "in-vram"]


def test_repeats_without_samples_that_disagree_are_neither(tmp_path: Path) -> None:
    runs = {f"run{i}": plain(2048, 4, ttft, 20.0, variant="A") for i, ttft in enumerate((480.0, 520.0, 490.0))}
    document = boundary(str(wrote(tmp_path / "r", **runs)))
    (cell,) = document["cells"]
    assert (cell["judged"]["state"], cell["judged"]["repeats"]) == ("neither", 3)
    assert cell["judged"]["reason"] == "repeats disagree: p99 TTFT 480, 520, 490 ms, limit 500"
    assert document["series"][0]["state"] == "not-told"


def test_samples_give_an_interval(tmp_path: Path) -> None:
    source = random.Random(1)
    runs = {f"run{i}": serving_result(source, 1.0, requests=300) | {"variant": "A"} for i in range(3)}
    (cell,) = boundary(str(wrote(tmp_path / "r", **runs)))["cells"]
    assert (cell["cell"]["context"], cell["cell"]["concurrency"]) == (256 + 16, 8)
    for tail in cell["judged"]["tails"]:
        assert tail["basis"] == "samples"
        assert tail["low_ms"] < tail["value_ms"] < tail["high_ms"] < tail["limit_ms"]
    assert cell["judged"]["state"] == "holds"


def without_failures(document: Any) -> Any:
    """Return a client's document as if no request had failed."""
    text = json.dumps(document).replace('"errored": 5', '"errored": 0')
    return json.loads(text.replace('{"unit": "requests", "avg": 3.0}', '{"unit": "requests", "avg": 0.0}'))


# Every shape: 39 ms to the first token, 14 ms between two, at p99; prompts of 100 tokens.
SHAPES: dict[str, Any] = {
    "vllm": plain(356, 8, 39.0, 14.0),
    "sglang": SGLANG,
    "guidellm": without_failures(GUIDELLM),
    "aiperf": without_failures(aiperf("ms", 1.0)),
    "genai-perf": without_failures({"records": aiperf("ns", 1e6), "input_config": aiperf("ns", 1e6)["input_config"]}),
}


@pytest.mark.parametrize("name", SHAPES)
def test_every_client_s_file_is_read(tmp_path: Path, name: str) -> None:
    file = tmp_path / "result.json"
    file.write_text(json.dumps(SHAPES[name]), encoding="utf-8")
    document = boundary(str(file))
    (cell,) = document["cells"]
    tails = {tail["metric"]: tail["value_ms"] for tail in cell["judged"]["tails"]}
    assert tails == {"ttft": pytest.approx(39.0), "itl": pytest.approx(14.0)}
    assert cell["cell"]["concurrency"] in (8, 16, 64)


def test_appended_lines_are_several_cells(tmp_path: Path) -> None:
    lines = [json.dumps(document) for document in grid("a", 32768, variant="A").values()]
    (tmp_path / "all.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert len(boundary(str(tmp_path / "all.jsonl"))["cells"]) == 6


def test_the_document_is_kept_and_the_report_shows_it(tmp_path: Path) -> None:
    folder, kept = wrote(tmp_path / "r", **grid("a", 32768, variant="A")), tmp_path / "matrix.json"
    assert hostdoctor("matrix", "boundary", str(folder), *SLO, "-o", str(kept)).status == 0
    assert hostdoctor("matrix", "boundary", str(folder), *SLO, "-o", str(kept)).status == 64  # it is there already
    ran = hostdoctor("report", "--demo", "--measured", str(kept), "-o", str(tmp_path / "page.html"))
    assert ran.status == 0, ran.err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Offload variants × context × concurrency (matrix.json)" in page
    assert "A: which cells hold the SLO" in page
    told = hostdoctor("report", "--demo", "--measured", str(kept), "--format", "markdown").out
    assert "### Offload matrix\n\n#### Offload variants" in told


def test_without_a_limit_and_a_rate_all_requests_are_there_at_once(tmp_path: Path) -> None:
    (cell,) = boundary(str(wrote(tmp_path / "r", all=plain(2048, 4, 450.0, 20.0) | {"max_concurrency": None})))["cells"]
    assert (cell["cell"]["context"], cell["cell"]["concurrency"]) == (2048, 400)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"model_id": "org/m-70b"}, "model org/m-8b (a-2048-1.json) but org/m-70b (z.json)"),
        ({"tokenizer_id": "org/other"}, "tokenizer org/m-8b (a-2048-1.json) but org/other (z.json)"),
        ({"total_output_tokens": 400 * 512}, "mean output tokens 256 (a-2048-1.json) but 512 (z.json)"),
    ],
)
def test_what_is_not_one_matrix_is_refused_and_named(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    other = plain(2048, 4, 450.0, 20.0, variant="B") | more | {"date": "20270101"}
    folder = str(wrote(tmp_path / "r", **grid("a", 32768, variant="A"), z=other))
    ran = hostdoctor("matrix", "boundary", folder, *SLO)
    assert (ran.status, ran.out) == (3, "")
    assert said in ran.err
    forced = hostdoctor("matrix", "boundary", folder, *SLO, "--force")
    assert forced.status == 0
    assert f"note: not one matrix: {said}" in forced.out


def test_a_limit_or_a_budget_that_is_no_number_is_refused(init: Init, tmp_path: Path) -> None:
    folder = wrote(tmp_path / "in", a=plain(2048, 4, 100.0, 10.0))
    for words in (
        ("boundary", str(folder), "--ttft-p99-ms", "nan"),
        ("run", str(init("--gpu", "h100-80")), "--dry-run", "--budget-minutes", "nan"),
    ):
        ran = hostdoctor("matrix", *words)
        assert (ran.status, ran.out, ran.err.count("\n")) == (64, "", 1)
        assert "not a number of" in ran.err


def test_a_file_s_names_reach_no_terminal_as_they_are(tmp_path: Path) -> None:
    hostile = plain(2048, 4, 100.0, 10.0, hostdoctor_variant="\x1b[31mred\n\nB", hostdoctor_kv_cache_dtype="\x9bfp8")
    folder = wrote(tmp_path / "in", a=hostile)
    ran = hostdoctor("matrix", "boundary", str(folder), *SLO, "--all")
    assert ran.status == 0, ran.err
    assert not set(ran.out) & {"\x1b", "\x9b"}
    assert "[31mred B fp8: " in ran.out


def test_no_request_at_once_and_no_token_are_no_cell(tmp_path: Path) -> None:
    folder = wrote(tmp_path / "in", a=plain(2048, 4, 100.0, 10.0, hostdoctor_concurrency="0", hostdoctor_context="0"))
    (cell,) = boundary(str(folder))["cells"]
    assert (cell["cell"]["context"], cell["cell"]["concurrency"]) == (2048, 4)


def test_what_cannot_be_placed_is_left_out_and_said(tmp_path: Path) -> None:
    lost = plain(2048, 4, 450.0, 20.0, request_rate=2.0)
    del lost["max_concurrency"]
    folder = wrote(tmp_path / "r", **grid("a", 32768, variant="A"), lost=lost)
    (folder / "copy.json").write_bytes((folder / "a-2048-1.json").read_bytes())
    (folder / "notes.json").write_text("{}", encoding="utf-8")
    document = boundary(str(folder))
    assert len(document["cells"]) == 6
    told = "\n".join(document["warnings"])
    assert "copy.json" in told or "a-2048-1.json: the same run" in told
    assert "lost.json: does not tell how many requests at once" in told
    assert "notes.json: no benchmark result with a latency" in told


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("/nowhere", *SLO), 64, "no such file"),
        (("{empty}", *SLO), 3, "no result that says which cell it is of"),
        (("{empty}",), 64, "say the SLO"),
    ],
)
def test_boundary_s_mistakes_of_usage(tmp_path: Path, words: tuple[str, ...], status: int, said: str) -> None:
    ran = hostdoctor("matrix", "boundary", *(word.format(empty=tmp_path) for word in words))
    assert (ran.status, ran.out, ran.err.count("\n")) == (status, "", 1)
    assert said in ran.err
