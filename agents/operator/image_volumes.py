"""Whether our programs come into pods by image volumes, or init containers copy them.

Image volumes are stable in Kubernetes 1.36. The API server, and each node that the scheduler may choose, must have them
(KEP-4639).
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum

from agents.job.json_object import Body, part
from agents.kube.api import Api
from agents.kube.errors import ApiError, RejectedError
from agents.operator.settings import PodSettings

_LOG = logging.getLogger(__name__)
_CHECK_S = 300.0
_KUBERNETES = (1, 36)
_RUNTIMES = {"containerd": (2, 1), "cri-o": (1, 33)}
_NODES = "/api/v1/nodes"


class ProgramDelivery(StrEnum):
    """How our programs come into pods: by image volumes, by init containers, or as the cluster allows."""

    AUTO = "auto"
    IMAGE = "image"
    INIT = "init"


def obstacle(server: str, nodes: Iterable[Body]) -> str:
    """Return why pods can't have image volumes, "" if they can. `server`: the API server's version, as v1.37.2."""
    if _number(server) < _KUBERNETES:
        return f"the API server is {server or 'of an unknown version'}, and image volumes need Kubernetes 1.36"
    is_any = False
    for node in nodes:
        if part(node, "spec").get("unschedulable") is True or _info(node, "operatingSystem") == "windows":
            continue
        is_any = True
        if missing := _missing(_info(node, "kubeletVersion"), _info(node, "containerRuntimeVersion")):
            return f"node {part(node, 'metadata').get('name', '')} has {missing}"
    return "" if is_any else "no node is schedulable"


def _missing(kubelet: str, runtime: str) -> str:
    name, _, version = runtime.partition("://")
    if _number(kubelet) < _KUBERNETES:
        return f"kubelet {kubelet or 'of an unknown version'}, and image volumes need 1.36"
    if name not in _RUNTIMES:
        return f"the container runtime {runtime or 'unknown'}, and image volumes need containerd 2.1 or CRI-O 1.33"
    if _number(version) < _RUNTIMES[name]:
        return f"{name} {version}, and image volumes need {'.'.join(map(str, _RUNTIMES[name]))}"
    return ""


def _number(version: str) -> tuple[int, int]:
    found = re.match(r"v?(\d+)\.(\d+)", version, re.ASCII)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _info(node: Body, key: str) -> str:
    return str(part(node, "status", "nodeInfo").get(key, ""))


class ImageVolumes:
    """Finds out, at the start and then every five minutes, whether to use image volumes."""

    def __init__(self, api: Api, wanted: ProgramDelivery, stop: threading.Event) -> None:
        self._api, self._wanted, self._stop = api, wanted, stop
        self._obstacle = "" if wanted is ProgramDelivery.IMAGE else None  # None: init containers without a reason

    def start(self) -> None:
        """Find out for the first time, and then repeatedly, if that depends on the cluster."""
        if self._wanted is ProgramDelivery.AUTO:
            self.look()
            threading.Thread(target=self._run, name="image-volumes", daemon=True).start()

    def applied(self, settings: PodSettings) -> PodSettings:
        """Return the settings with the current decision."""
        return replace(settings, has_image_volumes=self._obstacle == "", fallback=self._obstacle or "")

    def look(self) -> None:
        """Find out now. While the API server does not answer, the last decision stays."""
        try:
            version = str(self._api.get("/version").get("gitVersion", ""))
            found = obstacle(version, self._api.items(_NODES, _trimmed))
        except ApiError as error:
            if self._obstacle is not None and not isinstance(error, RejectedError):
                return
            found = f"the nodes can't be listed: {error}"
        if found != self._obstacle:
            _LOG.info("programs come into pods by %s", f"init containers: {found}" if found else "image volumes")
        self._obstacle = found

    def _run(self) -> None:
        while not self._stop.wait(_CHECK_S):
            self.look()


def _trimmed(node: Body) -> Body:
    info = {"nodeInfo": part(node, "status", "nodeInfo")}
    return {"metadata": {"name": part(node, "metadata").get("name")}, "spec": part(node, "spec"), "status": info}
