"""What the handle can ask of the server. The requests are named and described as `Cluster`'s methods are."""

from __future__ import annotations

import base64
import contextlib
import inspect
import os
import traceback
from typing import TYPE_CHECKING, Any

from . import access, pods, statuses
from .faults import Fault, reset
from .process_runtime import ProcessRuntime
from .processes import command_line
from .resources import PODS
from .store import ExistsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from .api import Api
    from .kubelet import LivePod
    from .listener import Listener
    from .processes import Process

Object = dict[str, Any]


class NotStartedError(Exception):
    """A process of the handle can't be started: the answer's message."""


class Control:
    """Carries requests out."""

    def __init__(self, api: Api, listener: Listener) -> None:
        self._api = api
        self._listener = listener
        self._requests: dict[str, Callable[..., Any]] = {
            "create": self._create,
            "delete": self._delete,
            "set_state": self._set_state,
            "pod": self._pod,
            "enter": self._enter,
            "leftovers": self._leftovers,
            "exec": self._exec,
            "processes": self._processes,
            "token": lambda token, **user: api.access.add_token(token, access.user(**user)),
            "account": api.kubelet.node.issue_token,
            "revoke": api.access.revoke_token,
            "certificate": lambda **user: api.access.add_certificate(access.user(**user)),
            "fault": lambda data, **fields: api.faults.add(Fault(data=base64.b64decode(data), **fields)),
            "clear_faults": api.faults.clear,
            "streams": self._streams,
            "watches": self._watches,
            "listen": self._listen,
            "cut": self._cut,
            "changes": self._changes,
            "stats": self._stats,
            "commands": lambda: api.counters.commands,
            "reset_stats": api.counters.reset,
        }

    async def answer(self, message: dict[str, Any], fds: list[int]) -> Object:
        """Do what the message asks, and answer, whatever happens: the handle waits for it."""
        number = message.pop("number")
        try:
            found = self._requests[message.pop("do")](**message, **({"fds": fds} if fds else {}))
            return {"ok": await found if inspect.isawaitable(found) else found, "number": number}
        except NotStartedError as error:
            told = str(error)
        except (KeyError, ValueError, TypeError, ExistsError) as error:
            told = f"{type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001 - counted and shown as any error of the stand-in itself
            self._api.counters.errors += 1
            traceback.print_exc()
            told = f"{type(error).__name__}: {error}"
        finally:
            for fd in fds:
                os.close(fd)
        return {"error": told, "number": number}

    # Pods ------------------------------------------------------------------------------------------------------------

    def _live(self, name: str, namespace: str) -> LivePod:
        return self._api.kubelet.find(namespace, name)

    def _create(self, pod: dict[str, Any]) -> Object:
        containers = [pods.Container(**one) for one in pod.pop("containers")]
        return self._api.kubelet.create(pods.Pod(**pod, containers=containers))

    async def _delete(self, name: str, namespace: str, grace_s: float, streams: str) -> None:
        live = self._live(name, namespace)
        for session, uid in self._api.sessions.items():
            if streams == "freeze" and uid == live.uid:
                session.disturb("hold")
        await self._api.kubelet.delete(live, grace_s)

    def _set_state(self, name: str, namespace: str, state: str, message: str, exit_code: int | None) -> None:
        live = self._live(name, namespace)
        live.steps_over = True
        self._api.kubelet.set_state(live, state, message=message, exit_code=exit_code)

    def _pod(self, name: str, namespace: str) -> Object:
        live = self._live(name, namespace)
        thing = self._api.store.get(PODS.key, namespace, name)
        return {"object": thing, "folder": live.folder, "address": live.address}

    async def _enter(self, name: str, namespace: str) -> bool:
        processes = self._live(name, namespace).processes
        await processes.enter()
        return processes.mounted

    def _leftovers(self, name: str, namespace: str) -> list[Object]:
        pids = sorted(self._api.kubelet.leftovers(self._live(name, namespace)))
        return [{"pid": pid, "argv": command_line(pid)} for pid in pids]

    async def _exec(
        self,
        name: str,
        namespace: str,
        container: str,
        argv: list[str],
        environ: dict[str, str],
        folder: str | None,
        fds: list[int],
    ) -> int:
        """Start a process with the handle's first three descriptors; its exit code is written to the fourth."""
        live = self._live(name, namespace)
        if not isinstance(live.runtime, ProcessRuntime):
            raise NotStartedError("the pod is made of containers")
        full = live.runtime.environ(container)
        full |= {os.fsencode(key): os.fsencode(value) for key, value in environ.items()}
        words = [os.fsencode(word) for word in argv]
        try:
            process = await live.processes.exec(words, full, folder or live.home, fds[:3])
        except OSError as error:
            raise NotStartedError(statuses.runtime_error(argv[0], error.errno or 0)) from error
        if not process.pid:
            raise NotStartedError("the pod has ended")
        live.node.background(self._report(process, os.dup(fds[3])))
        return process.pid

    async def _report(self, process: Process, notify: int) -> None:
        code = await process.wait()
        with contextlib.suppress(OSError):  # nobody waits for it
            os.write(notify, str(code).encode())
        os.close(notify)

    # Faults ----------------------------------------------------------------------------------------------------------

    def _streams(self, kind: str, pod: str | None) -> int:
        uids = {live.uid for live in self._api.kubelet.all() if pod in {None, live.pod.name}}
        chosen = [one for one, uid in self._api.sessions.items() if uid in uids and one.is_live]
        for session in chosen:
            session.disturb(kind)
        return len(chosen)

    def _watches(self, kind: str, data: str) -> int:
        chosen = tuple(self._api.watches)
        for watch in chosen:
            if kind == "cut":
                reset(watch.request)
            elif kind == "end":
                watch.end()
            elif kind == "stall":
                watch.stalled = True
            elif kind == "raw":
                watch.raw(base64.b64decode(data))
            elif kind == "expire":
                watch.fail(statuses.expired())
        if kind == "expire":
            self._api.store.forget()
            self._api.objects.lister.forget_pages()
        return len(chosen)

    async def _listen(self, *, on: bool) -> None:
        if on:
            await self._listener.open()
        else:
            self._listener.close()

    def _cut(self) -> int:
        chosen = self._listener.connections
        for connection in chosen:
            reset(connection)
        return len(chosen)

    # What was seen ---------------------------------------------------------------------------------------------------

    def _changes(self, after: int, keys: list[str]) -> list[tuple[str, str, Object]]:
        found = sorted((one for key in keys for one in self._api.store.since(key, after)), key=lambda one: one.version)
        return [(one.key, one.kind, one.after) for one in found]

    def _stats(self) -> Object:
        now = {"watches": len(self._api.watches), "connections": len(self._listener.connections)}
        return self._api.counters.report() | now

    def _processes(self) -> Object:
        shims = [live.processes.pid for live in self._api.kubelet.all() if live.processes.pid]
        return {"zygote": self._api.kubelet.node.zygote.pid, "shims": shims}
