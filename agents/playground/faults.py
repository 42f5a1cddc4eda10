"""Faults on demand: which request they meet, and how often. What each does stands where it happens.

For execs (`on="exec"`):
  http                 answers `status` (with `retry_after_s`) instead of doing anything
  no-answer            says nothing to the request, for ever
  drop-before-upgrade  resets the connection instead of answering
  drop-after-upgrade   101, then a reset; the command is not started
  dial-error           the kubelet can't be reached: 101 and a Status on v5, HTTP 500 on v4
  hang                 101, pongs, and nothing else: kubelet does not answer; the command is not started
  drop-after-start     the command runs; a reset at its first output (the acknowledgement), of which nothing is sent
  drop-mid-stream      a reset when `after_bytes` of output have been sent
  no-status            the stream ends properly but without a Status
  status               `data` as the Status, whatever it is
  raw                  `data` on the connection when `after_bytes` of output have been sent (garbage, oversized frames…)
  slow                 at most `bytes_per_s` in each direction
  half-open            after `after_bytes` of output nothing is read or written any more; no close
  silent               after `after_bytes` of output nothing is sent any more, not even pongs; reading goes on
  no-pong              pings are not answered; all else works
  v4-only              only v4.channel.k8s.io is known, as before Kubernetes 1.29
For `on` = another verb ("list", "get", "watch", "create", "update", "patch", "delete", "deletecollection") or "review":
  http, no-answer, drop-before-upgrade
  gone                 (watch) an ERROR event with 410
  lost-answer          (create and the verbs after it) the request is carried out; a reset instead of its answer
"""

from __future__ import annotations

from dataclasses import dataclass

EXEC_KINDS = frozenset(
    {
        "http",
        "no-answer",
        "drop-before-upgrade",
        "drop-after-upgrade",
        "dial-error",
        "hang",
        "drop-after-start",
        "drop-mid-stream",
        "no-status",
        "status",
        "raw",
        "slow",
        "half-open",
        "silent",
        "no-pong",
        "v4-only",
    }
)
OTHER_KINDS = frozenset({"http", "no-answer", "drop-before-upgrade", "gone"})
WRITE_KINDS = frozenset({"http", "no-answer", "drop-before-upgrade", "lost-answer"})
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
REQUESTS = frozenset({"exec", "list", "get", "watch", "review"}) | WRITES


@dataclass
class Fault:
    """One fault. It meets the requests `on`, of `pod` (None: of every pod), `times` times (None: until cleared).

    `pod` may be the name of another object; `resource` narrows it to a kind (pods, mpijobs.kubeflow.org).
    """

    kind: str
    on: str = "exec"
    pod: str | None = None
    resource: str | None = None
    times: int | None = 1
    skip: int = 0  # so many requests pass first
    status: int = 500
    retry_after_s: int | None = None
    after_bytes: int = 0
    bytes_per_s: int = 65536
    data: bytes = b""
    text: str = ""  # replaces the usual message

    def check(self) -> None:
        """Raises ValueError if there is no such fault."""
        if self.on not in REQUESTS:
            raise ValueError(f"a fault is on one of {', '.join(sorted(REQUESTS))}, not {self.on!r}")
        known = EXEC_KINDS if self.on == "exec" else WRITE_KINDS if self.on in WRITES else OTHER_KINDS
        if self.kind not in known:
            raise ValueError(f"no fault {self.kind!r} on {self.on}; there are: {', '.join(sorted(known))}")


class Faults:
    """The faults that are set. Each request meets at most one: the first that fits."""

    def __init__(self) -> None:
        self._set: list[Fault] = []

    def add(self, fault: Fault) -> None:
        """From now on."""
        fault.check()
        self._set.append(fault)

    def clear(self) -> None:
        """No more faults."""
        self._set.clear()

    def meet(self, on: str, pod: str = "", resource: str = "pods") -> Fault | None:
        """The fault that this request meets."""
        for fault in self._set:
            if fault.on != on or fault.pod not in {None, pod} or fault.resource not in {None, resource}:
                continue
            if fault.skip > 0:
                fault.skip -= 1
                continue
            if fault.times is not None:
                fault.times -= 1
                if fault.times <= 0:
                    self._set.remove(fault)
            return fault
        return None
