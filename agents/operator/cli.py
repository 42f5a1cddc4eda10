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

from agents.operator import logs
from agents.operator.access import AccessError, load, own_namespace
from agents.operator.neighbours import Adopt
from agents.operator.objects import quantity
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
_EPILOG = "Each option can also be given as MPI_OPERATOR_NAME. All of them and every exit code: docs/operator.md."


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


def _user(_context: click.Context, _parameter: click.Parameter, given: str) -> int | None:
    if given == "none":
        return None
    if not given.isdecimal() or int(given) == 0:
        raise click.BadParameter(f"a user id above 0, or none: not {given!r}")
    return int(given)


def _quantity(_context: click.Context, _parameter: click.Parameter, given: str) -> str:
    try:
        is_above_none = quantity.parse(given) > 0
    except ValueError:
        is_above_none = False
    if not is_above_none:
        raise click.BadParameter(f"a quantity above 0, as 500m: not {given!r}")
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
    help="Where to look after jobs. Default: all namespaces.",
)
@click.option("--selector", default="", metavar="LABELS", help="Look after the jobs with these labels alone.")
@click.option(
    "--adopt",
    type=click.Choice([str(each) for each in Adopt]),
    default=str(Adopt.AUTO),
    show_default=True,
    help="auto: all jobs, but beside another operator those given to us; given: always those; all.",
)
@click.option(
    "--t9k",
    type=click.Choice([str(each) for each in T9k]),
    default=str(T9k.AUTO),
    show_default=True,
    help="MPIJobs of batch.tensorstack.dev as well: auto: once the API server has them; on: waits for them; off.",
)
@click.option("--image", default=f"mpi-agents:{__version__}", show_default=True, help="Of our containers.")
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
    help="Secrets of the jobs' namespaces for that image.",
)
@click.option(
    "--run-as-user",
    default="65532",
    show_default=True,
    metavar="UID|none",
    callback=_user,
    help="Of our containers, but for those that prepare ssh; none: where the platform assigns one (OpenShift).",
)
@click.option(
    "--agent-cpu-limit",
    default="1",
    show_default=True,
    metavar="QUANTITY",
    callback=_quantity,
    help="Of each of our containers in jobs' pods, but in those of the class Guaranteed.",
)
@click.option(
    "--worker-agent/--no-worker-agent",
    default=True,
    show_default=True,
    help="Beside each worker of an ssh job that doesn't say.",
)
@click.option("--cluster-domain", default="", metavar="DOMAIN", help="What host names of v2beta1 jobs end in.")
@click.option(
    "--gang-scheduling",
    "--gang-scheduler",
    default="",
    metavar="NAME",
    help="volcano, t9k, or the name of a scheduler with scheduler-plugins' coscheduling.",
)
@click.option("--wait-timeout", default="", metavar="DURATION", help="How long a launcher waits for workers: 30m.")
@click.option(
    "--workers",
    "--threadiness",
    default=8,
    show_default=True,
    type=click.IntRange(1, 64),
    help="Jobs planned side by side.",
)
@click.option("--leader-elect/--no-leader-elect", default=True, show_default=True)
@click.option("--lease-namespace", "--lock-namespace", default="", metavar="NS", help="Default: the operator's own.")
@click.option("--lease-name", default="mpi-agents-operator", show_default=True)
@click.option("--address", default="", metavar="ADDRESS", help="Of health and metrics. Default: all.")
@click.option(
    "--port",
    "--monitoring-port",
    default=8080,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Of health and metrics; 0: none.",
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
    """Look after MPIJobs (kubeflow.org v1 and v2beta1, batch.tensorstack.dev v1beta1)."""
    logs.set_up(given["log_level"], as_json=given["log_format"] == "json")
    for name in (*_IGNORED, *_IGNORED_SWITCHES):
        if given[name.replace("-", "_")] is not None:
            _LOG.info("--%s is taken for kubeflow's sake, and means nothing here", name)
    workers: int = given["workers"]
    settings = PodSettings(
        image=given["image"],
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
        adopt=Adopt(given["adopt"]),
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
        return _failed(f"port {given['port']} for health and metrics can't be had: {error.strerror} (--port)")
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


def _failed(words: str) -> int:
    sys.stderr.write(f"mpi-operator: {words}\n")
    return SETUP


def _dashed(arguments: list[str]) -> list[str]:
    """Return Go's flags (`-name`, `-name=value`) as ours."""
    return [f"-{text}" if text[:1] == "-" and text[1:2].isalpha() and len(text) > 2 else text for text in arguments]
