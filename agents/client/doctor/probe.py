"""What the script found in a job's pods: MPI, its variables and daemons, names, limits. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agents.client.doctor.check import Check, Group, fail, ok, skip, warn
from agents.client.errors import ClientError, ForbiddenError, RefusedError
from agents.common.quantity import asked_for
from agents.job.fields import one_of
from agents.job.model import LAUNCHER, Dialect, Implementation, Job, Transport

_SLOW_S = 2.0  # for an exec of nothing: mpirun starts a daemon in each worker by one
_SHM_DEFAULT_KB = 65536  # of container runtimes
_NO_SHELL = re.compile(
    r"exec(?:utable file)?\b.*(?:no such file|not found|permission denied)", re.IGNORECASE
)  # runc's words
_RDMA = re.compile(r"rdma|infiniband|roce|hca|efa\b", re.IGNORECASE)  # in a device's resource name
_VERSIONS = (
    (Implementation.OPEN_MPI, re.compile(r"\((?:Open MPI|OpenRTE)\) (\d[\w.]*)")),
    (Implementation.INTEL, re.compile(r"Intel\(R\) MPI Library.*?Version (\d[\w.]*)")),
    (Implementation.MPICH, re.compile(r"^\s*Version:\s+(\d[\w.]*)")),  # HYDRA build details
)
_NO_TOOL = "99"  # the script's code if nothing in the image can look up a name


@dataclass(frozen=True, slots=True)
class Mpi:
    """An MPI by its mpirun, and what it needs."""

    implementation: Implementation
    version: str

    def __str__(self) -> str:
        name = "Open MPI" if self.implementation is Implementation.OPEN_MPI else str(self.implementation)
        return f"{name} {self.version}"

    @property
    def is_prrte(self) -> bool:
        """Whether its daemons are PRRTE's: from Open MPI 5 on."""
        major = self.version.partition(".")[0]
        return self.implementation is Implementation.OPEN_MPI and major.isdecimal() and int(major) >= 5

    @property
    def daemons(self) -> tuple[str, ...]:
        """The program that mpirun starts in workers: one of these."""
        if self.implementation is Implementation.OPEN_MPI:
            return ("prted",) if self.is_prrte else ("orted",)
        own = ("hydra_bstrap_proxy",) if self.implementation is Implementation.INTEL else ()
        return (*own, "hydra_pmi_proxy")

    @property
    def variables(self) -> tuple[str, str]:
        """The variables that name the rsh agent and the hostfile to it: it ignores those of other families."""
        if self.implementation is Implementation.INTEL:
            return "I_MPI_HYDRA_BOOTSTRAP_EXEC", "I_MPI_HYDRA_HOST_FILE"
        if self.implementation is Implementation.MPICH:
            return "HYDRA_LAUNCHER_EXEC", "HYDRA_HOST_FILE"
        if self.is_prrte:
            return "PRTE_MCA_plm_ssh_agent", "PRTE_MCA_prte_default_hostfile"
        return "OMPI_MCA_plm_rsh_agent", "OMPI_MCA_orte_default_hostfile"


@dataclass(frozen=True, slots=True)
class Probe:
    """What was found in one pod: the script's values, how long an exec of nothing took, or why there is none."""

    pod: str
    role: str
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    latency_s: float = 0.0
    error: ClientError | None = None

    def one(self, name: str) -> str:
        """Return the last value of a name, "" if there is none."""
        return next(reversed(self.values.get(name, ())), "")

    @property
    def mpi(self) -> Mpi | None:
        """The MPI on PATH."""
        for implementation, pattern in _VERSIONS:
            for line in self.values.get("version", ()):
                if version := pattern.search(line):
                    return Mpi(implementation, version[1])
        return None


def names(pods: Iterable[str]) -> str:
    """Return pods for a sentence."""
    first, *others = pods
    return f"{first} and {len(others)} more" if others else first


