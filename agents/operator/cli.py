"""The command `mpi-operator`.

Exit codes: 0 stopped by a signal, 1 the lease was lost, 2 a usage error, 3 no API server is configured, or the port is
taken.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import click

from agents.job.model import Tool
from agents.operator import logs
from agents.operator.access import AccessError, load, own_namespace
from agents.operator.objects import resources
from agents.operator.other_operators import NAMESPACES, Claim
from agents.operator.plan import plan
from agents.operator.process import Options, Process, T9k
from agents.operator.settings import PodSettings
from rshagent import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

LOST, USAGE, SETUP = 1, 2, 3
_IGNORED = (  # kubeflow's: with a value, and without one
    *(
        "kube-api-qps",
        "kube-api-burst",
        "controller-queue-rate-limit",
        "controller-queue-burst",
        "v",
        "stderrthreshold",
    ),
    *("kubectl-delivery-image", "scripting-image"),
)
_IGNORED_SWITCHES = ("logtostderr", "alsologtostderr")
_OTHER_CONNECTIONS = 12  # kept open beside the workers' own: larger steps, events, the lease
_LOG = logging.getLogger(__name__)
_EPILOG = "Each option can also be set by the variable MPI_OPERATOR_NAME. All options and exit codes: docs/operator.md."


def main() -> None:
    """Run as a command, and end the process: a request that has no answer yet is not waited for."""
    try:
        code = command.main(args=_dashed(sys.argv[1:]), prog_name="mpi-operator", standalone_mode=False)
        sys.stdout.flush()
        os._exit(code)
    except click.ClickException as error:
        sys.stderr.write(f"mpi-operator: {error.format_message()} (mpi-operator --help lists the options)\n")
        sys.exit(USAGE)
    except click.exceptions.Abort:
        sys.exit(130)


def _split(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part for text in given for part in text.replace(",", " ").split()))


def _tools(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> tuple[Tool, ...]:
    names = _split(context, parameter, given)
    for name in names:
        if name not in set(Tool):
            raise click.BadParameter(f"{' or '.join(Tool)}: not {name!r}")
    return tuple(map(Tool, names))


def _user(_context: click.Context, _parameter: click.Parameter, given: str) -> int | None:
    if given == "none":
        return None
    if not given.isdecimal() or int(given) == 0:
        raise click.BadParameter(f"must be a user ID above 0, or none, not {given!r}")
    return int(given)


def _quantity(_context: click.Context, _parameter: click.Parameter, given: str) -> str:
    try:
        is_above_none = resources.parse_quantity(given) > 0
    except ValueError:
        is_above_none = False
    if not is_above_none:
        raise click.BadParameter(f"must be a quantity above 0, such as 500m, not {given!r}")
    return given


def _ignored(command: Callable[..., int]) -> Callable[..., int]:
    """Take kubeflow's flags that mean nothing here."""
    for name in _IGNORED:
        names = [f"--{name}", "-v"] if name == "v" else [f"--{name}"]
        command = click.option(*names, name.replace("-", "_"), hidden=True)(command)
    for name in _IGNORED_SWITCHES:
        command = click.option(f"--{name}/--no-{name}", default=None, hidden=True)(command)
    return command


