"""How the command line is read: words of kubectl and Slurm, options before the command, and names of jobs.

A job may be written as `list -o name` and kubectl print it, `mpijob.kubeflow.org/pi`, and is completed.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem

from agents.client import ClientError, MpiClient

_LIKE = {  # words of kubectl and Slurm: our command for it
    **dict.fromkeys(("get", "ls", "ps", "squeue", "sacct", "sinfo"), "list"),
    **dict.fromkeys(("describe", "show", "scontrol"), "status"),
    **dict.fromkeys(("apply", "create", "sbatch", "salloc"), "submit"),
    **dict.fromkeys(("cancel", "kill", "rm", "scancel", "stop"), "delete"),
    **dict.fromkeys(("mpirun", "mpiexec", "srun", "start"), "run"),
    **dict.fromkeys(("log", "tail", "output"), "logs"),
    **dict.fromkeys(("shell", "ssh", "sh"), "exec"),
    **dict.fromkeys(("copy", "scp"), "cp"),
    **dict.fromkeys(("suspend", "hold"), "pause"),
    **dict.fromkeys(("restart", "requeue", "retry"), "rerun"),
}
_VALUED = {"-n": "--namespace"} | {one: one for one in ("--namespace", "--context", "--kubeconfig")}
_FLAGS = ("-A", "--all-namespaces")
_KIND = re.compile(r"mpijobs?(\.[a-z0-9.]+)?/(?=.)")
_COMPLETION_S = 2.0  # a shell waits for it
_COMPLETED_MAX = 200  # names


class JobName(click.types.StringParamType):
    """A job: its name, or with its kind before it."""

    name = "job"

    def convert(self, value: str, _param: click.Parameter | None, _ctx: click.Context | None) -> str:
        """Return the name."""
        return _KIND.sub("", value, count=1)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the jobs whose names start with `incomplete`; none without a cluster, or if it takes too long."""
        access = {key: ctx.params.get(key) for key in ("namespace", "context", "kubeconfig")}
        given = ctx.params.get(str(param.name))
        there = {given} if isinstance(given, str) else {*(given or ())}
        names = [one for one in _names(access) if one.startswith(incomplete) and one not in there]
        return [CompletionItem(one) for one in sorted(names)[:_COMPLETED_MAX]]


def _names(access: dict[str, str | None]) -> Sequence[str]:
    import agents.kube.access  # noqa: F401, PLC0415 (what takes long to load is not to use up the time for the answer)

    found: list[str] = []

    def ask() -> None:
        try:
            with MpiClient(**access) as client:
                found.extend(client.names())
        except ClientError:
            pass

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_COMPLETION_S)
    return found


class Commands(click.Group):
    """All commands, or a group of them. Their arguments `job` and `jobs` name jobs."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Add a command."""
        for parameter in cmd.params:
            if isinstance(parameter, click.Argument) and parameter.name in {"job", "jobs"}:
                parameter.type = JobName()
        super().add_command(cmd, name)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Accept the namespace and cluster options before the command (`-n hpc list`): move them after it."""
        at, moved = 0, []
        while at < len(args) and ((flag := args[at].partition("=")[0]) in _VALUED or flag in _FLAGS):
            size = 2 if args[at] in _VALUED else 1
            moved += [_VALUED.get(args[at], args[at]), *args[at + 1 : at + size]]
            at += size
        return super().parse_args(ctx, [*args[at : at + 1], *moved, *args[at + 1 :]] if at < len(args) else args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one it is here."""
        if (like := _LIKE.get(args[0])) in self.commands and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command '{args[0]}'. It is '{like}' here.", ctx)
        return super().resolve_command(ctx, args)