def exec_checks(probes: Sequence[Probe]) -> Iterator[Check]:
    """Check that commands can be executed in all pods, and how long that takes."""
    failed: defaultdict[str, list[Probe]] = defaultdict(list)
    for one in probes:
        if one.error is not None:
            failed[str(one.error).replace(one.pod, "POD")].append(one)
    for message, same in failed.items():
        where, error = names(one.pod for one in same), same[0].error
        if isinstance(error, ForbiddenError):
            yield skip(Group.PODS, "exec", f"{where}: {message}")
        elif isinstance(error, RefusedError) and _NO_SHELL.search(message):
            remedy = "mpirun's daemons are started by a shell: use an image that has /bin/sh."
            yield fail(Group.PODS, "shell", f"{where}: /bin/sh can't be run: {message}", remedy)
        else:
            remedy = "Is its node up? `kubectl exec` by hand may tell more."
            yield fail(Group.PODS, "exec", f"{where}: {message}", remedy)
    reached = [one for one in probes if one.error is None]
    if not reached:
        return
    slowest = max(reached, key=lambda one: one.latency_s)
    what = f"{len(reached)} pods, at most {slowest.latency_s:.1f} s ({slowest.pod})"
    if slowest.latency_s > _SLOW_S:
        yield warn(Group.PODS, "exec", what, "The API server, the network or the node is slow: mpirun's start is, too.")
    else:
        yield ok(Group.PODS, "exec", what)
    yield ok(Group.PODS, "shell", f"/bin/sh in {len(reached)} pods")


def mpi_checks(job: Job, probes: Sequence[Probe]) -> Iterator[Check]:
    """Check that all pods have one MPI, the job's, and its daemon; and that it reads the variables that are set."""
    launcher = next((one for one in probes if one.role == LAUNCHER), None)
    by_mpi: defaultdict[Mpi, list[str]] = defaultdict(list)
    unknown = []
    for one in probes:
        if one.mpi is None:
            said = next(iter(one.values.get("version", ())), "")
            unknown.append(f"{one.pod} ({said or 'not on PATH'})")
        else:
            by_mpi[one.mpi].append(one.pod)
    if unknown:
        remedy = "Put its bin folder on PATH in the image, or in the template's env; `mpirun --version` must work."
        yield warn(Group.MPI, "mpirun", f"no known mpirun or mpiexec: {names(unknown)}", remedy)
    if len(by_mpi) > 1:
        what = "; ".join(f"{mpi}: {names(pods)}" for mpi, pods in by_mpi.items())
        yield fail(Group.MPI, "version", what, "Use one image for launcher and workers: versions don't work together.")
    elif by_mpi:
        yield ok(Group.MPI, "version", f"{next(iter(by_mpi))} in all pods that have one")
    mpi = None if launcher is None else launcher.mpi
    if launcher is not None and mpi is not None:
        yield from _variables(job, launcher, mpi)
    if mpi := mpi or next(iter(by_mpi), None):  # of a launcher that does not run yet only workers tell
        yield _daemons(mpi, [one for one in probes if one.role != LAUNCHER])


def _variables(job: Job, launcher: Probe, mpi: Mpi) -> Iterator[Check]:
    if mpi.implementation is not job.implementation and job.dialect is not Dialect.V1:
        what = f"the job's mpiImplementation is {job.implementation}, its image has {mpi}"
        yield fail(Group.MPI, "mpiImplementation", what, f"Set mpiImplementation: {mpi.implementation}.")
    agent, hostfile = mpi.variables
    if job.transport is Transport.EXEC:
        if value := launcher.one(f"env.{agent}"):
            yield ok(Group.MPI, "agent", f"{mpi} reads {agent}={value}")
        else:
            what = f"{mpi} reads {agent}, which is not set: it calls ssh"
            yield fail(Group.MPI, "agent", what, f"Set {agent}=/etc/mpi/kubexec.sh in the launcher's env.")
    if value := launcher.one(f"env.{hostfile}"):
        yield ok(Group.MPI, "hostfile", f"{mpi} reads {hostfile}={value}")
    else:
        what = f"{mpi} reads {hostfile}, which is not set: all ranks run in the launcher"
        remedy = f"Set {hostfile}=/etc/mpi/hostfile in the launcher's env, if its command names no hostfile."
        yield warn(Group.MPI, "hostfile", what, remedy)


