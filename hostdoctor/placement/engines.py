"""Which inference engine a command line starts, and what its words say of GPUs, memory and binding."""

import json
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple, cast, get_args

from hostdoctor.errors import UsageError
from hostdoctor.facts import Fact
from hostdoctor.placement.model import EngineName
from hostdoctor.placement.prefixes import Prefix, is_assignment, read_prefix
from hostdoctor.placement.words import Options, basename, decimal, read_options, skip_options, whole

ENGINE_NAMES: tuple[EngineName, ...] = get_args(EngineName)
TITLES: dict[EngineName, str] = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "tensorrt-llm": "TensorRT-LLM",
    "llama.cpp": "llama.cpp",
    "torchrun": "torchrun",
    "generic": "the command",
}
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "ash", "fish")
MPI = ("mpirun", "mpiexec", "orterun", "prterun")
_RUNNERS = (
    *("uv", "uvx", "poetry", "pdm", "hatch", "rye", "pixi", "pipenv", "conda", "mamba", "micromamba"),
    *(*MPI, "trtllm-llmapi-launch"),
    *("nsys", "ncu", "tini", "dumb-init", "catchsegv", "strace", "apptainer", "singularity"),
    *("su", "runuser", "gosu", "su-exec", "setpriv", "prlimit", "flock", "chroot", "unshare", "nsenter", "setarch"),
    *("cgexec", "unbuffer", "script", "xvfb-run", "systemd-cat", "systemd-inhibit"),
    *("gdb", "cuda-gdb", "perf", "py-spy", "valgrind", "compute-sanitizer"),
)
RANK_STARTERS = (*MPI, "accelerate", "deepspeed", "horovodrun")
_STRING_TAKERS = ("su", "runuser", "script", "flock")  # with -c or --command
_DEBUGGERS = ("pdb", "debugpy", "cProfile", "profile", "trace", "coverage", "memray", "viztracer")
_ELSEWHERE = {
    **dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose", "podman-compose", "ctr", "crictl"), "docker"),
    **dict.fromkeys(("systemd-run", "systemctl"), "systemd"),
    **dict.fromkeys(("srun", "sbatch", "salloc"), "slurm"),
    **dict.fromkeys(("kubectl", "oc", "helm"), "k8s"),
    "tmux": "shell",
    **dict.fromkeys(("ssh", "pdsh", "clush", "mosh"), None),
}
_LLAMA = ("llama-server", "llama-cli", "llama-bench", "llama-batched-bench", "llama-perplexity", "llama-mtmd-cli")
_LOCAL_CONNECTORS = ("OffloadingConnector", "SimpleCPUOffloadConnector", "LMCacheMPConnector")
_DISAGGREGATING = ("nixl", "mooncake", "p2pnccl", "moriio", "multiconnector")
_TORCHRUN_FLAGS = ("--standalone", "--no-python", "--module", "-m", "--run-path", "--help", "-h", "--signals-to-handle")


# Beginnings of the options by which an engine is told to use host memory, and those of which the size is read.
_MEMORY_OPTIONS: dict[EngineName, tuple[str, ...]] = {
    "vllm": ("--cpu-off", "--kv-off", "--kv-tr", "--swap", "--offload", "--mm-processor-cache-gb"),
    "sglang": ("--cpu-off", "--offload", "--enable-hier", "--hicache", "--enable-lmcache", "--disaggregation-decode"),
}
_READ_MEMORY_OPTIONS = ("--cpu-offload-gb", "--kv-offloading-size")


class EngineCommand(Fact, frozen=True, kw_only=True):
    """A command line, the engine that it starts, and what the engine's options say; None is what they leave open.

    ``program`` is the position of the engine's own first word, ``options`` where its options begin, ``end`` where more
    may be added. ``hidden`` says why the words that the engine gets cannot be seen (a shell string), ``elsewhere``
    which form to ask for where the command is started by somebody else (``docker run``: ``docker``).
    ``tensor_parallel``, ``pipeline_parallel``, ``data_parallel`` and ``hosts`` are 1 where that is the default.
    """

    argv: tuple[str, ...]
    engine: EngineName
    recognised: bool = False
    prefix: Prefix = Prefix()
    program: int = 0
    options: int = 0
    end: int = 0
    hidden: str | None = None
    elsewhere: str | None = None
    runner: str | None = None
    words: Options = Options(found=())
    config_file: str | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    data_parallel: int | None = None
    api_servers: int | None = None
    hosts: int | None = None
    executor: str | None = None
    cpu_offload_gib_per_gpu: float | None = None
    kv_offload_gib: float | None = None
    disaggregated: bool | None = None
    notes: tuple[str, ...] = ()

    @property
    def strings(self) -> tuple[str, ...]:
        """The words of commands that stand in a string for a shell or for ``env -S``, where they can be told apart."""
        if self.hidden is None:
            return ()
        return tuple(part.strip("\"'();&|") for word in self.argv if " " in word for part in word.split())

    @property
    def memory_told(self) -> bool:
        """Whether the words say all that the engine is told about host memory: no file, no script, nothing unread."""
        if not self.recognised or self.config_file is not None or self.engine not in _MEMORY_OPTIONS:
            return False
        unread = [name for name, _ in self.words.found if name.startswith(_MEMORY_OPTIONS[self.engine])]
        return not [name for name in unread if name not in _READ_MEMORY_OPTIONS or self._unreadable(name)]

    def _unreadable(self, name: str) -> bool:
        return self.engine != "vllm" or decimal(self.words.value(name)) is None

    @property
    def gpus_used(self) -> int | None:
        """How many GPUs of this host the engine uses; None when not known."""
        sizes = (self.tensor_parallel, self.pipeline_parallel, self.data_parallel)
        if self.hosts != 1 or None in sizes:
            return None
        tensor, pipeline, data = cast("tuple[int, int, int]", sizes)
        if self.engine == "sglang" and self.words.has("--enable-dp-attention"):
            return tensor * pipeline  # the data-parallel ranks are among the tensor-parallel ones
        return tensor * pipeline * data


