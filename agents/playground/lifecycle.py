"""The lifecycle of a pod whose manifest is carried out: init containers in turn, sidecars, main containers, the end.

It does what the kubelet does (pkg/kubelet/kuberuntime, KEP-753 for sidecars), except that probes by HTTP, TCP and gRPC
always succeed, and that liveness probes, resources and users of processes are ignored. Changes of config maps reach
the files immediately.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from .manifest import ManifestError
from .pod_status import ContainerState, status
from .resources import CONFIG_MAPS, PODS
from .runtime import StartError, WaitingError
from .volumes import MissingError

if TYPE_CHECKING:
    from .processes import Process
    from .runtime import PodRuntime
    from .sandbox import PodSandbox

Object = dict[str, Any]

_MISSING_AGAIN_S = 0.1
_WAITING_AGAIN_S = 5.0  # an image may be built meanwhile
_GRACE_S = 30.0
_START_ERROR = 128  # containerd's exit code of a container whose program can't be started


class PodLifecycle:
    """One pod's. It writes the pod's status."""

    def __init__(self, pod: PodSandbox, runtime: PodRuntime, thing: Object) -> None:
        self._loop = asyncio.get_running_loop()
        self._pod = pod
        self._runtime = runtime
        self._spec = thing["spec"]
        self._inits = [ContainerState(one, init=True) for one in self._spec.get("initContainers") or ()]
        self._mains = [ContainerState(one, init=False) for one in self._spec["containers"]]
        self._policy = self._spec.get("restartPolicy", "Always")
        self._phase = "Pending"
        self._start = pod.node.background(self._run())
        self._end: asyncio.Task[None] | None = None
        self._kill_at = 0.0
        self._until_kill: asyncio.Timeout | None = None
        self._is_over = False  # ended, or in other hands: nothing more is told
        self._unsubscribe = pod.node.store.subscribe(CONFIG_MAPS.key, lambda change: runtime.refill(change.after))

    # The start -------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        self._write_status()
        while True:
            try:
                await self._runtime.prepare()
                break
            except MissingError:  # config maps may come after the pods that show them
                await asyncio.sleep(_MISSING_AGAIN_S)
            except ManifestError as error:
                for one in (*self._inits, *self._mains):
                    one.wait("CreateContainerConfigError", str(error))
                self._write_status()
                return
        for one in self._inits:
            one.task = self._pod.node.background(self._keep_running(one))
            await one.lets_next_start.wait()
        for one in self._mains:
            one.task = self._pod.node.background(self._keep_running(one))

    async def _keep_running(self, one: ContainerState) -> None:
        """Run a container, again if the restart policy wants it, and draw the consequences of its end."""
        while not self._is_ending:
            one.wait("PodInitializing" if one.is_init else "ContainerCreating")
            code = await self._run_once(one)
            if self._is_ending:
                break
            if not (
                one.is_sidecar or (self._policy == "Always" and not one.is_init) or (code and self._policy != "Never")
            ):
                if one.is_init and code == 0:
                    one.lets_next_start.set()
                elif one.is_init or all(main.exit_code is not None for main in self._mains):
                    self._finish()
                break
            delay_s = one.back_off(self._pod.pod.name)
            self._write_status()
            await asyncio.sleep(delay_s)
        self._write_status()

    async def _run_once(self, one: ContainerState) -> int:
        """From a container's start to its end; returns its exit code."""
        if self._runtime.has_program(one.name):
            self._write_status()
            try:
                one.process = await self._started(one)
            except StartError as error:
                one.ended(_START_ERROR, reason="StartError", message=str(error))
                return _START_ERROR
        one.began()
        if not one.is_init:
            self._phase = "Running"
        if self._is_ending:
            self._signal(one)
        probing = self._pod.node.background(self._probe(one))
        try:
            code = await self._ended(one)
        finally:
            probing.cancel()
        if not self._is_over:
            reason = one.process.reason if one.process is not None else ""
            one.ended(code, reason=reason, message=self._runtime.termination_message(one.spec, failed=code != 0))
        return code

    async def _started(self, one: ContainerState) -> Process:
        """Start a container, once it can be. Raises StartError."""

        def report(text: str) -> None:
            if not self._is_ending:
                one.wait("ContainerCreating", text)
                self._write_status()

        while not self._is_ending:
            try:
                return await self._runtime.run(one.name, report)
            except WaitingError as error:
                one.wait(error.reason, error.message)
                self._write_status()
            await asyncio.sleep(_WAITING_AGAIN_S)
        raise StartError("the pod has ended")

    async def _ended(self, one: ContainerState) -> int:
        """Wait for the end of a container's process; for ever if it has none, as if its image's entrypoint slept."""
        if one.process is None:
            await asyncio.Event().wait()
            return 0
        return await one.process.wait()

    async def _probe(self, one: ContainerState) -> None:
        """Tell when a container is up and when it is ready; before, run its postStart hook."""
        hook = _hook(one, "postStart")
        if hook and not await self._runtime.command(one.name, hook):
            self._signal(one)  # the kubelet ends it too (FailedPostStartHook)
            return
        await self._success(one, "startupProbe")
        one.is_up = True
        if one.is_sidecar:
            one.lets_next_start.set()
        if "exec" in (one.spec.get("readinessProbe") or {}):
            self._write_status()
        await self._success(one, "readinessProbe")
        one.is_ready = True
        self._write_status()

    async def _success(self, one: ContainerState, kind: str) -> None:
        """Wait until the container's probe succeeds; one that is no command always does."""
        probe = one.spec.get(kind) or {}
        if "exec" not in probe:
            return
        await asyncio.sleep(float(probe.get("initialDelaySeconds", 0)))
        while not await self._runtime.command(one.name, probe["exec"]["command"]):
            await asyncio.sleep(float(probe.get("periodSeconds", 10)))

    # The end ---------------------------------------------------------------------------------------------------------

    @property
    def _is_ending(self) -> bool:
        return self._end is not None or self._is_over

    async def terminate(self, grace_s: float) -> None:
        """End all: hooks, TERM, and KILL after the grace; until no process is left."""
        if self._is_over:
            await self._runtime.end()
            return
        self._kill_at = self._loop.time() + grace_s
        if self._until_kill is not None:
            self._until_kill.reschedule(self._kill_at)
        self._finish()
        assert self._end is not None
        await self._end

    def release(self) -> None:
        """Leave the pod's status to someone else."""
        self._is_over = True
        self._start.cancel()
        self._unsubscribe()

    def _finish(self) -> None:
        if self._end is None:
            self._kill_at = self._kill_at or self._loop.time() + self._spec.get(
                "terminationGracePeriodSeconds", _GRACE_S
            )
            self._start.cancel()
            self._end = self._pod.node.background(self._stop_and_kill())

    async def _stop_and_kill(self) -> None:
        self._write_status()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self._kill_at) as self._until_kill:
                await self._stop()
        self._until_kill = None
        if not self._is_over:
            for one in (*self._inits, *self._mains):
                if one.is_running:
                    one.ended(137)
            self._phase = "Failed" if any(one.exit_code != 0 for one in self._mains) else "Succeeded"
            self._write_status()
            self.release()
        await self._runtime.end()

    async def _stop(self) -> None:
        """Run all hooks together, then send TERM; to sidecars when the others have ended."""
        sidecars = [one for one in self._inits if one.is_sidecar]
        others = [one for one in (*self._inits, *self._mains) if not one.is_sidecar]
        await asyncio.gather(*map(self._hook_and_stop, others), *map(self._hook, sidecars))
        await asyncio.gather(*map(self._stop_one, sidecars))

    async def _hook_and_stop(self, one: ContainerState) -> None:
        await self._hook(one)
        await self._stop_one(one)

    async def _hook(self, one: ContainerState) -> None:
        hook = _hook(one, "preStop")
        if one.is_running and hook:
            await self._runtime.command(one.name, hook)

    async def _stop_one(self, one: ContainerState) -> None:
        if one.is_running and one.process is not None and one.task is not None:
            self._signal(one)
            await asyncio.wait({one.task})

    def _signal(self, one: ContainerState) -> None:
        if one.process is not None:
            self._runtime.terminate(one.name)

    def _write_status(self) -> None:
        if self._is_over:
            return
        thing = self._pod.object()
        before = thing["status"]
        found = status(before, self._inits, self._mains, phase=self._phase, address=self._pod.address)
        if found != before:
            self._pod.node.store.replace(PODS.key, {**thing, "status": found})


def _hook(one: ContainerState, kind: str) -> list[str]:
    """The command of a hook; empty if there is none that is a command."""
    hook = ((one.spec.get("lifecycle") or {}).get(kind) or {}).get("exec") or {}
    return list(hook.get("command") or ())
