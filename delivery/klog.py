"""kubectl-delivery's command line, read as Go's flag package reads it. Pure.

Its flags have one dash or two, and a value after `=` or as the next argument, except switches, which take none but by
`=`. Flags of klog are accepted and have no effect; `-namespace` and the like become the options of `delivery.cli`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_SWITCHES = frozenset({
    "add_dir_header", "alsologtostderr", "logtostderr", "one_output", "skip_headers", "skip_log_headers",
    "legacy_stderr_threshold_behavior",
})  # fmt: skip
_VALUES = frozenset({
    "alsologtostderrthreshold", "log_backtrace_at", "log_dir", "log_file", "log_file_max_size", "stderrthreshold",
    "threadiness", "v", "vmodule",
})  # fmt: skip
_OURS = {"kubeConfig": "--kubeconfig", "master": "--master", "namespace": "--namespace"}


def translate(arguments: Sequence[str]) -> list[str]:
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
