"""What the script found of ssh in a job's pods. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agents.client.doctor.check import Check, Group, fail, ok, skip
from agents.client.doctor.probe import Probe, names
from agents.job.model import LAUNCHER, Job

_USUAL = (22, 2222)  # OpenSSH's port, and that of kubeflow's images
_OTHERS = slice(4, 10)  # of drwxr-xr-x: what group and others may
_WRITES = (5, 8)
_KEY = "/id_rsa"


def ssh_checks(job: Job, probes: Sequence[Probe]) -> Iterator[Check]:
    """Check sshd in workers, ssh in the launcher, keys with their modes, and that the launcher can log in."""
    launchers = [one for one in probes if one.role == LAUNCHER]
    workers = [one for one in probes if one.role != LAUNCHER]
    if workers:
        yield _sshd(job, workers)
        yield _port(job, workers)
        yield _strict_modes(workers)
    for one in launchers:
        yield _client(one)
        yield _keys(job, one)
        yield from _logins(one)


def _sshd(job: Job, workers: Sequence[Probe]) -> Check:
    lacking = [one.pod for one in workers if not one.one("sshd")]
    if lacking:
        remedy = "Install openssh-server in the image, or name its path by spec.ssh.sshdPath (mpi-agents); or use exec."
        return fail(Group.SSH, "sshd", f"{names(lacking)}: no {job.ssh.sshd_path}", remedy)
    return ok(Group.SSH, "sshd", f"{job.ssh.sshd_path} in {len(workers)} workers")


def _port(job: Job, workers: Sequence[Probe]) -> Check:
    silent, asked = [], set()
    for one in workers:
        ports = [job.ssh.port] if job.ssh.port else [int(text) for text in one.values.get("port", ()) if _is_port(text)]
        asked |= {*(ports or _USUAL)}
        listening = {int(text, 16) for text in one.values.get("listen", ()) if _is_hex(text)}
        if not listening & {*ports, *_USUAL}:  # its own arguments may have another port than its configuration
            silent.append(one.pod)
    shown = " or ".join(str(one) for one in sorted(asked))
    if silent:
        remedy = f"sshd does not run there: `kubectl logs {silent[0]}` has its reason."
        return fail(Group.SSH, "port", f"{names(silent)}: nothing listens on port {shown}", remedy)
    return ok(Group.SSH, "port", f"{shown}: {len(workers)} workers listen")


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 6


def _is_hex(text: str) -> bool:
    return len(text) == 4 and all(char in "0123456789ABCDEFabcdef" for char in text)


def _modes(one: Probe) -> list[tuple[str, str, str]]:
    """Return mode, owner and path of the files that the script looked at."""
    found = (text.split(" ", 2) for text in one.values.get("mode", ()))
    return [(parts[0], parts[1], parts[2]) for parts in found if len(parts) == 3 and len(parts[0]) >= 10]


def _strict_modes(workers: Sequence[Probe]) -> Check:
    """Sshd with StrictModes, its default, ignores keys in folders that others may write to (sshd_config(5))."""
    open_paths = [
        f"{path} ({mode}, in {one.pod})"
        for one in workers
        if next(iter(one.values.get("strict", ())), "yes").lower() != "no"
        for mode, _, path in _modes(one)
        if "w" in {mode[at] for at in _WRITES}
    ]
    if open_paths:
        remedy = "Remove the right to write of group and others, or set `StrictModes no` in sshd_config."
        return fail(Group.SSH, "modes", f"sshd ignores keys below {names(open_paths)}", remedy)
    return ok(Group.SSH, "modes", "sshd accepts the modes of home, keys and their folder")


def _client(one: Probe) -> Check:
    if path := one.one("path.ssh"):
        return ok(Group.SSH, "client", path)
    return fail(Group.SSH, "client", f"{one.pod}: no ssh on PATH", "Install openssh-client in the launcher's image.")


def _keys(job: Job, one: Probe) -> Check:
    key = next((found for found in _modes(one) if found[2] == f"{job.ssh.mount_path}{_KEY}"), None)
    if key is None:
        remedy = "Is the job's Secret there, and sshAuthMountPath the folder where ssh looks?"
        return fail(Group.SSH, "keys", f"{one.pod}: no {job.ssh.mount_path}{_KEY}", remedy)
    mode, owner, path = key
    if owner == one.one("uid") and set(mode[_OTHERS]) != {"-"}:
        remedy = "ssh rejects a key that others may read: set the template's runAsUser, or defaultMode 0600."
        return fail(Group.SSH, "keys", f"{one.pod}: {path} has mode {mode}", remedy)
    return ok(Group.SSH, "keys", f"{path} has mode {mode}")


def _logins(one: Probe) -> Iterator[Check]:
    results = [(name.partition(".")[2], one.one(name)) for name in one.values if name.startswith("login.")]
    refused = [f"{host}: {said.partition(' ')[2] or said}" for host, said in results if said.split(" ")[0] != "0"]
    if refused:
        remedy = "docs/ssh.md lists what each message means; the worker's log has sshd's reason."
        yield fail(Group.SSH, "login", f"{one.pod} can't log in to {names(refused)}", remedy)
    elif results:
        yield ok(Group.SSH, "login", f"{one.pod} logs in to {len(results)} workers")
    else:
        yield skip(Group.SSH, "login", "the launcher has no ssh, or its hostfile no workers")
