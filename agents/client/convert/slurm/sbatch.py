"""A batch script of Slurm as MPIJobs of kubeflow's v1: one, or one per element of an array. Pure.

The launcher runs the script in its shell. Slurm's variables that the script reads become variables of that shell: in
the environment they would make mpirun look for Slurm.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from agents.client import manifests
from agents.client.convert.common import Converted
from agents.client.convert.slurm.options import SBATCH, Option, parse
from agents.client.convert.slurm.request import Request, request
from agents.client.convert.slurm.steps import quoted, rewritten
from agents.client.errors import ManifestError
from agents.common.text import printable
from agents.job.json_object import Body, mappings, part
from agents.job.model import Implementation

SCRIPT_MAX = 256 << 10  # bytes: the script is in the pod's template
_ARRAY_MAX = 16 << 20  # characters of the scripts of all jobs of an array
_SHELLS = frozenset({"bash", "sh", "dash", "ksh", "zsh"})
_LOGIN = ("-l", "--login")  # would run /etc/profile, which resets PATH
_VARIABLE = re.compile(r"\$\{?(SLURM_\w+|SLURMD_\w+)")
_NAME_MAX = 40
_SHOWN = 400  # characters of a lost phrase
_FILES = "the cluster's shared folders, the one it was submitted in too: mount a volume in both templates"
_PER_RANK = "a rank's own: OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_LOCAL_RANK, or PMI_RANK"
_NOT_SET = {  # of Slurm's variables: what to do instead
    **dict.fromkeys(("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"), _PER_RANK),
    **dict.fromkeys(("SLURM_JOB_NODELIST", "SLURM_NODELIST"), "the workers are in /etc/mpi/hostfile"),
}


@dataclass(frozen=True, slots=True)
class _Script:
    """A batch script's parts. `first_line`: the number of the body's first line."""

    shell: tuple[str, ...]
    options: tuple[tuple[int, Option], ...]
    body: str
    first_line: int
    lost: tuple[str, ...]


def sbatch_jobs(text: str, file: str, image: str, implementation: Implementation) -> Converted:
    """Return the jobs of a batch script, and what is lost. `file` names it in messages. Raises ManifestError."""
    if len(text.encode(errors="replace")) > SCRIPT_MAX:
        raise ManifestError(
            f"{file}: is larger than {SCRIPT_MAX >> 10} KiB: put the program into the image or a volume"
        )
    script = _read(text.replace("\r\n", "\n"), file)
    asked = request(script.options)
    if asked.problems:
        raise ManifestError(f"{file}: {printable('; '.join(asked.problems[:3]))}")
    if asked.array:
        asked.env |= {"SLURM_ARRAY_TASK_ID": "", **_of_array(asked.array, script.body)}
    if len(text) * len(asked.array) > _ARRAY_MAX:
        raise ManifestError(f"{file}: {len(asked.array)} jobs with this script are too large: put it into the image")
    name = _name(asked.name or file.rpartition("/")[2].partition(".")[0])
    steps = rewritten(script.body, asked, implementation, script.first_line)
    variables, not_set = _variables(script.body, asked, name)
    prelude = [f"{key}={quoted(value)}" for key, value in variables.items()]
    if "SLURM_SUBMIT_DIR" in script.body:
        prelude.append("SLURM_SUBMIT_DIR=$PWD")
    if steps.has_modules:
        prelude.append("type module >/dev/null 2>&1 || { module() { :; }; ml() { :; }; }")
    command = [*script.shell, "-c", "\n".join([*prelude, steps.script.strip("\n"), ""])]
    bodies = tuple(
        _job(asked, f"{name}-{index}" if asked.array else name, image, implementation, command, index)
        for index in asked.array or [0]
    )
    lost = (*script.lost, *asked.lost, *steps.lost, *not_set, _FILES)
    return Converted(name, bodies, tuple(printable(one, _SHOWN) for one in lost))


def _read(text: str, file: str) -> _Script:
    """Split a script as sbatch does: its options stand before the first command. Raises ManifestError."""
    lines = text.split("\n")
    if not lines[0].startswith("#!"):
        raise ManifestError(f"{file}: is no batch script: its first line must name a shell, as #!/bin/bash does")
    shell = lines[0][2:].split()
    if shell[:1] == ["/usr/bin/env"] and len(shell) > 1:
        shell = [f"/bin/{shell[1]}", *shell[2:]]
    if not shell or shell[0].rpartition("/")[2] not in _SHELLS:
        raise ManifestError(f"{file}: is for {printable(' '.join(shell), 63)}, and only shells like bash are known")
    options: list[tuple[int, Option]] = []
    first = next((n for n, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#")), len(lines))
    lost = [
        f"line 1: {one}: the script gets the image's environment, not a login shell's" for one in shell if one in _LOGIN
    ]
    shell = [one for one in shell if one not in _LOGIN]
    for number, line in enumerate(lines, 1):
        if not line.startswith("#SBATCH"):
            continue
        if number > first:
            lost.append(f"line {number}: {line}: stands after the first command, where Slurm ignores it")
            continue
        try:
            words = shlex.split(line.removeprefix("#SBATCH"), comments=True)
        except ValueError as error:
            raise ManifestError(f"{file}: line {number}: {error}") from None
        found, end = parse(words, SBATCH)
        options += [(number, option) for option in found]
        lost += [f"line {number}: {word}: is no option" for word in words[end:]]
    return _Script(tuple(shell), tuple(options), "\n".join(lines[first:]), first + 1, tuple(lost))


def _name(text: str) -> str:
    """Return a name of Kubernetes that is like this one."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return (plain if plain[:1].isalpha() else f"job-{plain}")[:_NAME_MAX].strip("-")


