"""T9k's launcher. Users write no template for it: it is the workers' with an mpirun command from the job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from agents.job.json_object import Body, Object

HOSTFILE = "/etc/mpi/hostfile"

_WORKERS_ONLY = ("livenessProbe", "readinessProbe", "startupProbe", "ports", "command", "args")  # of sshd's container
_MERGED_BY = {  # lists of a pod that are merged, by the key of their objects
    **dict.fromkeys(("containers", "initContainers", "volumes", "env", "imagePullSecrets"), "name"),
    "volumeMounts": "mountPath",
}


def launch_command(
    home: str, mca: Mapping[str, str], arguments: Sequence[str], program: Sequence[str]
) -> tuple[str, ...]:
    """Return the command line of mpirun. The arguments say how many processes there are, as in T9k."""
    root = home.rstrip("/")
    prefix = ["--prefix", root or "/"] if home else []
    parameters = [word for key in sorted(mca) for word in ("--mca", key, mca[key])]
    mpirun = f"{root}/bin/mpirun" if home else "mpirun"
    return (mpirun, *prefix, "--hostfile", HOSTFILE, *parameters, *arguments, *program)


def slots(arguments: Sequence[str], workers: int) -> int:
    """Return how many processes a worker must take by mpirun's arguments; 1 if they don't say.

    T9k's jobs have no field for it, and mpirun starts no more processes on a host than the hostfile gives it slots.
    """
    on_each = [_count(value) for option, value in pairwise(arguments) if _name(option) in ("N", "npernode", "ppr")]
    on_each += [_count(value.split(":")[1]) for option, value in pairwise(arguments) if _is_mapping(option, value)]
    in_all = [_count(value) for option, value in pairwise(arguments) if _name(option) in ("n", "np", "c")]
    return max([1, *on_each, *(-(-count // max(workers, 1)) for count in in_all)])


def launcher_template(workers: Object, main: str, command: Sequence[str], own: Object) -> Body:
    """Return the template of the launcher: the workers', with what its `own` has in the place of theirs.

    The launcher runs no ranks: it asks for none of the devices that are the ranks'.
    """
    spec = {key: value for key, value in workers["spec"].items() if key != "resourceClaims"}
    container = next(one for one in spec["containers"] if one["name"] == main)
    container = {key: value for key, value in container.items() if key not in _WORKERS_ONLY}
    spec["containers"] = [{**without_devices(container), "command": list(command)}]
    if "initContainers" in spec:
        spec["initContainers"] = [without_devices(one) for one in spec["initContainers"]]
    merged = _merged({**workers, "spec": spec}, _about(own, main))
    return dict(merged)


def _name(option: str) -> str:
    """Return an option's name, "" for what is none: Open MPI takes one dash for two."""
    return option.removeprefix("-").removeprefix("-") if option.startswith("-") else ""


def _is_mapping(option: str, value: str) -> bool:
    parts = value.split(":")
    return _name(option) == "map-by" and parts[0] == "ppr" and parts[2:3] == ["node"]


def _count(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _about(own: Object, main: str) -> Object:
    """Return the launcher's own template, whose main container is the workers' by another name, if it is not by that.

    T9k's examples leave it empty, and nothing says what its container is called.
    """
    spec = own.get("spec", {})
    containers = spec.get("containers", [])
    if not containers or any(one["name"] == main for one in containers):
        return own
    first, *others = containers
    return {**own, "spec": {**spec, "containers": [{**first, "name": main}, *others]}}


def without_devices(container: Object) -> Body:
    """Return a container without extended resources, whose names have a `/`, and without claims of devices."""
    resources = container.get("resources")
    if resources is None:
        return dict(container)
    kept = {
        key: {name: amount for name, amount in resources[key].items() if "/" not in name}
        for key in ("limits", "requests")
        if key in resources
    }
    return {**container, "resources": kept}


def _merged(base: Any, over: Any, key: str = "") -> Any:
    """Return a part of the template with another one laid over it."""
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        return {**base, **{name: _merged(base.get(name), value, name) for name, value in over.items()}}
    if isinstance(base, list) and isinstance(over, list) and key in _MERGED_BY:
        return _merged_lists(base, over, _MERGED_BY[key])
    return over


def _merged_lists(base: list[Any], over: list[Any], by: str) -> list[Any]:
    found = {one.get(by): one for one in over if isinstance(one, Mapping)}
    known = [one.get(by) for one in base if isinstance(one, Mapping)]
    kept = [_merged(one, found[one[by]]) if isinstance(one, Mapping) and one.get(by) in found else one for one in base]
    return [*kept, *(one for one in over if not isinstance(one, Mapping) or one.get(by) not in known)]