class _Found(NamedTuple):
    """An engine's program among the words: where it stands and where its options begin."""

    engine: EngineName
    program: int
    options: int


class _Names(NamedTuple):
    """What an engine calls its options."""

    tensor: tuple[str, ...]
    pipeline: tuple[str, ...]
    data: tuple[str, ...]
    hosts: tuple[str, ...] = ("--nnodes",)


_OPTION_NAMES: dict[EngineName, _Names] = {
    "vllm": _Names(
        ("--tensor-parallel-size", "-tp"),
        ("--pipeline-parallel-size", "-pp"),
        ("--data-parallel-size", "-dp"),
        ("--nnodes", "-n"),
    ),
    "sglang": _Names(
        ("--tensor-parallel-size", "--tp-size", "--tp"),
        ("--pipeline-parallel-size", "--pp-size", "--pp"),
        ("--data-parallel-size", "--dp-size", "--dp"),
    ),
    "tensorrt-llm": _Names(
        ("--tp-size", "--tensor-parallel-size"), ("--pp-size", "--pipeline-parallel-size"), ("--dp-size",)
    ),
}


def recognise(argv: Sequence[str], engine: str | None = None) -> EngineCommand:
    """Return what a command line starts; ``engine`` overrides what its words say.

    Raises UsageError for an unknown engine and for a command line without a command.
    """
    asked = next((name for name in ENGINE_NAMES if name == engine), None)
    if engine is not None and asked is None:
        raise UsageError(f"unknown engine {engine!r}: one of {', '.join(ENGINE_NAMES)}")
    words = tuple(argv)
    prefix = read_prefix(words)
    if not prefix.split and not any(words[prefix.program : prefix.program + 1]):  # none, or an empty word
        raise UsageError("no command to start: write it after --")
    found = None if prefix.split else _find(words, prefix)
    if found is None or (engine is not None and engine != found.engine):
        return _generic(words, prefix, asked)
    return _command(words, prefix, found)


def rank_starter(command: EngineCommand) -> str | None:
    """Return the program among a command's first words that starts its ranks itself; None where there is none."""
    at = command.prefix.program
    words = command.argv[at:] if command.runner else command.argv[at : at + 1]
    names = map(basename, takewhile(lambda word: not _is_python(basename(word)), words))
    return next((name for name in names if name in RANK_STARTERS), None)


def _find(words: tuple[str, ...], prefix: Prefix) -> _Found | None:
    at = prefix.program
    name = basename(words[at])
    if name not in _RUNNERS:
        return _engine_at(words, at)
    inner = _first_engine(words, at + 1)
    if name == "trtllm-llmapi-launch" and (inner is None or inner.engine == "generic"):
        return _Found("tensorrt-llm", at, at + 1)
    return inner


def _first_engine(words: tuple[str, ...], start: int) -> _Found | None:
    for i in range(start, len(words)):
        found = _engine_at(words, i)
        if found is not None or _is_python(basename(words[i])) or basename(words[i]) in _SHELLS:
            return found  # what follows a script or a string is its own
    return None


def _engine_at(words: tuple[str, ...], at: int) -> _Found | None:
    """Return the engine whose program stands at a position, or None."""
    name, rest = basename(words[at]), words[at + 1 : at + 3]
    if _is_python(name):
        return _python(words, at)
    if name in _LLAMA:
        return _Found("llama.cpp", at, at + 1)
    if name == "torchrun":
        return _Found("torchrun", at, at + 1)
    if name == "trtllm-serve":
        return _Found("tensorrt-llm", at, at + 1)
    return _subcommand(name, rest, at)