def _of_array(indexes: list[int], body: str) -> dict[str, str]:
    """Return the variables of an array that the script reads and that all its jobs have."""
    numbers = {"COUNT": len(indexes), "MIN": min(indexes), "MAX": max(indexes)}
    named = {f"SLURM_ARRAY_TASK_{key}": str(value) for key, value in numbers.items()}
    return {name: value for name, value in named.items() if name in body}


def _variables(body: str, asked: Request, name: str) -> tuple[dict[str, str], list[str]]:
    """Return Slurm's variables that the script reads, and those of them that can't be set."""
    known: dict[str, object] = {
        **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), asked.ntasks),
        **dict.fromkeys(("SLURM_JOB_NUM_NODES", "SLURM_NNODES"), asked.nodes),
        **dict.fromkeys(("SLURM_JOB_ID", "SLURM_JOBID"), f"{name}-$SLURM_ARRAY_TASK_ID" if asked.array else name),
        **dict.fromkeys(("SLURM_JOB_NAME", "SLURM_ARRAY_JOB_ID"), name),
        "SLURM_CPUS_PER_TASK": asked.cpus_per_task,
        "SLURM_NTASKS_PER_NODE": asked.per_node,
        "SLURM_TASKS_PER_NODE": f"{asked.slots}(x{asked.nodes})",
        **dict.fromkeys(("SLURM_CPUS_ON_NODE", "SLURM_JOB_CPUS_PER_NODE"), asked.cpu),
        **dict.fromkeys(("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"), asked.gpus),
        "SLURM_MEM_PER_NODE": asked.memory,
        "SLURM_JOB_PARTITION": asked.partition,
    }
    read = dict.fromkeys(name for name in _VARIABLE.findall(body) if name not in asked.env)
    variables = {key: str(known[key]) for key in read if known.get(key)}
    unset = [key for key in read if key not in {*known, "SLURM_SUBMIT_DIR"}]
    return variables, [f"${key}: is not set: {_NOT_SET.get(key, 'nothing here has its value')}" for key in unset]


def _job(asked: Request, name: str, image: str, implementation: Implementation, command: list[str], index: int) -> Body:
    memory, env = asked.memory, dict(asked.env)
    if asked.array:
        env["SLURM_ARRAY_TASK_ID"] = str(index)
    options = manifests.Options(
        name=name,
        image=image,
        command=["mpirun"],  # until it is the script's shell
        ranks=asked.ntasks,
        workers=asked.nodes,
        slots=asked.slots,
        gpus=asked.gpus,
        cpu=str(asked.cpu or ""),
        memory="" if memory is None else f"{memory // 1024}Gi" if memory % 1024 == 0 else f"{memory}Mi",
        env=env,
        queue=asked.partition,
        time_s=asked.time_s,
        implementation=implementation,
        tags_output=False,  # srun -l asks for it
    )
    body = manifests.new_job(options)
    spec = body["spec"]
    if asked.is_held:
        spec["runPolicy"]["suspend"] = True
    for role, words in (("Launcher", [manifests.literal(word) for word in command]), ("Worker", None)):
        [container] = mappings(part(spec, "mpiReplicaSpecs", role, "template", "spec").get("containers"))
        container |= {"command": words} if words else {}
        container |= {"workingDir": asked.folder} if asked.folder else {}
    return body