def _daemons(mpi: Mpi, workers: Sequence[Probe]) -> Check:
    programs = one_of(mpi.daemons)
    lacking = [one.pod for one in workers if not any(one.one(f"path.{name}") for name in mpi.daemons)]
    if lacking:
        remedy = f"Install {mpi} in the workers' image, and put its bin folder on PATH."
        return fail(Group.MPI, "daemon", f"{names(lacking)}: no {programs} on PATH", remedy)
    if not workers:
        return skip(Group.MPI, "daemon", "no worker could be looked at")
    return ok(Group.MPI, "daemon", f"{programs} in {len(workers)} workers")


def limit_checks(job: Job, probes: Sequence[Probe]) -> Iterator[Check]:
    """Check /dev/shm, and locked memory where the job has RDMA devices."""
    sizes = {one.pod: int(kb) for one in probes if (kb := one.one("shm").partition(" ")[0]).isdecimal()}
    if sizes:
        small = [pod for pod, kb in sizes.items() if kb <= _SHM_DEFAULT_KB]
        what = f"at least {min(sizes.values()) >> 10} MiB of shared memory"
        remedy = "Ranks of a pod talk through /dev/shm: mount an emptyDir of medium Memory there (`run --shm`)."
        yield warn(Group.PODS, "shm", f"{what} ({names(small)})", remedy) if small else ok(Group.PODS, "shm", what)
    limits = {one.pod: limit for one in probes if (limit := one.one("memlock"))}
    limited = [pod for pod, limit in limits.items() if limit != "unlimited"]
    is_rdma = any(_RDMA.search(name) for role in (job.launcher, job.worker) for name in asked_for(role.template))
    if limited and is_rdma:
        remedy = "RDMA registers memory: raise the container runtime's limit (LimitMEMLOCK=infinity), or add IPC_LOCK."
        yield warn(Group.PODS, "memlock", f"locked memory is limited in {names(limited)}", remedy)
    elif limits:
        yield ok(Group.PODS, "memlock", "unlimited" if not limited else "limited, which matters for RDMA only")


def dns_checks(job: Job, probes: Sequence[Probe], launcher: str) -> Iterator[Check]:
    """Check that the launcher resolves its workers and itself, and workers the launcher, as far as that is needed."""
    mpi = next((one.mpi for one in probes if one.role == LAUNCHER), None)
    hydra = mpi is not None and mpi.implementation is not Implementation.OPEN_MPI
    by_address = any(one.one("env.HYDRA_IFACE") or one.one("env.I_MPI_HYDRA_IFACE") for one in probes)
    is_ssh = job.transport is Transport.SSH
    at_launcher = [one for one in probes if one.role == LAUNCHER]
    workers = [one for one in probes if one.role != LAUNCHER]
    yield from _dns("launcher to itself", at_launcher, {launcher}, needs=hydra and not by_address)
    hosts = {key.partition(".")[2] for one in at_launcher for key in one.values if key.startswith("dns.")} - {launcher}
    yield from _dns("launcher to workers", at_launcher, hosts, needs=is_ssh)
    yield from _dns("workers to launcher", workers, {launcher}, needs=hydra and not by_address)


def _dns(name: str, probes: Sequence[Probe], hosts: Collection[str], *, needs: bool) -> Iterator[Check]:
    codes = {(one.pod, host): one.one(f"dns.{host}") for one in probes for host in sorted(hosts)}
    missing = [f"{host} (from {pod})" for (pod, host), code in codes.items() if code not in {"0", _NO_TOOL, ""}]
    if not any(codes.values()):
        return
    if missing and needs:
        remedy = "Is the job's Service there, and are the pods ready? A NetworkPolicy may block DNS."
        yield fail(Group.DNS, name, f"not resolved: {names(missing)}", remedy)
    elif missing:
        yield ok(Group.DNS, name, f"not resolved, and not needed: {names(missing)}")
    elif all(code == _NO_TOOL for code in codes.values()):
        yield skip(Group.DNS, name, "the image has no getent, nslookup or python3 to try")
    else:
        yield ok(Group.DNS, name, f"resolved: {names(dict.fromkeys(host for _, host in codes))}")
