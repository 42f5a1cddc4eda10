"""What the handle can ask of the server: one method for each request, named as there. What it returns is the answer."""

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
    from .api import Api
    from .kubelet import LivePod
    from .listener import Listener
    from .processes import Process

Object = dict[str, Any]


class NotStartedError(Exception):
    """A process of the handle can't be started: the answer's words."""


class Control:
    """Carries requests out."""

    def __init__(self, api: Api, listener: Listener) -> None:
        self._api = api
        self._listener = listener

    async def answer(self, message: dict[str, Any], fds: list[int]) -> Object:
        """Do what the message asks, and answer, whatever happens: the handle waits for it."""
        number = message.pop("number")
        try:
            found = getattr(self, f"do_{message.pop('do')}")(**message, **({"fds": fds} if fds else {}))
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

    def _live(self, name: str, namespace: str) -> LivePod:
        return self._api.kubelet.find(namespace, name)

    # Pods ------------------------------------------------------------------------------------------------------------

    def do_create(self, pod: dict[str, Any]) -> Object:
        """Create a pod."""
        containers = [pods.Container(**one) for one in pod.pop("containers")]
        return self._api.kubelet.create(pods.Pod(**pod, containers=containers))

    async def do_delete(self, name: str, namespace: str, grace_s: float, streams: str) -> None:
        """Delete a pod; the answer comes when it is gone."""
        live = self._live(name, namespace)
        for session, uid in self._api.sessions.items():
            if streams == "freeze" and uid == live.uid:
                session.disturb("hold")
        await self._api.kubelet.delete(live, grace_s)

    def do_set_state(self, name: str, namespace: str, state: str, message: str, exit_code: int | None) -> None:
        """Put a pod in a state, whatever its steps were to bring."""
        live = self._live(name, namespace)
        live.steps_over = True
        self._api.kubelet.set_state(live, state, message=message, exit_code=exit_code)

    def do_pod(self, name: str, namespace: str) -> Object:
        """The API object and what is behind it."""
        live = self._live(name, namespace)
        thing = self._api.store.get(PODS.key, namespace, name)
        return {"object": thing, "folder": live.folder, "address": live.address}

    async def do_enter(self, name: str, namespace: str) -> bool:
        """Start the pod's shim; whether its mounts are there."""
        processes = self._live(name, namespace).processes
        await processes.enter()
        return processes.mounted

    def do_leftovers(self, name: str, namespace: str) -> list[Object]:
        """Live processes of a pod other than its main ones."""
        pids = sorted(self._api.kubelet.leftovers(self._live(name, namespace)))
        return [{"pid": pid, "argv": command_line(pid)} for pid in pids]

    async def do_exec(
        self,
        name: str,
        namespace: str,
        container: str,
        argv: list[str],
        environ: dict[str, str],
        folder: str | None,
        fds: list[int],
    ) -> int:
        """Start a process in a pod, its stdio the handle's own; its exit code is written to the fourth descriptor."""
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

    # Access ----------------------------------------------------------------------------------------------------------

    def do_token(self, token: str, user: str, rules: list[str], namespace: str | None) -> None:
        """Accept a bearer token."""
        self._api.access.add_token(token, access.user(user, rules, namespace))

    def do_account(self, account: str, namespace: str) -> str:
        """A new token of a ServiceAccount."""
        return self._api.kubelet.node.issue_token(namespace, account)

    def do_revoke(self, token: str) -> None:
        """Refuse a token from now on."""
        self._api.access.revoke_token(token)

    def do_certificate(self, user: str, rules: list[str], namespace: str | None) -> None:
        """Accept client certificates of this common name."""
        self._api.access.add_certificate(access.user(user, rules, namespace))

    # Faults ----------------------------------------------------------------------------------------------------------

    def do_fault(self, data: str, **fields: Any) -> None:
        """Set a fault."""
        self._api.faults.add(Fault(data=base64.b64decode(data), **fields))

    def do_clear_faults(self) -> None:
        """No more faults."""
        self._api.faults.clear()

    def do_streams(self, kind: str, pod: str | None) -> int:
        """Cut, freeze, silence or hold the open exec streams of a pod (None: of all). Returns how many."""
        uids = {live.uid for live in self._api.kubelet.all() if pod in {None, live.pod.name}}
        chosen = [one for one, uid in self._api.sessions.items() if uid in uids and one.is_live]
        for session in chosen:
            session.disturb(kind)
        return len(chosen)

    def do_watches(self, kind: str, data: str) -> int:
        """Cut, end, stall or expire the open watches, or send bytes on them. Returns how many."""
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

    async def do_listen(self, *, on: bool) -> None:
        """Accept new connections, or refuse them."""
        if on:
            await self._listener.open()
        else:
            self._listener.close()

    def do_cut(self) -> int:
        """Reset every connection. Returns how many."""
        chosen = self._listener.connections
        for connection in chosen:
            reset(connection)
        return len(chosen)

    # Counters --------------------------------------------------------------------------------------------------------

    def do_stats(self) -> Object:
        """The counters."""
        now = {"watches": len(self._api.watches), "connections": len(self._listener.connections)}
        return self._api.counters.report() | now

    def do_commands(self) -> list[Object]:
        """The commands seen."""
        return self._api.counters.commands

    def do_reset(self) -> None:
        """Count anew."""
        self._api.counters.reset()

    def do_processes(self) -> Object:
        """The server's own process ids, for the benchmark: zygote and shims."""
        shims = [live.processes.pid for live in self._api.kubelet.all() if live.processes.pid]
        return {"zygote": self._api.kubelet.node.zygote.pid, "shims": shims}
