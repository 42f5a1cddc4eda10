"""The operator's settings for the pods of all jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agents.job.model import Tool
from rshagent import __version__

FIELD_MANAGER = "mpi-agents"  # of all that the operator writes
# A service mesh's sidecar that is a native one starts before hub and delivery and ends after the launcher. Daemons and
# ranks call each other on any port, at addresses that the proxy would hide; the API server's port is left to hub and
# delivery. Injectors alone read these.
MESH: Mapping[str, str] = {
    "sidecar.istio.io/nativeSidecar": "true",
    "traffic.sidecar.istio.io/includeInboundPorts": "",
    "traffic.sidecar.istio.io/excludeOutboundPorts": "443",
    "config.beta.linkerd.io/proxy-enable-native-sidecar": "true",
    "config.linkerd.io/skip-inbound-ports": "1-65535",
    "config.linkerd.io/skip-outbound-ports": "443",
}


@dataclass(frozen=True, slots=True)
class PodSettings:
    """What goes into the objects of every job. An empty text: not set."""

    image: str  # of all injected containers
    kubectl_image: str = ""  # the same with kubectl in its tools; "": `image` with -kubectl behind its tag
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    cluster_domain: str = ""  # "" names hosts as NAME.SERVICE.NAMESPACE.svc
    gang_scheduler: str = ""  # "", "volcano", or the name of a scheduler with scheduler-plugins' coscheduling
    has_worker_agent: bool = True  # in SSH jobs by default
    cpu_limit: str = "1"  # of each injected container, except in Guaranteed pods
    run_as_user: int | None = 65532  # of injected containers, except what sets up SSH; None: the platform assigns it
    annotations: Mapping[str, str] = field(default_factory=lambda: dict(MESH))  # of all pods; a template's own win
    wait_timeout: str = ""  # MPI_AGENT_WAIT_TIMEOUT of delivery
    owner_version: str = ""  # API version in owner references; "": the version that the job was read by
    tools: tuple[Tool, ...] = ()  # in launchers by default
    has_image_volumes: bool = False  # our programs are in volumes of our image; otherwise init containers copy them
    fallback: str = ""  # why image volumes are not used, if the operator has found that out: an event of the jobs

    @property
    def image_with_kubectl(self) -> str:
        """Return the image with kubectl. A digest can't be mapped to it: then the tag is the release's."""
        folder, slash, name = self.image.partition("@")[0].rpartition("/")
        name, _, tag = name.partition(":")
        return self.kubectl_image or f"{folder}{slash}{name}:{tag or __version__}-kubectl"