@click.command(context_settings={"auto_envvar_prefix": "MPI_OPERATOR"}, epilog=_EPILOG)
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="NS[,NS]",
    callback=_split,
    envvar=("MPI_OPERATOR_NAMESPACE", "KUBEFLOW_NAMESPACE"),
    help="Namespaces to manage MPIJobs in. Default: all.",
)
@click.option("--selector", default="", metavar="LABELS", help="Manage only MPIJobs with these labels.")
@click.option(
    "--adopt",
    type=click.Choice([str(each) for each in Claim]),
    default=str(Claim.AUTO),
    show_default=True,
    help="auto: all jobs, or only jobs assigned to this operator if another one is running; given: only those; all.",
)
@click.option(
    "--other-operator-namespace",
    "other_operator_namespaces",
    multiple=True,
    metavar="NS[,NS]",
    callback=_split,
    default=NAMESPACES,
    show_default=",".join(NAMESPACES),
    envvar="MPI_OPERATOR_OTHER_OPERATOR_NAMESPACE",
    help="Namespaces in which --adopt auto looks for other operators, in addition to its own.",
)
@click.option(
    "--t9k",
    type=click.Choice([str(each) for each in T9k]),
    default=str(T9k.AUTO),
    show_default=True,
    help="Manage T9k's MPIJobs (batch.tensorstack.dev): auto: once the API server serves them; on: wait for them; off.",
)
@click.option("--image", default=f"mpi-agents:{__version__}", show_default=True, help="Image of injected containers.")
@click.option(
    "--image-pull-policy",
    default="IfNotPresent",
    show_default=True,
    type=click.Choice(["Always", "IfNotPresent", "Never"]),
)
@click.option(
    "--image-pull-secret",
    "secrets",
    multiple=True,
    envvar="MPI_OPERATOR_IMAGE_PULL_SECRET",
    metavar="NAME[,NAME]",
    callback=_split,
    help="Pull secrets for that image, in the jobs' namespaces.",
)
@click.option(
    "--run-as-user",
    default="65532",
    show_default=True,
    metavar="UID|none",
    callback=_user,
    help="UID for injected containers, except the one that sets up SSH; none: the platform assigns it (OpenShift).",
)
@click.option(
    "--agent-cpu-limit",
    default="1",
    show_default=True,
    metavar="QUANTITY",
    callback=_quantity,
    help="CPU limit of each injected container, except in Guaranteed pods.",
)
@click.option(
    "--worker-agent/--no-worker-agent",
    default=True,
    show_default=True,
    help="Inject the worker agent into SSH jobs by default.",
)
@click.option(
    "--tool",
    "tools",
    multiple=True,
    envvar="MPI_OPERATOR_TOOL",
    metavar="NAME[,NAME]",
    callback=_tools,
    help="Default tools in launchers: kubectl (the real one).",
)
@click.option(
    "--kubectl-image",
    default="",
    metavar="IMAGE",
    help="Image with kubectl. Default: --image with -kubectl added to its tag.",
)
@click.option("--cluster-domain", default="", metavar="DOMAIN", help="Domain that host names of v2beta1 jobs end in.")
@click.option(
    "--gang-scheduling",
    "--gang-scheduler",
    default="",
    metavar="NAME",
    help="volcano, t9k, or the name of a scheduler that has the coscheduling plugin.",
)
@click.option(
    "--wait-timeout", default="", metavar="DURATION", help="How long launchers wait for workers, for example 30m."
)
@click.option(
    "--workers",
    "--threadiness",
    default=8,
    show_default=True,
    type=click.IntRange(1, 64),
    help="Number of jobs reconciled concurrently.",
)
@click.option("--leader-elect/--no-leader-elect", default=True, show_default=True)
@click.option(
    "--lease-namespace",
    "--lock-namespace",
    default="",
    metavar="NS",
    help="Namespace of the lease. Default: the operator's own.",
)
@click.option("--lease-name", default="mpi-agents-operator", show_default=True)
@click.option("--address", default="", metavar="ADDRESS", help="Address for health and metrics. Default: all.")
@click.option(
    "--port",
    "--monitoring-port",
    default=8080,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port for health and metrics; 0: none.",
)
@click.option(
    "--log-level",
    default="info",
    show_default=True,
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
)
@click.option("--log-format", default="logfmt", show_default=True, type=click.Choice(["logfmt", "json"]))
@click.option(
    "--kubeconfig",
    "--kube-config",
    "--kubeConfig",
    default="",
    metavar="FILE",
    help="Default: KUBECONFIG, else the pod's service account.",
)
@_ignored
@click.version_option(__version__, prog_name="mpi-operator")
def command(**given: Any) -> int:
    """Run MPIJobs (kubeflow.org v1 and v2beta1, batch.tensorstack.dev v1beta1)."""
    logs.set_up(given["log_level"], as_json=given["log_format"] == "json")
    for name in (*_IGNORED, *_IGNORED_SWITCHES):
        if given[name.replace("-", "_")] is not None:
            _LOG.info("--%s is accepted for compatibility with kubeflow and has no effect", name)
    workers: int = given["workers"]
    settings = PodSettings(
        image=given["image"],
        kubectl_image=given["kubectl_image"],
        tools=given["tools"],
        image_pull_policy=given["image_pull_policy"],
        image_pull_secrets=given["secrets"],
        cluster_domain=given["cluster_domain"],
        gang_scheduler=given["gang_scheduling"],
        wait_timeout=given["wait_timeout"],
        has_worker_agent=given["worker_agent"],
        run_as_user=given["run_as_user"],
        cpu_limit=given["agent_cpu_limit"],
    )
    options = Options(
        namespaces=given["namespaces"],
        selector=given["selector"],
        claim=Claim(given["adopt"]),
        other_operator_namespaces=given["other_operator_namespaces"],
        t9k=T9k(given["t9k"]),
        workers=workers,
        elects=given["leader_elect"],
        lease_namespace=given["lease_namespace"] or own_namespace(),
        lease_name=given["lease_name"],
    )
    signals = _blocked_signals()
    try:
        process = Process(load(given["kubeconfig"], workers + _OTHER_CONNECTIONS), plan, settings, options)
        if given["port"]:
            process.serve(given["address"], given["port"])
    except AccessError as error:
        return _failed(str(error))
    except OSError as error:
        return _failed(f"can't listen on port {given['port']} for health and metrics: {error.strerror} (--port)")
    threading.Thread(target=_stop, args=(process, signals), name="signals", daemon=True).start()
    return 0 if process.run() else LOST


def _blocked_signals() -> set[signal.Signals]:
    """Have these signals wait for `_stop`, in all threads that are started from now on."""
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    return signals


def _stop(process: Process, signals: set[signal.Signals]) -> None:
    """Stop at a signal. No handler does it: it could not take the locks that stopping needs."""
    number = signal.sigwait(signals)
    _LOG.info("stopping: %s", signal.Signals(number).name)
    process.stop()


def _failed(message: str) -> int:
    sys.stderr.write(f"mpi-operator: {message}\n")
    return SETUP


def _dashed(arguments: list[str]) -> list[str]:
    """Return Go's flags (`-name`, `-name=value`) as ours."""
    return [f"-{text}" if text[:1] == "-" and text[1:2].isalpha() and len(text) > 2 else text for text in arguments]
