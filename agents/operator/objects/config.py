"""The job's ConfigMap (what launchers find in /etc/mpi), Secret (SSH keys) and headless Service (DNS names)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agents.job import tags
from agents.job.application import WRAP
from agents.job.json_object import Body
from agents.job.model import Dialect, Implementation, Job, Transport
from agents.kube.kinds import CONFIG_MAP, SECRET, SERVICE
from agents.operator.objects import names
from agents.operator.settings import PodSettings

HYDRA_OPTIONS = "hydra.conf"  # the file that MPICH's launcher reads further options from
_NOTHING = ":\n"
_NO_SLOTS, _BY_IP = "hostfile_noslots", "hostfile_ip"
_KUBEXEC = f"#!{names.TOOLS_PATH}/rshagent\n"
_WRAP = f'#!/bin/sh\nexec {names.PROGRAMS_PATH}/{WRAP} "$@"\n'
# Called as `ssh OPTIONS -x HOST COMMAND`; ssh has the command read by a shell, too.
_OWN_SSH = """\
#!/bin/sh
# ssh for a launcher that is a worker too: it has no sshd, and what is for itself is started here.
case " $* " in
*" -x {host} "*)
  until [ "$1" = -x ]; do shift; done
  shift 2
  exec /bin/sh -c "$*" ;;
esac
exec ssh "$@"
"""


def config_map(
    job: Job,
    settings: PodSettings,
    hosts: Sequence[int],
    running: Sequence[int] | None = None,
    addresses: Sequence[str] = (),
) -> Body:
    """Return the ConfigMap of a job whose workers have these indexes.

    `running`: those that run, if that is known. `addresses`: theirs, for a virtual cluster's hostfile by IP.
    """
    separator = " slots=" if job.implementation is Implementation.OPEN_MPI else ":"
    files = {"hostfile": "".join(f"{host}{separator}{job.slots}\n" for host in _hosts(job, settings, hosts))}
    if _has_options(job):
        files[HYDRA_OPTIONS] = " ".join(tags.OPTIONS[job.implementation]) + "\n"
    if job.has_application:  # whether or not a pod mounts it: the operator's setting may change
        files[WRAP] = _WRAP
    if job.dialect is Dialect.VIRTUAL:
        files[_NO_SLOTS] = "".join(f"{host}\n" for host in _hosts(job, settings, hosts))
        files[_BY_IP] = "".join(f"{address}{separator}{job.slots}\n" for address in addresses)
    if job.transport is Transport.SSH:
        files["discover_hosts.sh"] = "#!/bin/sh\n" + _echoed(job, settings, hosts if running is None else running)
        if has_own_ssh(job):
            files["ssh.sh"] = _OWN_SSH.format(host=names.launcher_host(job, settings))
    else:
        files["kubexec.sh"] = _KUBEXEC
        files["discover_hosts.sh"] = _asked_first(_echoed(job, settings, hosts))
    return {**names.new_object(CONFIG_MAP, job, job.config_name, settings), "data": files}


def launcher_files(job: Job) -> list[str]:
    """Return which of its files a launcher needs."""
    by_exec = ["kubexec.sh"] if job.transport is Transport.EXEC else []
    others = [_NO_SLOTS, _BY_IP] if job.dialect is Dialect.VIRTUAL else []
    others += [HYDRA_OPTIONS] if _has_options(job) else []
    return [*by_exec, "hostfile", *others, "discover_hosts.sh", *(["ssh.sh"] if has_own_ssh(job) else [])]


def has_own_ssh(job: Job) -> bool:
    """Return whether the launcher's MPI would call ssh for its own host, where no sshd is.

    Intel MPI knows itself by the name that its address has (getnameinfo): the one with the cluster's domain alone.
    """
    return job.transport is Transport.SSH and job.launcher_is_worker and job.implementation is Implementation.INTEL


def _has_options(job: Job) -> bool:
    return job.tags_output and job.implementation is Implementation.MPICH


def _echoed(job: Job, settings: PodSettings, hosts: Sequence[int]) -> str:
    return "".join(f"echo {host}:{job.slots}\n" for host in _hosts(job, settings, hosts))


def _hosts(job: Job, settings: PodSettings, hosts: Sequence[int]) -> Iterator[str]:
    if job.launcher_is_worker:
        yield names.launcher_host(job, settings)
    for index in hosts:
        yield names.worker_host(job, index, settings)


def _asked_first(lines: str) -> str:
    """Return elastic Horovod's script. The hub knows who is Ready; a mounted file is a minute old."""
    return f"#!/bin/sh\n{names.TOOLS_PATH}/rshagent --discover-hosts || {{\n{lines or _NOTHING}}}\n"


def secret(job: Job, settings: PodSettings) -> Body | None:
    """Return the Secret without `data`; None for a job that has no use for keys."""
    if job.transport is not Transport.SSH:
        return None
    return {**names.new_object(SECRET, job, job.secret_name, settings), "type": "kubernetes.io/ssh-auth"}


def service(job: Job, settings: PodSettings) -> Body:
    """Return the Service. Pods have their names before they are ready: daemons start in them as soon as they run."""
    return {
        **names.new_object(SERVICE, job, names.service_name(job), settings),
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {names.JOB_UID: job.uid}},
    }