def _subcommand(name: str, rest: tuple[str, ...], at: int) -> _Found | None:
    """Recognise ``vllm serve`` and ``sglang serve``; other subcommands (clients, tools) are no engine."""
    if name == "vllm" and rest[:1] in (("serve",), ("run-batch",)):
        return _Found("vllm", at, at + 2)
    if name == "vllm" and rest in (("bench", "latency"), ("bench", "throughput")):
        return _Found("vllm", at, at + 3)
    if name == "sglang" and rest[:1] == ("serve",):
        return _Found("sglang", at, at + 2)
    return None


def _is_python(name: str) -> bool:
    return name.startswith("python") and all(c.isdigit() or c in ".t" for c in name[6:])


def _python(words: tuple[str, ...], at: int) -> _Found | None:
    """Read ``python -um MODULE`` and ``python /path/bin/vllm serve``."""
    i, read = skip_options(words, at + 1, "-m -c -W -X --check-hash-based-pycs", ends="-m -c")
    last, module = read[-1] if read else ("", "")
    if last == "-m":
        found = _module(words, module, i)
        return found and found._replace(program=at)
    if last == "-c" or i >= len(words) or words[i] == "-":
        return None
    script = None if _is_python(basename(words[i])) else _engine_at(words, i)
    return script and script._replace(program=at)


def _module(words: tuple[str, ...], module: str, rest: int) -> _Found | None:
    """Return the engine that ``-m MODULE`` starts, whose own words begin at a position."""
    if module in _DEBUGGERS and "-m" in words[rest:]:
        inner = words.index("-m", rest) + 1
        return _module(words, words[inner], inner + 1) if inner < len(words) else None
    if module in ("torch.distributed.run", "torch.distributed.launch"):
        return _Found("torchrun", rest - 1, rest)
    if module in ("vllm", "vllm.entrypoints.cli.main", "sglang", "sglang.cli.main"):
        return _subcommand(module.partition(".")[0], words[rest : rest + 2], rest - 1)
    engine = _module_engine(module)
    return None if engine is None else _Found(engine, rest - 1, rest)


def _module_engine(module: str) -> EngineName | None:
    if module.startswith("vllm.entrypoints."):
        return "vllm"
    if module in ("sglang.launch_server", "sglang.bench_one_batch", "sglang.bench_offline_throughput"):
        return "sglang"
    return "tensorrt-llm" if module.startswith("tensorrt_llm.commands.") else None


def _generic(words: tuple[str, ...], prefix: Prefix, asked: EngineName | None) -> EngineCommand:
    at = min(prefix.program, len(words) - 1)
    name = basename(words[at])
    hidden, notes = _hidden(words, at, prefix)
    engine = asked or "generic"
    options = read_options(words[at + 1 :])
    command = EngineCommand(
        argv=words,
        engine=engine,
        prefix=prefix,
        program=prefix.program,
        options=at + 1,
        end=len(words),
        hidden=hidden,
        elsewhere=_elsewhere(name),
        runner=name if name in _RUNNERS else None,
        words=options,
        notes=notes,
    )
    return command if engine == "generic" or hidden else _learned(command)


def _hidden(words: tuple[str, ...], at: int, prefix: Prefix) -> tuple[str | None, tuple[str, ...]]:
    """Return why the engine's words cannot be seen, and what to say of it."""
    if basename(words[at]) in _RUNNERS:
        at = next((i for i in range(at + 1, len(words)) if basename(words[i]) in _SHELLS), at)
    name, rest = basename(words[at]), words[at + 1 :]
    if prefix.split:
        return "the command stands in one string (env -S)", ("env -S: the string after it was not looked into",)
    if name in (*_SHELLS, *_STRING_TAKERS) and any(_is_command_flag(word) for word in rest):
        note = f"{name} -c: the string after it was not looked into; --engine names the engine that it starts"
        return f"the command stands in a string for {name}", (note,)
    if name in _SHELLS and rest:
        return f"the command stands in a script for {name}", (f"{name}: the script was not looked into",)
    return None, ()


def _is_command_flag(word: str) -> bool:
    return word.startswith("--command") or (word.startswith("-") and not word.startswith("--") and "c" in word)


def _elsewhere(name: str) -> str | None:
    return (_ELSEWHERE[name] or "shell") if name in _ELSEWHERE else None


def _command(words: tuple[str, ...], prefix: Prefix, found: _Found) -> EngineCommand:
    between = words[prefix.program + 1 : found.program]
    environment = prefix.environment | dict(_pair(word) for word in between if is_assignment(word))
    own = words[found.options :]
    if found.engine == "torchrun":
        own = own[: _script(own)]
    command = EngineCommand(
        argv=words,
        engine=found.engine,
        recognised=True,
        prefix=_with_environment(prefix, environment),
        program=found.program,
        options=found.options,
        end=_end(words, found),
        runner=basename(words[prefix.program]) if found.program > prefix.program else None,
        words=read_options(own),
    )
    return _learned(command)


