"""The life of a pod whose manifest is carried out: init containers in turn, sidecars, main containers, the end.

As the kubelet does it (pkg/kubelet/kuberuntime, KEP-753 for sidecars), but for probes by HTTP, TCP and gRPC, which are
taken to succeed, and for liveness probes, postStart hooks, resources and users, which are not looked at. Config maps'
changes reach the files at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
from functools import partial
from typing import TYPE_CHECKING, Any

from .boxes import Box, status
from .listeners import Command, Main
from .manifest import ManifestError
from .resources import CONFIG_MAPS
from .starting import Starter
from .volumes import MissingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from .kubelet import Kubelet
    from .live import LivePod
    from .loop import Loop, Timer
    from .volumes import Volumes

Object = dict[str, Any]

_MISSING_AGAIN_S = 0.1
_GRACE_S = 30.0


class Life:
    """One pod's. It tells of itself in the pod's status."""

    def __init__(self, loop: Loop, kubelet: Kubelet, live: LivePod, thing: Object, volumes: Volumes) -> None:
        self._loop = loop
        self._kubelet = kubelet
        self._live = live
        self._thing = thing
        self._starter = Starter(kubelet, live, thing, volumes)
        spec = thing["spec"]
        self._inits = [Box(one, init=True) for one in spec.get("initContainers") or ()]
        self._mains = [Box(one, init=False) for one in spec["containers"]]
        self._policy = spec.get("restartPolicy", "Always")
        self._phase = "Pending"
        self._ending = False
        self._kill: Timer | None = None
        self._then: list[Callable[[], None]] = []
        self.over = False  # ended, or in other hands: nothing more is told
        self._unsubscribe = kubelet.store.subscribe(CONFIG_MAPS.key, lambda change: self._starter.refill(change.after))

    # The start -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin; the namespaces come first."""
        self._tell()
        processes = self._kubelet.processes(self._live)
        processes.enter(self._entered)

    def _entered(self) -> None:
        if self._ending or self.over:
            return
        mounted = self._kubelet.processes(self._live).mounted
        try:
            self._starter.prepare(mounted=mounted)
        except MissingError:  # config maps may come after the pods that show them
            self._loop.call_later(_MISSING_AGAIN_S, self._entered)
            return
        except ManifestError as error:
            for box in (*self._inits, *self._mains):
                box.wait("CreateContainerConfigError", str(error))
            self._tell()
            return
        self._advance()

    def environ(self, container: str) -> dict[str, str] | None:
        """A container's environment; None if it is not known yet."""
        return self._starter.environ(container)

    # Containers ------------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Start whatever is next."""
        if self._ending or self.over:
            return
        for box in self._inits:
            if not box.is_begun:
                self._run(box)
            if not (box.is_up if box.is_sidecar else box.exit_code == 0):
                self._tell()
                return
        for box in self._mains:
            if not box.is_begun:
                self._run(box)
        self._tell()

    def _run(self, box: Box) -> None:
        box.is_begun = True
        program = self._starter.program(box.name)
        if not program:  # as if its image's entrypoint slept
            self.began(box, 0)
            return
        box.wait("ContainerCreating" if box in self._mains else "PodInitializing")
        self._starter.run(box.name, Main(partial(self.began, box), partial(self.ended, box), program))

    def began(self, box: Box, pid: int) -> None:
        """A container runs."""
        box.began(pid)
        processes = self._kubelet.processes(self._live)
        if pid:
            processes.main_pids.add(pid)
        if not box.is_init:
            self._phase = "Running"
        if self._ending:
            self._signal(box)
        self._probe(box, "startupProbe", lambda: self._up(box))

    def _up(self, box: Box) -> None:
        box.is_up = True
        self._probe(box, "readinessProbe", lambda: self._ready(box))
        self._advance()

    def _ready(self, box: Box) -> None:
        box.is_ready = True
        self._tell()

    def _probe(self, box: Box, kind: str, then: Callable[[], None]) -> None:
        """Call when the container's probe succeeds: at once if it has none that is a command."""
        probe = box.spec.get(kind) or {}
        pid = box.pid
        if "exec" not in probe:
            then()
            return

        def told(ok: bool) -> None:  # noqa: FBT001 - a callback
            if not box.is_running or box.pid != pid or self._ending:
                return
            if ok:
                then()
            else:
                self._loop.call_later(float(probe.get("periodSeconds", 10)), ask)

        def ask() -> None:
            if box.is_running and box.pid == pid and not self._ending:
                self._starter.command(box.name, probe["exec"]["command"], Command(told))

        self._loop.call_later(float(probe.get("initialDelaySeconds", 0)), ask)

    def ended(self, box: Box, code: int, reason: str = "", message: str = "") -> None:
        """A container's process is no more."""
        if self._live.processes is not None:
            self._live.processes.main_pids.discard(box.pid)
        if self.over:
            return
        box.ended(code, reason=reason, message=message or self._starter.last_words(box.name))
        if self._ending:
            self._next_end()
        elif box.is_sidecar or (self._policy == "Always" and not box.is_init) or (code and self._policy != "Never"):
            delay_s = box.back_off(self._live.pod.name)
            self._loop.call_later(delay_s, lambda: self._again(box))
            self._tell()
        elif box.is_init and code == 0:
            self._advance()
        elif box.is_init or all(one.exit_code is not None for one in self._mains):
            self._finish()
        else:
            self._tell()

    def _again(self, box: Box) -> None:
        if not self._ending and not self.over and not box.is_running:
            self._run(box)
            self._tell()

    # The end ---------------------------------------------------------------------------------------------------------

    def terminate(self, grace_s: float, then: Callable[[], None]) -> None:
        """End all: hooks, TERM, and KILL after the grace; call when no process is left."""
        self._then.append(then)
        if self.over:
            self._over()
            return
        if self._kill is not None:
            self._kill.cancel()
        self._kill = self._loop.call_later(grace_s, self._over)
        if not self._ending:
            self._finish()

    def release(self) -> None:
        """Leave the pod's status to someone else."""
        self.over = True
        self._unsubscribe()

    def _finish(self) -> None:
        """Main containers are told to end, sidecars when those have; hooks are run first, all at once."""
        self._ending = True
        if self._kill is None:
            grace_s = float(self._thing["spec"].get("terminationGracePeriodSeconds", _GRACE_S))
            self._kill = self._loop.call_later(grace_s, self._over)
        for box in (*self._inits, *self._mains):
            hook = ((box.spec.get("lifecycle") or {}).get("preStop") or {}).get("exec")
            if box.is_running and hook:
                self._starter.command(box.name, hook["command"], Command(partial(self._hooked, box)))
            else:
                self._hooked(box)
        self._tell()
        self._next_end()

    def _hooked(self, box: Box, _ok: bool = True) -> None:  # noqa: FBT001, FBT002 - a callback
        box.may_end = True
        if not box.is_sidecar or not self._mains_run():
            self._signal(box)
        self._next_end()

    def _mains_run(self) -> bool:
        return any(box.is_running and box.pid for box in (*self._mains, *self._inits) if not box.is_sidecar)

    def _signal(self, box: Box) -> None:
        if box.is_running and box.pid and box.may_end:
            with contextlib.suppress(ProcessLookupError):
                os.kill(box.pid, signal.SIGTERM)

    def _next_end(self) -> None:
        """After one container's end: the sidecars' turn, or the pod's."""
        if self.over or self._mains_run():
            return
        sidecars = [box for box in self._inits if box.is_sidecar and box.is_running and box.pid]
        if not sidecars:
            self._over()
        for box in sidecars:
            self._signal(box)

    def _over(self) -> None:
        """Kill what is left, and tell the last status."""
        if self._kill is not None:
            self._kill.cancel()
        if not self.over:
            for box in (*self._inits, *self._mains):
                if box.is_running:
                    box.ended(137)
            failed = any(box.exit_code for box in self._mains) or any(box.exit_code is None for box in self._mains)
            self._phase = "Failed" if failed else "Succeeded"
            self._tell()
            self.release()
        then, self._then = self._then, []

        def gone() -> None:
            for call in then:
                call()

        if self._live.processes is None:
            gone()
        else:
            self._live.processes.end(gone)

    def _tell(self) -> None:
        if self.over:
            return
        before = self._kubelet.object(self._live)
        found = status(before["status"], self._inits, self._mains, phase=self._phase, address=self._live.address)
        if found != before["status"]:
            self._kubelet.write_status(self._live, found)
