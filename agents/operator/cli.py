"""The command `mpi-operator`.

Exit codes: 0 stopped by a signal, 1 the lease was lost, 2 a usage error, 3 no API server is configured, or the port is
taken.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import fields
from enum import StrEnum
from typing import Any

import click

from agents.common.quantity import parse_quantity
from agents.job.model import Tool
from agents.kube.access import AccessError, load, own_namespace
from agents.kube.detection import OWN_LEASE
from agents.operator import logs
from agents.operator.image_volumes import ProgramDelivery
from agents.operator.other_operators import NAMESPACES, Claim
from agents.operator.plan import plan
from agents.operator.process import Options, Process, T9k
from agents.operator.settings import PodSettings
from rshagent import __version__

LOST, USAGE, SETUP = 1, 2, 3
_IGNORED = (  # kubeflow's: with a value, and without one
    *("kube-api-qps", "kube-api-burst", "controller-queue-rate-limit", "controller-queue-burst", "v"),
    *("stderrthreshold", "kubectl-delivery-image", "scripting-image"),
)
_IGNORED_SWITCHES = ("logtostderr", "alsologtostderr")
_OTHER_CONNECTIONS = 12  # kept open beside the workers' own: larger steps, events, the lease
_LOG = logging.getLogger(__name__)
_EPILOG = "Each option can also be set by the variable MPI_OPERATOR_NAME. All options and exit codes: docs/operator.md."


def main() -> None:
    """Run as a command, and end the process without waiting for pending requests."""
    try:
        code = command.main(args=dashed(sys.argv[1:]), prog_name="mpi-operator", standalone_mode=False)
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
        is_above_none = parse_quantity(given) > 0
    except ValueError:
        is_above_none = False
    if not is_above_none:
        raise click.BadParameter(f"must be a quantity above 0, such as 500m, not {given!r}")
    return given


_HELP = {
    "namespaces": "Namespaces to manage MPIJobs in. Default: all.",
    "selector": "Manage only MPIJobs with these labels.",
    "claim": "auto: all jobs, or only jobs assigned to this operator if another one is running; "
    "given: only those; all.",
    "other_operator_namespaces": "Namespaces in which --adopt auto looks for other operators, in addition to its own.",
    "t9k": "Manage T9k's MPIJobs (batch.tensorstack.dev): auto: once the API server serves them; "
    "on: wait for them; off.",
    "image": "Image of injected containers.",
    "image_pull_secrets": "Pull secrets for that image, in the jobs' namespaces.",
    "run_as_user": "UID for injected containers, except the one that sets up SSH; "
    "none: the platform assigns it (OpenShift).",
    "cpu_limit": "CPU limit of each injected container, except in Guaranteed pods.",
    "has_worker_agent": "Inject the worker agent into SSH jobs by default.",
    "tools": "Default tools in launchers: kubectl (the real one).",
    "program_delivery": "How pods get our programs: image: by image volumes; init: init containers copy them; "
    "auto: by image volumes if the API server and all schedulable nodes have them.",
    "kubectl_image": "Image with kubectl. Default: --image with -kubectl added to its tag.",
    "cluster_domain": "Domain that host names of v2beta1 jobs end in.",
    "gang_scheduler": "volcano, t9k, or the name of a scheduler that has the coscheduling plugin.",
    "wait_timeout": "How long launchers wait for workers, for example 30m.",
    "workers": "Number of jobs reconciled concurrently.",
    "lease_namespace": "Namespace of the lease. Default: the operator's own.",
    "address": "Address for health and metrics. Default: all.",
    "port": "Port for health and metrics; 0: none.",
    "kubeconfig": "Default: KUBECONFIG, else ~/.kube/config, else the pod's service account.",
}


def _option(field: str, names: str, *, default: Any = "", **how: Any) -> Callable[..., Any]:
    """Return an option that sets a field of `PodSettings` or `Options`, or another argument of `command`.

    Its variable is MPI_OPERATOR_ and its first name. `how`: what `click.option` takes besides.
    """
    name = re.split("[ /]", names.removeprefix("--"), maxsplit=1)[0]
    how = {"envvar": f"MPI_OPERATOR_{name.replace('-', '_').upper()}", "show_default": default != "", **how}
    return click.option(*names.split(), field, default=default, help=_HELP.get(field), **how)


def _choice(kind: type[StrEnum]) -> dict[str, Any]:
    return {"type": click.Choice([*map(str, kind)]), "callback": lambda _context, _parameter, given: kind(given)}


def _names(metavar: str, callback: Callable[..., Any] = _split, default: tuple[str, ...] = ()) -> dict[str, Any]:
    """An option that takes a list, and may be given many times."""
    return {"multiple": True, "default": default, "metavar": f"{metavar}[,{metavar}]", "callback": callback}


def _ignored(command: Callable[..., int]) -> Callable[..., int]:
    """Take kubeflow's flags that mean nothing here."""
    for name in _IGNORED:
        names = f"--{name} -v" if name == "v" else f"--{name}"
        command = _option(name.replace("-", "_"), names, default=None, hidden=True)(command)
    for name in _IGNORED_SWITCHES:
        command = _option(name, f"--{name}/--no-{name}", default=None, hidden=True)(command)
    return command


