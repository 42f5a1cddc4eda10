"""A pod that is there, and its containers' own processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .statuses import runtime_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from . import pods
    from .kubelet import Kubelet
    from .lifecycle import Life
    from .processes import PodProcesses


class LivePod:
    """A pod that is there: its object is in the store, its processes here."""

    def __init__(self, pod: pods.Pod, uid: str, address: str, folder: str) -> None:
        self.pod = pod
        self.uid = uid
        self.address = address
        self.folder = folder
        self.processes: PodProcesses | None = None
        self.main_exit_codes: dict[str, int] = {}
        self.main_listeners: dict[str, MainProcess] = {}
        self.steps_over = False  # what comes next is not decided by the pod's steps any more
        self.ended = False  # its processes are being killed
        self.life: Life | None = None  # of a pod that came by the API
        self.mains_over: Callable[[], None] | None = None  # called when the last main process has ended


class MainProcess:
    """A container's own process. Its end ends the container."""

    def __init__(self, kubelet: Kubelet, live: LivePod, container: pods.Container) -> None:
        self._kubelet = kubelet
        self._live = live
        self.container = container
        self.pid = 0

    def started(self, pid: int) -> None:
        """It runs."""
        self.pid = pid
        if self._live.processes is not None:
            self._live.processes.main_pids.add(pid)

    def failed(self, error: int) -> None:
        """The runtime could not start it."""
        words = runtime_error((self.container.command or [""])[0], error)
        self._kubelet.set_state(self._live, "run-error", message=f"failed to create containerd task: {words}")

    def exited(self, code: int) -> None:
        """It ended."""
        if self._live.processes is not None:
            self._live.processes.main_pids.discard(self.pid)
            if self._live.mains_over is not None and not self._live.processes.main_pids:
                mains_over, self._live.mains_over = self._live.mains_over, None
                mains_over()
        self._kubelet.container_ended(self._live, self.container, code)
