"""The hub's settings: options first, then the environment, then what suits a launcher pod."""

from __future__ import annotations

import argparse
import socket
from typing import TYPE_CHECKING, NamedTuple

from rshagent import __version__
from rshagent.call import surroundings
from rshagent.session.engine import MAX_STARTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Settings(NamedTuple):
    """What the hub was told: first the options, by their names."""

    socket: str
    hostfile: str
    hosts: str
    container: str
    namespace: str
    selector: str
    slots: int | None
    max_starts: int
    metrics: str | None
    check: bool
    ending: bool
    grace: int
    launcher: str
    own_names: frozenset[str]
    text_by_stdin: bool
    pod: str
    is_own: bool = False  # of one user's one container: a client of it has started the hub


def parse(arguments: Sequence[str], environ: Mapping[str, str]) -> Settings:
    """Read options and environment. Exits with 2 and a usage line as argparse does."""
    options = vars(_parser(environ).parse_args(arguments))
    name, launcher = surroundings.own_name(environ), surroundings.launcher(environ)
    addresses = (environ.get("POD_IPS") or environ.get("POD_IP") or "").split(",")
    return Settings(
        **options,
        launcher=launcher,
        own_names=frozenset((name, launcher, socket.gethostname(), *addresses)) - {""},
        text_by_stdin=bool(environ.get("MPI_AGENT_TEXT_BY_STDIN")),
        pod=name,
    )


def _parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rshagent-hub", description="Hold the exec streams of all rsh agents in a launcher pod."
    )
    add = parser.add_argument
    add(
        "--socket",
        default=environ.get("MPI_AGENT_SOCKET") or surroundings.SOCKET,
        help="Unix socket to serve (%(default)s)",
    )
    add(
        "--hostfile",
        default=environ.get("MPI_AGENT_HOSTFILE") or surroundings.HOSTFILE,
        help="the workers (%(default)s)",
    )
    add(
        "--hosts",
        default=environ.get("MPI_AGENT_HOSTS") or surroundings.HOSTS,
        help="addresses of the workers (%(default)s)",
    )
    add("--container", default=environ.get("MPI_AGENT_CONTAINER", ""), help="container to exec into in worker pods")
    add("--namespace", default=environ.get("MPI_AGENT_NAMESPACE", ""), help="the job's namespace (default: the pod's)")
    add("--selector", default=environ.get("MPI_AGENT_SELECTOR", ""), help="label selector of the worker pods")
    add(
        "--slots",
        type=_positive,
        default=environ.get("MPI_AGENT_SLOTS") or None,
        help="slots of each worker, for --discover-hosts (default: the hostfile's)",
    )
    add("--max-starts", type=_positive, default=MAX_STARTS, help="maximum number of concurrent starts (%(default)s)")
    add("--metrics", metavar="[HOST]:PORT", help="serve Prometheus metrics there (default: don't)")
    add("--check", action="store_true", help="check the running hub; exit with 0 if it is healthy, else 1")
    add("--ending", action="store_true", help="preStop hook: tell the running hub that the pod is being deleted")
    add(
        "--grace",
        type=_positive,
        default=30,
        metavar="SECONDS",
        help="with --ending: the pod's grace period, if the hub may not read its own pod (%(default)s)",
    )
    add("--version", action="version", version=f"rshagent-hub {__version__}")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number