_NAMESPACE = ("MPI_OPERATOR_NAMESPACE", "KUBEFLOW_NAMESPACE")
_PULLS, _LEVELS = ("Always", "IfNotPresent", "Never"), ("debug", "info", "warning", "error")


@click.command(epilog=_EPILOG)
@_option("namespaces", "--namespace", envvar=_NAMESPACE, **_names("NS"))
@_option("selector", "--selector", metavar="LABELS")
@_option("claim", "--adopt", default=str(Claim.AUTO), **_choice(Claim))
@_option("other_operator_namespaces", "--other-operator-namespace", **_names("NS", default=NAMESPACES))
@_option("t9k", "--t9k", default=str(T9k.AUTO), **_choice(T9k))
@_option("image", "--image", default=f"mpi-agents:{__version__}")
@_option("image_pull_policy", "--image-pull-policy", default="IfNotPresent", type=click.Choice(_PULLS))
@_option("image_pull_secrets", "--image-pull-secret", **_names("NAME"))
@_option("run_as_user", "--run-as-user", default="65532", metavar="UID|none", callback=_user)
@_option("cpu_limit", "--agent-cpu-limit", default="1", metavar="QUANTITY", callback=_quantity)
@_option("has_worker_agent", "--worker-agent/--no-worker-agent", default=True)
@_option("tools", "--tool", **_names("NAME", _tools))
@_option("kubectl_image", "--kubectl-image", metavar="IMAGE")
@_option("program_delivery", "--program-delivery", default=str(ProgramDelivery.AUTO), **_choice(ProgramDelivery))
@_option("cluster_domain", "--cluster-domain", metavar="DOMAIN")
@_option("gang_scheduler", "--gang-scheduling --gang-scheduler", metavar="NAME")
@_option("wait_timeout", "--wait-timeout", metavar="DURATION")
@_option("workers", "--workers --threadiness", default=8, type=click.IntRange(1, 64))
@_option("elects", "--leader-elect/--no-leader-elect", default=True)
@_option("lease_namespace", "--lease-namespace --lock-namespace", metavar="NS")
@_option("lease_name", "--lease-name", default=OWN_LEASE)
@_option("address", "--address", metavar="ADDRESS")
@_option("port", "--port --monitoring-port", default=8080, type=click.IntRange(0, 65535))
@_option("log_level", "--log-level", default="info", type=click.Choice(_LEVELS, case_sensitive=False))
@_option("log_format", "--log-format", default="logfmt", type=click.Choice(("logfmt", "json")))
@_option("kubeconfig", "--kubeconfig --kube-config --kubeConfig", metavar="FILE")
@_ignored
@click.version_option(__version__, prog_name="mpi-operator")
def command(**given: Any) -> int:
    """Run MPIJobs (kubeflow.org v1, v2beta1; batch.tensorstack.dev v1beta1) and VirtualClusters (mpi-agents.io)."""
    logs.set_up(given["log_level"], as_json=given["log_format"] == "json")
    for name in (*_IGNORED, *_IGNORED_SWITCHES):
        if given[name.replace("-", "_")] is not None:
            _LOG.info("--%s is accepted for compatibility with kubeflow and has no effect", name)
    given["lease_namespace"] = given["lease_namespace"] or own_namespace()
    settings = PodSettings(**_fields(PodSettings, given))
    options = Options(**_fields(Options, given))
    signals = _blocked_signals()
    try:
        access = load(given["kubeconfig"], options.workers + _OTHER_CONNECTIONS)
        process = Process(access, plan, settings, options)
        if given["port"]:
            process.serve(given["address"], given["port"])
    except AccessError as error:
        return _failed(str(error))
    except OSError as error:
        return _failed(f"can't listen on port {given['port']} for health and metrics: {error.strerror} (--port)")
    threading.Thread(target=_stop, args=(process, signals), name="signals", daemon=True).start()
    return 0 if process.run() else LOST


def _fields(kind: type[PodSettings | Options], given: dict[str, Any]) -> dict[str, Any]:
    return {field.name: given[field.name] for field in fields(kind) if field.name in given}


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


def dashed(arguments: list[str]) -> list[str]:
    """Return Go's flags (`-name`, `-name=value`) as ours."""
    return [f"-{text}" if text[:1] == "-" and text[1:2].isalpha() and len(text) > 2 else text for text in arguments]