def _with_environment(prefix: Prefix, environment: dict[str, str]) -> Prefix:
    return Prefix(**{name: getattr(prefix, name) for name in prefix.__struct_fields__} | {"environment": environment})


def _pair(word: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    return name, value


def _end(words: tuple[str, ...], found: _Found) -> int:
    """Return where options may be added: at the end, before a bare ``--``; for torchrun before all others."""
    if found.engine == "torchrun":
        return found.options
    own = words[found.options :]
    return found.options + (own.index("--") if "--" in own else len(own))


def _script(words: tuple[str, ...]) -> int:
    """Return the position of torchrun's script; what follows is the script's."""
    i = 0
    while i < len(words) and words[i].startswith("-"):
        takes_next = "=" not in words[i] and words[i].replace("_", "-") not in _TORCHRUN_FLAGS
        i += 2 if takes_next else 1
    return i


def _learned(command: EngineCommand) -> EngineCommand:
    """Read what the engine's options say."""
    words, engine = command.words, command.engine
    config = words.value("--config", "--config-file", "--extra-llm-api-options")
    names = _OPTION_NAMES.get(engine)
    if names is None:
        hosts = words.value("--nnodes") if engine == "torchrun" else "1"
        return _replaced(command, hosts=1 if hosts is None else whole(hosts))
    data = _size(words, names.data, config)
    return _replaced(
        command,
        config_file=config,
        tensor_parallel=_size(words, names.tensor, config),
        pipeline_parallel=_size(words, names.pipeline, config),
        data_parallel=data,
        hosts=_hosts(words, names, config),
        notes=(*command.notes, *([f"the options in {config} were not read"] if config else [])),
        **(_vllm(words, data) if engine == "vllm" else {}),
        **({"disaggregated": _sglang_disaggregated(words)} if engine == "sglang" else {}),
    )


def _replaced(command: EngineCommand, **changes: object) -> EngineCommand:
    from msgspec.structs import replace

    return replace(command, **changes)


def _size(words: Options, names: tuple[str, ...], config: str | None) -> int | None:
    text = words.value(*names)
    if text is None:
        return None if config or _abbreviated(words, names) else 1
    return whole(text) or None


def _abbreviated(words: Options, names: tuple[str, ...]) -> bool:
    """Tell whether an option may be a shortened form of one of the names, as argparse allows."""
    shortened = [name for name, _ in words.found if name.startswith("--") and name not in names]
    return any(full.startswith(short) for short in shortened for full in names)


def _hosts(words: Options, names: _Names, config: str | None) -> int | None:
    """Return the number of hosts; None where the words only say that there are others."""
    if words.has("--headless", "--data-parallel-size-local", "-dpl", "--data-parallel-start-rank", "-dpr"):
        return None
    return _size(words, names.hosts, config)


def _vllm(words: Options, data: int | None) -> dict[str, object]:
    servers = words.value("--api-server-count", "-asc")
    default = 1 if data == 1 else None  # as many as data-parallel engines in some releases, one in others
    return {
        "api_servers": default if servers is None else whole(servers),
        "executor": words.value("--distributed-executor-backend"),
        "cpu_offload_gib_per_gpu": decimal(words.value("--cpu-offload-gb")),
        "kv_offload_gib": decimal(words.value("--kv-offloading-size")),
        "disaggregated": _vllm_disaggregated(words),
    }


def _vllm_disaggregated(words: Options) -> bool | None:
    """Tell whether prefill and decode run in different engines, from ``--kv-transfer-config``; None when unclear."""
    dotted = words.value("--kv-transfer-config.kv_connector", "--kv-transfer-config.kv-connector")
    text = words.value("--kv-transfer-config")
    if not words.starting("--kv-transfer-config"):
        return False
    role: object = words.value("--kv-transfer-config.kv_role", "--kv-transfer-config.kv-role")
    connector: object = dotted
    if text is not None:
        try:
            transfer = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(transfer, dict):
            return None
        role, connector = transfer.get("kv_role", role), transfer.get("kv_connector", connector)
    return _connector_disaggregates(role, connector)


def _connector_disaggregates(role: object, connector: object) -> bool | None:
    if role in ("kv_producer", "kv_consumer"):
        return True
    if connector in _LOCAL_CONNECTORS:
        return False
    name = connector.lower() if isinstance(connector, str) else ""
    return True if name.startswith(_DISAGGREGATING) else None


def _sglang_disaggregated(words: Options) -> bool | None:
    mode = words.value("--disaggregation-mode")
    if mode in (None, "null"):
        return False
    return True if mode in ("prefill", "decode") else None
