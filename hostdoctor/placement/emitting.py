"""A launch as text: a script, a command line, a systemd drop-in, a container, a pod, a Slurm job.

The templates are templates/launch/*.j2. A value reaches the text only through a quoting function of the form's language
(:mod:`hostdoctor.placement.quoting`): anything else is refused while rendering.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from hostdoctor.errors import PlacementError
from hostdoctor.facts import Fact
from hostdoctor.placement import quoting
from hostdoctor.placement.model import Launch, Reason

if TYPE_CHECKING:
    from jinja2 import Environment

Form = Literal["shell", "args", "systemd", "docker", "compose", "k8s", "slurm"]
FORMS: tuple[Form, ...] = get_args(Form)
SCRIPTS: frozenset[Form] = frozenset({"shell", "docker", "slurm"})

_TEMPLATES: dict[Form, str] = {
    "shell": "shell.sh.j2",
    "args": "args.txt.j2",
    "systemd": "systemd.conf.j2",
    "docker": "docker.sh.j2",
    "compose": "compose.yaml.j2",
    "k8s": "k8s.yaml.j2",
    "slurm": "slurm.sh.j2",
}
_WORDS: dict[Form, Callable[[str], quoting.Quoted]] = {
    "shell": quoting.sh_word,
    "args": quoting.sh_word,
    "systemd": quoting.systemd_word,
    "docker": quoting.docker_word,
    "compose": quoting.dollar_text,
    "k8s": quoting.yaml_text,
    "slurm": quoting.sh_word,
}


class Made(Fact, frozen=True, kw_only=True):
    """Who wrote a wrapper: the host it is for (None when it has no name), hostdoctor's version, the time (ISO 8601)."""

    host: str | None
    version: str
    time: str


class Container(Fact, frozen=True, kw_only=True):
    """What a container needs that no host tells.

    ``devices`` are the GPUs as the container runtime names them (UUIDs, or indices as nvidia-smi counts), in visible
    order; without them they are taken from the selection.
    """

    image: str | None = None
    devices: tuple[str, ...] = ()
    memory_gib: int | None = None
    shm_gib: int | None = None


def render(launch: Launch, form: Form, *, made: Made, container: Container | None = None) -> str:
    """Return a launch in one form; the text may hold surrogate escapes (bytes that are not UTF-8), as ``argv`` may.

    Raises PlacementError where the form cannot hold the launch or one of its words.
    """
    from hostdoctor.placement.forms import CONTEXTS

    _refuse_odd_commands(launch)
    context = CONTEXTS[form](launch, container or Container())
    head = [_made(launch, made), *_head(launch)]
    template = environment(form).get_template(_TEMPLATES[form])
    text = template.render(head=head, host=made.host or "this host", **context)
    return text.rstrip("\n") + "\n"


def write(path: Path, text: str, *, executable: bool, force: bool = False) -> None:
    """Write a wrapper, whole or not at all; executable for whom the umask lets.

    Raises UsageError when the file exists and ``force`` is not given (a link or device never is replaced), OutputError
    when it cannot be written.
    """
    from hostdoctor.sources.whole_file import permitted, whole_file

    with whole_file(path, force=force, mode=permitted(0o777 if executable else 0o666)) as stream:
        stream.write(text.encode("utf-8", "surrogateescape"))


def environment(form: Form, folder: str = "launch") -> "Environment":
    """Return the Jinja environment of a form: its filters quote for its language, and nothing unquoted is printed.

    ``folder`` is that of the templates, below templates/.
    """
    import jinja2

    import hostdoctor

    folders = [Path(root, "templates", folder) for root in hostdoctor.__path__]
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701  HTML's rules are of no use here: _only_quoted refuses what no filter quoted
        finalize=_only_quoted,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    word = _WORDS[form]
    made.filters.update(
        word=word,
        words=lambda words: quoting.Quoted("".join(f" {word(each)}" for each in words)),
        line=quoting.sh_line,
        dollars=quoting.dollar_text,
        executable=quoting.systemd_executable,
        name=quoting.variable_name,
        comment=quoting.comment,
        plain=_plain,
    )
    made.globals["assignment"] = quoting.systemd_assignment
    return made


def _only_quoted(value: object) -> object:
    """Return what a template prints. Raises TypeError for a value that came through no quoting function."""
    import jinja2

    if isinstance(value, quoting.Quoted):
        return value
    if isinstance(value, jinja2.Undefined):
        return str(value)  # StrictUndefined says which name it is
    raise TypeError(f"a launch template prints {value!r} unquoted")


def _plain(text: str) -> quoting.Quoted:
    """Let pass what needs no quoting in any of the languages: lists of numbers and the project's own words."""
    if not all(character.isascii() and (character.isalnum() or character in ",-.& ") for character in text):
        raise PlacementError(f"{text!r}: not a plain word")
    return quoting.Quoted(text)


def _refuse_odd_commands(launch: Launch) -> None:
    if not launch.argv or not launch.argv[0]:
        raise PlacementError("no command to start")
    for name in launch.environment:
        quoting.variable_name(name)


def _made(launch: Launch, made: Made) -> str:
    where = made.host or "a host without a name"
    engine = launch.engine + (f" {launch.engine_version}" if launch.engine_version else "")
    return f"Starts a command ({engine}) near its GPUs. Made by hostdoctor {made.version} on {where} at {made.time}."


def _head(launch: Launch) -> list[str]:
    """Return the lines that say what is bound and why."""
    binding = launch.binding
    lines = [f"GPUs: {', '.join(binding.selection.labels)} ({binding.selection.origin})"]
    lines += _where(launch)
    if launch.added:
        lines.append(f"Added to the command: {' '.join(launch.added)}")
    lines += ["Why:", *(f"  {_reason(reason)}" for reason in binding.reasons)] if binding.reasons else []
    lines += [f"Nearest NICs of {rank.gpu}: {', '.join(rank.nics)}" for rank in binding.ranks if rank.nics]
    lines += [f"Note: {note}" for note in launch.notes]
    return lines + [f"WARNING: {warning}" for warning in (*binding.warnings, *launch.warnings)]


def _where(launch: Launch) -> list[str]:
    binding = launch.binding
    lines = [
        f"CPUs {binding.cpus or 'not limited'} of NUMA {_nodes(binding.nodes)}; "
        f"memory of NUMA {_nodes(binding.mems)}, policy {binding.policy}"
    ]
    if not binding.limits_cpus:
        lines.append("The CPUs are not limited: they would be fewer physical cores than the engine needs.")
    siblings = {None: "not known", "": "none"}.get(binding.smt_siblings, binding.smt_siblings)
    cores = "not known" if binding.physical_cores is None else str(binding.physical_cores)
    lines.append(f"Physical cores: {cores}; SMT siblings among the CPUs: {siblings}")
    if binding.arm == "far":
        lines.append("This is the FAR arm, for comparison: the nodes that are not the GPUs' own.")
    if binding.assumed:
        lines.append("The NUMA node is ASSUMED (--assume-node): this host does not tell it.")
    return lines


def _nodes(ids: Sequence[int]) -> str:
    return f"node{'' if len(ids) == 1 else 's'} {','.join(map(str, ids)) or 'none'}"


def _reason(reason: Reason) -> str:
    evidence = ": ".join(part for part in (reason.source, reason.value) if part)
    return f"{reason.text} [{evidence}]" if evidence else reason.text
