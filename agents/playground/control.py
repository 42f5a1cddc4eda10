"""What the handle can ask of the server: one method for each request, named as there."""

from __future__ import annotations

import base64
import contextlib
import os
from typing import TYPE_CHECKING, Any

from . import access, pods, statuses
from .faults import Fault
from .processes import command_line
from .resources import PODS
from .statuses import runtime_error
from .store import ExistsError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .api import Api
    from .live import LivePod
    from .processes import Nursery

Reply = dict[str, Any]


class Control:
    """Carries requests out. A method returns its answer, or None if it will reply later by itself."""

    def __init__(self, api: Api, nursery: Nursery) -> None:
        self._api = api
        self._nursery = nursery
        self._reply: Callable[[Reply], None] = lambda _reply: None
        self._fds: Sequence[int] = ()
        self.listen: Callable[..., None] = lambda **_on: None

    def carry_out(self, message: dict[str, Any], fds: list[int], reply: Callable[[Reply], None]) -> None:
        """Do what the message asks, and reply."""
        self._reply, self._fds = reply, fds
        try:
            answer = getattr(self, f"do_{message.pop('do')}")(**message)
        except (KeyError, ValueError, TypeError, ExistsError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        if answer is not None:
            reply(answer if "error" in answer else {"ok": answer["ok"]})
        for fd in fds:
            os.close(fd)

    def _live(self, name: str, namespace: str) -> LivePod:
        return self._api.kubelet.find(namespace, name)

    # Pods ------------------------------------------------------------------------------------------------------------

    def do_create(self, pod: dict[str, Any]) -> Reply:
        """Create a pod."""
        containers = [pods.Container(**one) for one in pod.pop("containers")]
        return {"ok": self._api.kubelet.create(pods.Pod(**pod, containers=containers))}

    def do_delete(self, name: str, namespace: str, grace_s: float, streams: str) -> Reply | None:
        """Delete a pod; the answer comes when it is gone."""
        live = self._live(name, namespace)
        if streams == "freeze":
            for session, uid in self._api.sessions.items():
                if uid == live.uid:
                    session.suffer("hold")
        reply = self._reply
        self._api.kubelet.delete(live, lambda: reply({"ok": None}), grace_s=grace_s)
        return None

    def do_set_state(self, name: str, namespace: str, state: str, message: str, exit_code: int | None) -> Reply:
        """Put a pod in a state, whatever its steps were to bring."""
        live = self._live(name, namespace)
        live.steps_over = True
        self._api.kubelet.set_state(live, state, message=message, exit_code=exit_code)
        return {"ok": None}

    def do_pod(self, name: str, namespace: str) -> Reply:
        """The API object and what is behind it."""
        live = self._live(name, namespace)
        return {
            "ok": {
                "object": self._api.store.get(PODS.key, namespace, name),
                "folder": live.folder,
                "address": live.address,
            }
        }

    def do_enter(self, name: str, namespace: str) -> Reply | None:
        """Start the pod's shim; the answer tells whether its mounts are there."""
        processes = self._api.kubelet.processes(self._live(name, namespace))
        reply = self._reply
        processes.enter(lambda: reply({"ok": processes.mounted}))
        return None

    def do_leftovers(self, name: str, namespace: str) -> Reply:
        """Live processes of a pod other than its main ones."""
        pids = sorted(self._api.kubelet.leftovers(self._live(name, namespace)))
        return {"ok": [{"pid": pid, "argv": command_line(pid)} for pid in pids]}

    def do_exec(
        self, name: str, namespace: str, container: str, argv: list[str], environ: dict[str, str], folder: str | None
    ) -> Reply | None:
        """Start a process in a pod, its stdio the handle's own; its exit code is written to the fourth descriptor."""
        live = self._live(name, namespace)
        full = self._api.kubelet.environ(live, container)
        full |= {os.fsencode(key): os.fsencode(value) for key, value in environ.items()}
        listener = LocalProcess(argv[0], os.dup(self._fds[3]), self._reply)
        words = [os.fsencode(word) for word in argv]
        processes = self._api.kubelet.processes(live)
        processes.exec(words, full, folder or self._api.kubelet.home(live), self._fds[:3], listener)
        return None

    # Access ----------------------------------------------------------------------------------------------------------

    def do_token(self, token: str, user: str, rules: list[str], namespace: str | None) -> Reply:
        """Accept a bearer token."""
        self._api.access.add_token(token, access.user(user, rules, namespace))
        return {"ok": None}

    def do_account(self, account: str, namespace: str) -> Reply:
        """A new token of a ServiceAccount."""
        return {"ok": self._api.kubelet.issue_token(namespace, account)}

    def do_revoke(self, token: str) -> Reply:
        """Refuse a token from now on."""
        self._api.access.revoke_token(token)
        return {"ok": None}

    def do_certificate(self, user: str, rules: list[str], namespace: str | None) -> Reply:
        """Accept client certificates of this common name."""
        self._api.access.add_certificate(access.user(user, rules, namespace))
        return {"ok": None}

    # Faults ----------------------------------------------------------------------------------------------------------

    def do_fault(self, data: str, **fields: Any) -> Reply:
        """Set a fault."""
        self._api.faults.add(Fault(data=base64.b64decode(data), **fields))
        return {"ok": None}

    def do_clear_faults(self) -> Reply:
        """No more faults."""
        self._api.faults.clear()
        return {"ok": None}

    def do_streams(self, kind: str, pod: str | None) -> Reply:
        """Cut, freeze or silence the open exec streams of a pod (None: of all). Answers how many."""
        uids = {live.uid for live in self._api.kubelet.all() if pod in {None, live.pod.name}}
        chosen = [one for one, uid in self._api.sessions.items() if uid in uids and one.connection.live]
        for session in chosen:
            session.suffer(kind)
        return {"ok": len(chosen)}

    def do_watches(self, kind: str, data: str) -> Reply:
        """Cut, end, stall or expire the open watches, or send bytes on them. Answers how many."""
        chosen = tuple(self._api.watches)
        for watch in chosen:
            if kind == "cut":
                watch.cut()
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
            self._api.lister.forget_pages()
        return {"ok": len(chosen)}

    def do_listen(self, *, on: bool) -> Reply:
        """Take new connections, or refuse them."""
        self.listen(on=on)
        return {"ok": None}

    def do_cut(self) -> Reply:
        """Reset every connection. Answers how many."""
        chosen = tuple(self._api.conversations)
        for conversation in chosen:
            conversation.cut()
        return {"ok": len(chosen)}

    # Counters --------------------------------------------------------------------------------------------------------

    def do_stats(self) -> Reply:
        """The counters."""
        return {"ok": self._api.counters.report() | {"watches": len(self._api.watches)}}

    def do_commands(self) -> Reply:
        """The commands seen."""
        return {"ok": self._api.counters.commands}

    def do_reset(self) -> Reply:
        """Count anew."""
        self._api.counters.reset()
        return {"ok": None}

    def do_processes(self) -> Reply:
        """The server's own process ids, for the benchmark: nursery and shims."""
        shims = [live.processes.pid for live in self._api.kubelet.all() if live.processes and live.processes.pid]
        return {"ok": {"nursery": self._nursery.pid, "shims": shims}}


class LocalProcess:
    """A process that the handle started."""

    def __init__(self, name: str, notify: int, reply: Callable[[Reply], None]) -> None:
        self._name = name
        self._notify = notify
        self._reply = reply
        self._replied = False

    def started(self, pid: int) -> None:
        """It runs."""
        self._replied = True
        self._reply({"ok": pid})

    def failed(self, error: int) -> None:
        """It could not be started."""
        os.close(self._notify)
        self._reply({"error": runtime_error(self._name, error)})

    def exited(self, code: int) -> None:
        """It ended."""
        if not self._replied:  # the pod ended before it could start
            self._reply({"error": "the pod has ended"})
        with contextlib.suppress(OSError):  # nobody waits for it
            os.write(self._notify, str(code).encode())
        os.close(self._notify)
