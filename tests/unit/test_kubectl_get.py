"""`kubectl get pods` by the agent → what a shell prints of the job's workers."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest

from agents.common import pods
from rshagent.call.arguments import parse
from rshagent.call.kubectl_get import age, failure

NOW = 1_800_000_000.0
CREATED = "2027-01-15T07:55:00Z"  # five minutes before
RUNS: dict[str, Any] = {"running": {}}


def state(name: str = "main", *, ready: bool = True, restarts: int = 0, **kind: Any) -> dict[str, Any]:
    return {"name": name, "ready": ready, "restartCount": restarts, "state": kind or RUNS}


def pod(name: str, *, containers: int = 1, labels: dict[str, str] | None = None, **status: Any) -> pods.Pod:
    given = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [state()]}
    metadata: dict[str, Any] = {"name": name, "labels": labels or {}, "creationTimestamp": CREATED}
    if status.pop("deleted", False):
        metadata["deletionTimestamp"] = CREATED
    names = [{"name": f"c{number}"} for number in range(containers)]
    spec = {"containers": names, "nodeName": "node-1", "initContainers": status.pop("inits", [])}
    return pods.parse({"metadata": metadata, "spec": spec, "status": {**given, **status}})


WORKERS = [
    pod("pi-worker-10", podIP="10.0.0.10", labels={"job": "pi", "index": "10"}),
    pod("pi-worker-2", podIP="10.0.0.2", labels={"job": "pi"}, phase="Pending", containerStatuses=[], containers=2),
]


def shell(text: bytes) -> tuple[int, str, str]:
    done = subprocess.run([b"/bin/sh", b"-c", text], capture_output=True, check=False, timeout=30, text=True)
    return done.returncode, done.stdout, done.stderr


def get(words: str, found: list[pods.Pod] = WORKERS, folder: object = "/nowhere") -> tuple[int, str, str]:
    call = parse([os.fsencode(word) for word in (f"{folder}/kubectl", *words.split())])
    assert call.query is not None, call.text
    return shell(call.text + call.query.answer(found, "team", NOW))


HEAD = "NAME READY STATUS RESTARTS AGE"
TWO, TEN = "pi-worker-2 0/2 Pending 0 5m", "pi-worker-10 1/1 Running 0 5m"
WIDE = {TWO: f"{TWO} 10.0.0.2 node-1 <none> <none>", TEN: f"{TEN} 10.0.0.10 node-1 <none> <none>"}


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        ("get pods", [HEAD, TWO, TEN]),
        ("-n team get po", [HEAD, TWO, TEN]),
        ("get pods --namespace=team -v 6 --request-timeout=1s", [HEAD, TWO, TEN]),
        ("get pods --no-headers", [TWO, TEN]),
        ("get pods -o wide --no-headers", [WIDE[TWO], WIDE[TEN]]),
        ("get pods -owide", [f"{HEAD} IP NODE NOMINATED NODE READINESS GATES", WIDE[TWO], WIDE[TEN]]),
        ("get pods -o name", ["pod/pi-worker-2", "pod/pi-worker-10"]),
        ("get pod pi-worker-10", [HEAD, TEN]),
        ("get pod/pi-worker-10 po/pi-worker-2 -o=name", ["pod/pi-worker-10", "pod/pi-worker-2"]),
        ("get -o name pods -- pi-worker-2", ["pod/pi-worker-2"]),
        ("get pods -l index=10 -o name", ["pod/pi-worker-10"]),
        ("get pods --selector job==pi,!index -o name", ["pod/pi-worker-2"]),
        ("get pods -l index!=10 -o name", ["pod/pi-worker-2"]),
        ("get pods -l index --output name", ["pod/pi-worker-10"]),
        ("get pods -l job=other -o name", []),
        ("get pods --field-selector=status.phase=Running -o name", ["pod/pi-worker-10"]),
        ("get pods --field-selector status.phase!=Running,metadata.namespace=team -o name", ["pod/pi-worker-2"]),
    ],
)
def test_workers_are_shown(words: str, rows: list[str]) -> None:
    code, out, said = get(words)
    assert [" ".join(line.split()) for line in out.splitlines()] == rows
    assert (code, said) == (0, "")


def test_columns_stand_below_each_other() -> None:
    lines = get("get pods")[1].splitlines()
    assert len({line.index(word) for line, word in zip(lines, ("READY", "0/2", "1/1"), strict=True)}) == 1


@pytest.mark.parametrize(
    ("words", "found", "expected"),
    [
        ("get pods -l job=other", WORKERS, (0, "", "No resources found in team namespace.\n")),
        ("get pods", [], (0, "", "No resources found in team namespace.\n")),
        ("get pod w-9", WORKERS, (1, "", 'Error from server (NotFound): pods "w-9" not found\n')),
        ("get pod w-9 --ignore-not-found", WORKERS, (0, "", "")),
        (
            "get pod pi-worker-2 w'9 -o name",
            WORKERS,
            (1, "pod/pi-worker-2\n", 'Error from server (NotFound): pods "w\'9" not found\n'),
        ),
        ("get pods -n other", WORKERS, (1, "", "rshagent: namespace 'other' is not this job's, which is 'team'\n")),
    ],
)
def test_what_is_not_there(words: str, found: list[pods.Pod], expected: tuple[int, str, str]) -> None:
    assert get(words, found) == expected


INIT = [{"name": "i"}]
SIDECAR = [{"name": "s", "restartPolicy": "Always"}]
DONE = {"reason": "Completed", "exitCode": 0}
ERROR = {"reason": "Error", "exitCode": 1}
BACK_OFF, NO_IMAGE = {"reason": "CrashLoopBackOff"}, {"reason": "ImagePullBackOff"}


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({}, "1/1 Running 0"),
        ({"phase": "Pending", "containerStatuses": []}, "0/1 Pending 0"),
        ({"deleted": True}, "1/1 Terminating 0"),
        ({"deleted": True, "reason": "NodeLost"}, "1/1 Unknown 0"),
        ({"phase": "Failed", "reason": "Evicted", "containerStatuses": []}, "0/1 Evicted 0"),
        ({"containerStatuses": [state(ready=False, waiting=NO_IMAGE)]}, "0/1 ImagePullBackOff 0"),
        ({"containerStatuses": [state(ready=False, restarts=3, waiting=BACK_OFF)]}, "0/1 CrashLoopBackOff 3"),
        ({"phase": "Failed", "containerStatuses": [state(ready=False, terminated=ERROR)]}, "0/1 Error 0"),
        ({"containerStatuses": [state(ready=False, terminated={"exitCode": 3})]}, "0/1 ExitCode:3 0"),
        (
            {"containers": 2, "containerStatuses": [state(), state("b", ready=False, terminated=DONE)]},
            "1/2 Running 0",
        ),
        ({"inits": INIT, "initContainerStatuses": [state("i", ready=False)]}, "1/1 Init:0/1 0"),
        ({"inits": INIT, "initContainerStatuses": [state("i", terminated=ERROR)]}, "1/1 Init:Error 0"),
        ({"inits": INIT, "initContainerStatuses": [state("i", terminated=DONE)]}, "1/1 Running 0"),
        ({"inits": SIDECAR, "initContainerStatuses": [state("s", restarts=1)]}, "2/2 Running 1"),
        ({"reason": "\x1b[2J'; exit 7; '"}, "1/1 ?[2J'; exit 7; ' 0"),
    ],
)
def test_statuses_are_kubectls(status: dict[str, Any], shown: str) -> None:
    code, out, said = get("get pods --no-headers", [pod("w-0", **status)])
    assert (code, " ".join(out.split()), said) == (0, f"w-0 {shown} 5m", "")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (900, "15m"),
        (3 * 3600 + 300, "3h5m"),
        (12 * 3600, "12h"),
        (50 * 3600, "2d2h"),
        (30 * 86400, "30d"),
    ],
)
def test_ages_are_kubectls(seconds: int, shown: str) -> None:
    assert age(CREATED, NOW - 300 + seconds) == shown


@pytest.mark.parametrize("created", ["", "now", "2026-13", "2026-01-02 what"])
def test_a_time_that_is_none(created: str) -> None:
    assert age(created, NOW) == "<unknown>"


def test_a_thousand_workers_fit_into_one_answer_and_more_are_told() -> None:
    many = [pod(f"a-rather-long-name-of-a-job-worker-{number}", podIP="10.100.100.100") for number in range(1000)]
    assert get("get pods -o wide", many)[1].count("\n") == 1001
    code, out, said = get("get pods", many + [pod(f"a-rather-long-name-of-a-job-{n}") for n in range(3000)])
    assert (code, out, said.count("\n")) == (1, "", 1)
    assert "4000 workers are too many for one answer" in said


def test_a_failure_is_one_line() -> None:
    assert shell(failure("it's\n\x1b[1mso")) == (1, "", "rshagent: it's??[1mso\n")


def test_where_the_real_kubectl_is_it_shows_them(tmp_path: Any) -> None:
    real = tmp_path / "kubectl.real"
    real.write_text('#!/bin/sh\necho real "$@"\n')
    real.chmod(0o755)
    assert get("get pods -o name", folder=tmp_path) == (0, "real get pods -o name\n", "")
