"""The wait of CANOPIE's login pods, by its arguments: `k8s-wait-for-pods.sh` (docs/canopie.md).

It waits for the pods PREFIX-0 … PREFIX-(NUM-1) as delivery does, then until the Service's name has all their addresses,
and writes two hostfiles: one with names, one with addresses, in ordinal order.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from delivery import exits, target
from delivery.command import Command, set_up
from delivery.exits import DeliveryError
from delivery.pod_wait import PodWait
from delivery.service_wait import ServiceWait
from delivery.settings import Options, Settings, settings
from delivery.wait import Limits
from rshagent.call.hosts import Entry

_NAME = "k8s-wait-for-pods.sh"
_ARGUMENTS = ("NUM", "NAMESPACE", "SELECTOR", "SERVICE", "PREFIX", "HOSTFILE", "HOSTFILE_IP", "ARGS")
_REQUIRED = 5
_MOST = 65_536
_HOST = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Asked:
    """The arguments. An empty path: no such file. `extra` ends each line of the hostfiles."""

    workers: tuple[str, ...]
    namespace: str
    selector: str
    service: str
    hostfile: str
    hostfile_ip: str
    extra: str


def parse(arguments: Sequence[str]) -> Asked:
    """Read the command line. Raises DeliveryError."""
    missing = [name for name, value in zip(_ARGUMENTS, [*arguments, *[""] * _REQUIRED], strict=False) if not value]
    if missing and missing[0] in _ARGUMENTS[:_REQUIRED]:
        raise _usage(f"{missing[0]} is missing")
    if len(arguments) > len(_ARGUMENTS):
        raise _usage(f"{len(arguments)} arguments")
    number, namespace, selector, service, prefix, hostfile, hostfile_ip, extra = [*arguments, "", "", ""][:8]
    if not re.fullmatch(r"[0-9]{1,5}", number, re.ASCII) or not 0 < int(number) <= _MOST:
        raise _usage(f"NUM is {number!r}, and must be a number from 1 to {_MOST}")
    for name, value in (("SERVICE", service), ("PREFIX", prefix)):
        if not _HOST.fullmatch(value):
            raise _usage(f"{name} is {value!r}, and can't be one")
    if not extra.isprintable():
        raise _usage("ARGS would not stay on its line of the hostfile")
    workers = tuple(f"{prefix}-{ordinal}" for ordinal in range(int(number)))
    return Asked(workers, namespace, selector, service, hostfile, hostfile_ip, extra)


def hostfile(hosts: Sequence[str], extra: str) -> bytes:
    """Return a hostfile's bytes: a host per line, and what follows it."""
    return "".join(f"{host} {extra}".rstrip() + "\n" for host in hosts).encode()


def rest_of(limits: Limits, spent_s: float) -> Limits:
    """Return the limits of the second wait: `timeout_s` is for both."""
    return limits if limits.timeout_s is None else replace(limits, timeout_s=max(0.001, limits.timeout_s - spent_s))


def main() -> None:
    """Run as a command, and end the process."""
    set_up()
    command = Command(_NAME)
    sys.exit(command.run(lambda: _deliver(command, parse(sys.argv[1:]))))


def _deliver(command: Command, asked: Asked) -> None:
    began, common, progress = time.monotonic(), _settings(asked), command.progress
    pods = PodWait([Entry(name) for name in asked.workers], common, progress)
    command.waiting = pods.wait_loop
    workers = dict(pods.run())
    limits = rest_of(common.limits, time.monotonic() - began)
    service = ServiceWait(asked.service, workers, limits, progress)
    command.waiting = service.wait_loop
    service.run()
    addresses = [workers[name][0] for name in asked.workers]
    for path, hosts in ((asked.hostfile, asked.workers), (asked.hostfile_ip, addresses)):
        if path:
            target.write_file(path, hostfile(hosts, asked.extra))
            progress.line(f"wrote {path}")


def _settings(asked: Asked) -> Settings:
    common = settings(Options(namespace=asked.namespace), os.environ)
    return replace(common, hostfile="", selector=asked.selector)  # there is no hostfile to follow


def _usage(wrong: str) -> DeliveryError:
    optional = "".join(f" [{name}" for name in _ARGUMENTS[_REQUIRED:])
    names = " ".join(_ARGUMENTS[:_REQUIRED]) + optional + "]" * (len(_ARGUMENTS) - _REQUIRED)
    return DeliveryError(exits.USAGE, f"{wrong} (usage: {_NAME} {names})")


if __name__ == "__main__":
    main()
