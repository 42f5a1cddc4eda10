"""A worker's pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agents.job.model import WORKER, Dialect, Transport
from agents.job.modes import WAIT
from agents.operator.kinds import POD
from agents.operator.objects import environment, metadata, names, pod, sshd, worker_agent

if TYPE_CHECKING:
    from agents.job.model import Job
    from agents.operator.settings import PodSettings


def worker(job: Job, index: int, settings: PodSettings) -> dict[str, Any]:
    """Return the pod of the worker with this index."""
    name = job.worker_name(index)
    body = pod.from_template(job, job.worker, settings, metadata.pod_labels(job, WORKER, index))
    spec = body["spec"]
    pod.name_host(job, settings, spec, names.worker_hostname(job, index))
    main = pod.main_container(job, spec)
    pod.set_environment(main, environment.worker(job))
    if job.transport is Transport.SSH:
        sshd.set_command(job, main)
        sshd.declare_port(job, spec, main)
    else:
        _let_wait(job, main)
        config = pod.add_volume(spec, names.CONFIG_VOLUME, pod.config_volume(job, pod.WORKER_FILES))
        pod.mount(main, config, names.CONFIG_PATH)
    worker_agent.add(job, settings, spec)
    if job.debug is not None:  # what is started by hand is its user's to end
        body["metadata"]["annotations"].setdefault(worker_agent.ORDER, "debug")
    about = {
        "name": name,
        "namespace": job.namespace,
        **body["metadata"],
        "ownerReferences": [metadata.owner(POD, job, settings)],
    }
    return {"apiVersion": POD.api_version, "kind": POD.name, "metadata": about, "spec": spec}


def _let_wait(job: Job, container: dict[str, Any]) -> None:
    """Have a container without a command wait. Arguments alone are no command in v1, and the image's in v2beta1."""
    if container.get("command") or (job.dialect is Dialect.V2BETA1 and container.get("args")):
        return
    container["command"] = list(WAIT)
    container.pop("args", None)
