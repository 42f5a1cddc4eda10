"""What the handle can ask of the server: methods here, described as `Cluster`'s are, or of the server's parts."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import traceback
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from . import access, statuses
from .faults import reset
from .pod_process import Leftover
from .process_runtime import ProcessRuntime
from .processes import command_line
from .request import Request
from .resources import PODS
from .rest import Response
from .store import ExistsError

if TYPE_CHECKING:
    from .api import Api
    from .listener import Listener
    from .processes import Process

Object = dict[str, Any]

_ANYTHING = access.user("mpi-playground", ["*"])


class NotDoneError(Exception):
    """What is asked for can't be done: the answer's message."""


class Control:
    """Carries requests out."""

    def __init__(self, api: Api, listener: Listener) -> None:
        self._api = api
        self._listener = listener

    async def answer(self, message: dict[str, Any], fds: list[int]) -> Object:
        """Do what the message asks, and answer, whatever happens: the handle waits for it."""
        number = message.pop("number")
        try:
            found = attrgetter("_" + message.pop("do"))(self)(**message, **({"fds": fds} if fds else {}))
            return {"ok": await found if inspect.isawaitable(found) else found, "number": number}
        except NotDoneError as error:
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

    def _request(self, method: str, path: str, body: Object | None) -> Object:
        """Answer a request to the API as its user who may do everything."""
        data = b"" if body is None else json.dumps(body).encode()
        answer = self._api.objects.handle(Request(method, path, {"user-agent": _ANYTHING.name}, data), _ANYTHING)
        assert isinstance(answer, Response)
        found: Object = json.loads(answer.body)
        if answer.code >= 300:
            raise NotDoneError(found["message"])
        return found

    # Pods ------------------------------------------------------------------------------------------------------------

    async def _delete(self, name: str, namespace: str, streams: str) -> None:
        live = self._api.kubelet.find(namespace, name)
        for session, uid in self._api.sessions.items():
            if streams == "freeze" and uid == live.uid:
                session.disturb("hold")
        await self._api.kubelet.delete(live)

    def _set_state(self, name: str, namespace: str, state: str, exit_code: int | None) -> None:
        self._api.kubelet.set_state(self._api.kubelet.find(namespace, name), state, exit_code=exit_code)

    def _pod(self, name: str, namespace: str) -> Object:
        live = self._api.kubelet.find(namespace, name)
        thing = self._api.store.get(PODS.key, namespace, name)
        return {"object": thing, "folder": live.folder, "address": live.address}

    async def _enter(self, name: str, namespace: str) -> bool:
        processes = self._api.kubelet.find(namespace, name).processes
        await processes.enter()
        return processes.mounted

    def _leftovers(self, name: str, namespace: str) -> list[Leftover]:
        processes = self._api.kubelet.find(namespace, name).processes
        return [Leftover(pid, command_line(pid)) for pid in sorted(processes.tree() - processes.main_pids)]

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
        live = self._api.kubelet.find(namespace, name)
        if not isinstance(live.runtime, ProcessRuntime):
            raise NotDoneError("the pod is made of containers")
        full = live.runtime.environ(container)
        full |= {os.fsencode(key): os.fsencode(value) for key, value in environ.items()}
        words = [os.fsencode(word) for word in argv]
        try:
            process = await live.processes.exec(words, full, folder or live.home, fds[:3])
        except OSError as error:
            raise NotDoneError(statuses.runtime_error(argv[0], error.errno or 0)) from error
        if not process.pid:
            raise NotDoneError("the pod has ended")
        live.node.background(self._report(process, os.dup(fds[3])))
        return process.pid

    async def _report(self, process: Process, notify: int) -> None:
        code = await process.wait()
        with contextlib.suppress(OSError):  # nobody waits for it
            os.write(notify, str(code).encode())
        os.close(notify)

    # Access ----------------------------------------------------------------------------------------------------------

    def _token(self, token: str, **user: Any) -> None:
        self._api.access.add_token(token, access.user(**user))

    # Faults ----------------------------------------------------------------------------------------------------------

    def _cut_streams(self, pod: str) -> int:
        uids = {live.uid for live in self._api.kubelet.all() if live.pod.name == pod}
        chosen = [one for one, uid in self._api.sessions.items() if uid in uids]
        for session in chosen:
            session.disturb("cut")
        return len(chosen)

    def _watches(self, kind: str, data: bytes) -> int:
        chosen = tuple(self._api.watches)
        for watch in chosen:
            if kind == "cut":
                reset(watch.request)
            elif kind == "end":
                watch.end()
            elif kind == "raw":
                watch.raw(data)
            elif kind == "expire":
                watch.fail(statuses.expired())
        if kind == "expire":
            self._api.store.forget()
            self._api.objects.lister.forget_pages()
        return len(chosen)

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
        return {**self._api.counters.report(), "watches": len(self._api.watches)}

    def _processes(self) -> Object:
        shims = [live.processes.pid for live in self._api.kubelet.all() if live.processes.pid]
        return {"zygote": self._api.kubelet.node.zygote.pid, "shims": shims}
