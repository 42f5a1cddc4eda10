"""What delivery was asked to do: options first, then the environment, then kubectl-delivery's defaults.

kubectl-delivery's own flags are read as Go's flag package reads them: one dash or two, and a value after `=` or as the
next argument, except switches, which take one only after `=`. Flags of klog are accepted and have no effect.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.common import durations
from delivery import tools
from delivery.exits import USAGE, DeliveryError
from delivery.hostfile import own_line, own_names
from delivery.wait import Limits

_TARGET = "/opt/kube"
_ETC_HOSTS = "/etc/hosts"
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Options:
    """The command line; None where an option was not given."""

    kubeconfig: str | None = None
    namespace: str | None = None
    target: str | None = None
    timeout: str | None = None
    grace: str | None = None
    replacement: str | None = None
    tools: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """One delivery. `namespace` None: the API configuration's own; `target` "": nothing is copied or written."""

    environ: Mapping[str, str]
    is_ssh: bool
    waits: bool  # otherwise the person who debugs the job starts the workers
    stays: bool  # delivery is a sidecar: the launcher's container waits at the start gate, and a hook has prepared ssh
    namespace: str | None
    hostfile: str
    target: str
    tools_folder: str
    tools: Sequence[tools.Tool]
    selector: str | None
    limits: Limits
    own_name: str
    own_names: frozenset[str]
    own_line: str


def settings(options: Options, environ: Mapping[str, str], etc_hosts: str = _ETC_HOSTS) -> Settings:
    """Put options and environment together. Raises DeliveryError for what can't be understood."""
    hostname = environ.get("HOSTNAME") or socket.gethostname()
    pod = environ.get("POD_NAME") or hostname
    known = read_text(etc_hosts)
    # KUBECONFIG wins over the flag, as in kubectl-delivery.
    kubeconfig = environ.get("KUBECONFIG") or options.kubeconfig or ""
    hostfile = environ.get("MPI_AGENT_HOSTFILE") or "/etc/mpi/hostfile"
    is_ssh = _one_of(environ, "MPI_AGENT_TRANSPORT", ("exec", "ssh")) == "ssh"
    asked = options.tools
    if tuple(asked) == (tools.NONE,):
        asked = ()
    elif not asked and not is_ssh:
        asked = tools.default(read_text(os.path.join(os.path.dirname(hostfile), "kubexec.sh")))
    return Settings(
        environ={**environ, "KUBECONFIG": kubeconfig},
        is_ssh=is_ssh,
        waits=_one_of(environ, "MPI_AGENT_WAIT", ("true", "false")) == "true",
        stays=is_ssh and _one_of(environ, "MPI_AGENT_STAYS", ("false", "true")) == "true",
        namespace=options.namespace or environ.get("NAMESPACE") or None,
        hostfile=hostfile,
        target=options.target or environ.get("TARGET_DIR") or (_TARGET if asked or not is_ssh else ""),
        tools_folder=environ.get("MPI_AGENT_TOOLS") or "/usr/local/lib/mpi-agents",
        tools=[tool for argument in asked for tool in tools.parse(argument)],
        selector=environ.get("MPI_AGENT_SELECTOR") or None,
        limits=_limits(options, environ),
        own_name=pod,
        own_names=frozenset(own_names(known, hostname) | {pod}),
        own_line=own_line(known, hostname),
    )


def checked_namespace(name: str) -> str:
    """Return a namespace's name, which becomes part of a URL. Raises DeliveryError if it can't be one (RFC 1123)."""
    if not _LABEL.fullmatch(name):
        raise DeliveryError(USAGE, f"{name!r} can't be a namespace's name")
    return name


def _one_of(environ: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    """Return what a variable says, the first of the choices if it says nothing."""
    text = environ.get(name) or choices[0]
    if text not in choices:
        raise DeliveryError(USAGE, f"{name} is {text!r}, and must be {' or '.join(choices)}")
    return text


def _limits(options: Options, environ: Mapping[str, str]) -> Limits:
    default = Limits()
    timeout_s = _seconds("--timeout", options.timeout, "MPI_AGENT_WAIT_TIMEOUT", environ)
    grace_s = _seconds("--grace", options.grace, "MPI_AGENT_WAIT_GRACE", environ)
    replacement_s = _seconds("--replacement", options.replacement, "MPI_AGENT_WAIT_REPLACEMENT", environ)
    return Limits(
        grace_s=default.grace_s if grace_s is None else grace_s,
        replacement_s=default.replacement_s if replacement_s is None else replacement_s,
        # 0 means no limit.
        timeout_s=timeout_s or None,
    )


def _seconds(option: str, given: str | None, variable: str, environ: Mapping[str, str]) -> float | None:
    text, source = (given, option) if given is not None else (environ.get(variable), variable)
    if not text:
        return None
    try:
        return durations.parse(text)
    except ValueError as error:
        raise DeliveryError(USAGE, f"{source}: {error}") from None


def read_text(path: str) -> str:
    """Return a file's text, "" if it can't be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


_SWITCHES = frozenset({
    "add_dir_header", "alsologtostderr", "logtostderr", "one_output", "skip_headers", "skip_log_headers",
    "legacy_stderr_threshold_behavior",
})  # fmt: skip
_VALUES = frozenset({
    "alsologtostderrthreshold", "log_backtrace_at", "log_dir", "log_file", "log_file_max_size", "stderrthreshold",
    "threadiness", "v", "vmodule",
})  # fmt: skip
_OURS = {"kubeConfig": "--kubeconfig", "master": "--master", "namespace": "--namespace"}


def translate_go_flags(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with Go's flags taken out or turned into ours; all others stay as they are."""
    kept: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            return [*kept, argument, *rest]
        name, equals, value = argument.lstrip("-").partition("=")
        dashes = len(argument) - len(argument.lstrip("-"))
        if dashes not in (1, 2):
            kept.append(argument)
        elif name in _VALUES:
            if not equals and rest:
                rest.pop(0)
        elif name in _OURS:
            kept.append(_OURS[name])
            kept += [value] if equals else rest[:1]
            del rest[: 0 if equals else 1]
        elif name == "version":
            kept += [] if value.lower() in ("false", "f", "0") else ["--version"]
        elif name not in _SWITCHES:
            kept.append(argument)
    return kept
