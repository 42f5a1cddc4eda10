"""Environment variables that name the agent and the hostfile to MPI launchers.

What the user's container sets stays as it is, by value or by reference. What it takes from a ConfigMap or Secret as a
whole (`envFrom`) can't be known here, and a variable of ours wins over it there.
"""

from __future__ import annotations

from agents.job.model import LAUNCHER, WORKER, Dialect, Implementation, Job, Transport
from agents.job.template import wants_gpu
from agents.operator.objects import names
from agents.operator.objects.config import HYDRA_OPTIONS, has_own_ssh

_LEAST_AT_ONCE = 1000  # agents that may run at once: Open MPI 5 stays attached, and hangs at one more

_OWN_END_S = 2  # for mpirun to end by itself after its ranks have
_SSH_OPTIONS = f"-F {names.SSH_CONFIG} -o ConnectionAttempts=10"


def worker(job: Job) -> dict[str, str]:
    """Return the variables of a worker's container."""
    return {"K_MPI_JOB_ROLE": WORKER} if job.dialect is Dialect.V2BETA1 else {}


def launcher(job: Job) -> dict[str, str]:
    """Return the variables of the launcher's container."""
    found = {"K_MPI_JOB_ROLE": LAUNCHER} if job.dialect is Dialect.V2BETA1 else {}
    if job.dialect is Dialect.V1:  # it knows no implementations: both operators' variables are there for all
        found |= _open_mpi(job) | _intel_agent(job)
    if job.transport is Transport.EXEC:
        # Whatever the implementation: by this very text horovodrun knows that there is no ssh.
        found["OMPI_MCA_plm_rsh_agent"] = names.AGENT
    found |= _FAMILIES[job.implementation](job)
    if job.tags_output:
        found |= _TAGS.get(job.implementation, {})
    if not (job.launcher_is_worker or wants_gpu(job.launcher.template)):
        # Images for GPUs would have the launcher see all of its node's, which others have asked for.
        found |= {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}
    return found


def _open_mpi(job: Job) -> dict[str, str]:
    """Return the variables of Open MPI 4.1 and 5.0: each reads only its own family.

    Tree spawn is off: above 64 workers, workers would start workers, for which they have no rights.
    """
    at_once = _at_once(job)
    is_ssh = job.transport is Transport.SSH
    key, value = ("args", _SSH_OPTIONS) if is_ssh else ("agent", names.AGENT)
    # It would ask DNS for every host before it starts the first daemon. With SSH, a launcher that is a host itself
    # needs that: 5.0 knows itself by its bare host name alone, and asks DNS only if configured to.
    resolving = {"OMPI_MCA_if_base_do_not_resolve": "1"}
    if is_ssh and job.launcher_is_worker:
        resolving = {"PRTE_MCA_prte_do_not_resolve": "0"}
    found = {
        f"OMPI_MCA_plm_rsh_{key}": value,
        "OMPI_MCA_orte_default_hostfile": names.HOSTFILE,
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "OMPI_MCA_plm_rsh_num_concurrent": at_once,
        **resolving,
        f"PRTE_MCA_plm_ssh_{key}": value,
        "PRTE_MCA_prte_default_hostfile": names.HOSTFILE,
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "PRTE_MCA_plm_ssh_num_concurrent": at_once,
    }
    if grace := job.launcher.template.get("spec", {}).get("terminationGracePeriodSeconds"):
        found["OMPI_MCA_odls_base_sigkill_timeout"] = _kill_delay(grace)
    if job.dialect is Dialect.V2BETA1:
        found |= {"OMPI_MCA_orte_set_default_slots": str(job.slots), "PRTE_MCA_prte_set_default_slots": str(job.slots)}
    if job.dialect is Dialect.V2BETA1 or "." in job.name:  # else hosts are cut at their first dot
        found |= {"OMPI_MCA_orte_keep_fqdn_hostnames": "true", "PRTE_MCA_prte_keep_fqdn_hostnames": "true"}
    return found


def _kill_delay(grace: object) -> str:
    """Return how many seconds Open MPI 4.1 leaves ranks between its signals, 1 by default.

    When terminated it sends SIGCONT, SIGTERM and SIGKILL, and waits so long after each of the first two, whether or not
    ranks are left (4.1.8, measured): ranks have the second half of the grace period. 5.0 kills them at once.
    """
    return str(max(1, (grace - _OWN_END_S) // 2 if isinstance(grace, int) else 1))


def _intel(job: Job) -> dict[str, str]:
    return {
        **_intel_agent(job),
        "I_MPI_HYDRA_HOST_FILE": names.HOSTFILE,
        "I_MPI_HYDRA_BRANCH_COUNT": _at_once(job),  # above so many workers, workers would start workers
        "I_MPI_PERHOST": str(job.slots),
        **_lost_output(job),
        **_interface(job, "I_MPI_HYDRA_IFACE"),
    }


def _intel_agent(job: Job) -> dict[str, str]:
    if job.transport is Transport.SSH:
        own = {"I_MPI_HYDRA_BOOTSTRAP_EXEC": names.OWN_SSH} if has_own_ssh(job) else {}
        return {"I_MPI_HYDRA_BOOTSTRAP": "ssh", **own, "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": _SSH_OPTIONS}
    return {"I_MPI_HYDRA_BOOTSTRAP": "rsh", "I_MPI_HYDRA_BOOTSTRAP_EXEC": names.AGENT}


def _mpich(job: Job) -> dict[str, str]:
    agent = {"HYDRA_LAUNCHER": "rsh", "HYDRA_LAUNCHER_EXEC": names.AGENT}
    if job.transport is Transport.SSH:  # the last is kubeflow's name for the one before, which MPICH doesn't read
        options = {"HYDRA_LAUNCHER_EXTRA_ARGS": _SSH_OPTIONS, "HYDRA_LAUNCH_EXTRA_ARGS": _SSH_OPTIONS}
        agent = {"HYDRA_LAUNCHER": "ssh", **options}
    return {**agent, "HYDRA_HOST_FILE": names.HOSTFILE, **_lost_output(job), **_interface(job, "HYDRA_IFACE")}


# Open MPI 5.0 and Intel MPI have options only.
_TAGS = {
    Implementation.OPEN_MPI: {"OMPI_MCA_orte_tag_output": "1"},
    Implementation.MPICH: {"HYDRA_CONFIG_FILE": f"{names.CONFIG_PATH}/{HYDRA_OPTIONS}"},
}
_FAMILIES = {Implementation.OPEN_MPI: _open_mpi, Implementation.INTEL: _intel, Implementation.MPICH: _mpich}


def _lost_output(job: Job) -> dict[str, str]:
    """Fail a daemon whose stream was lost, and perhaps output with it, whatever its exit code.

    For Open MPI this is left to the agent, which knows its daemons: the same jobs run horovodrun.
    """
    return {"MPI_AGENT_LOST_OUTPUT": "fail"} if job.transport is Transport.EXEC else {}


def _interface(job: Job, variable: str) -> dict[str, str]:
    """Give workers the launcher's address, not its name. Container runtimes call a pod's first interface eth0."""
    is_hosts = job.launcher.template.get("spec", {}).get("hostNetwork")
    return {} if is_hosts else {variable: "eth0"}


def _at_once(job: Job) -> str:
    return str(max(_LEAST_AT_ONCE, job.worker.replicas))
