"""The cluster's handle: pods as process trees, access, and that nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from subprocess import DEVNULL, PIPE
from typing import TYPE_CHECKING, Any

import pytest
from raw_api import STDOUT, RawExec, request

from agents.playground import Cluster, ClusterError, Pod
from tests.processes import is_alive
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PODS = "/api/v1/namespaces/default/pods"
# Leaves a process in a session of its own, with an empty environment, and ends.
DAEMON = "setsid env -i sleep 1000 >/dev/null 2>&1 </dev/null &"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def daemon_of(cluster: Cluster, pod: str) -> int:
    """Leave a daemon in a pod, and return its process id here."""
    run(cluster, pod, DAEMON)
    # It may yet be between its fork and its exec, and its parent about to end.
    # `setsid env -i sleep 1000` ends in these words as well, and has two programs yet to become.
    until(lambda: [one.argv for one in cluster.leftovers(pod)] == [["sleep", "1000"]], "the daemon is alone")
    (found,) = cluster.leftovers(pod)
    return found.pid


def run(cluster: Cluster, pod: str, script: str, **more: Any) -> str:
    with cluster.exec_local(pod, ["/bin/sh", "-c", script], stdout=PIPE, text=True, **more) as process:
        return str(process.communicate()[0])


# Pods as processes


def test_each_pod_has_its_own_home_environment_and_name(cluster: Cluster) -> None:
    cluster.create_pod(Pod("own", environ={"FROM": "pod"}))
    script = 'echo "$HOSTNAME"; echo "$FROM"; pwd; echo "$HOME"; echo x > "$TMPDIR/x"; uname -n'
    lines = run(cluster, "own", script, container="worker").splitlines()
    folder = cluster.pod_folder("own")
    assert lines[:4] == ["own", "pod", f"{folder}/home", f"{folder}/home"]
    assert os.path.exists(f"{folder}/tmp/x")
    if cluster.mounts:
        assert lines[4] == "own"


def test_pods_do_not_see_each_other_s_processes(cluster: Cluster) -> None:
    if not cluster.processes_apart:
        pytest.skip("no pid namespaces here")
    cluster.create_pod("apart")
    assert run(cluster, "apart", "cd /proc; echo [0-9]*; ls /dev/shm; cat /proc/1/comm") == "1 2\npod apart\n"


def test_local_processes_are_like_popen(cluster: Cluster) -> None:
    cluster.create_pod("local")
    process = cluster.exec_local(
        "local", ["sh", "-c", "cat; echo err >&2; exit 7"], stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    assert process.poll() is None
    assert process.communicate(b"in") == (b"in", b"err\n")
    assert process.returncode == 7
    process = cluster.exec_local("local", ["sleep", "1000"], stdout=DEVNULL)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 128 + signal.SIGTERM
    process.send_signal(signal.SIGTERM)  # harmless
    with pytest.raises(OSError, match="executable file not found"):
        cluster.exec_local("local", ["no-such-program"])
    process = cluster.exec_local("local", ["sleep", "1000"], stdout=DEVNULL)
    cluster.delete_pod("local")
    assert process.wait(20) == 137


def test_mounts_and_names(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "kubexec.sh").write_text("#!/bin/sh\necho kubexec\n")
    (tmp_path / "kubexec.sh").chmod(0o755)
    places = ("/etc/mpi", "/opt/kube", "/run/mpi-agents")
    cluster.create_pod("mounted", mounts=dict.fromkeys(places, str(tmp_path)), subdomain="pi-worker")
    if not cluster.mounts:
        assert not cluster.mounted("mounted")
        pytest.skip("no user and mount namespaces here")
    assert cluster.mounted("mounted")
    assert run(cluster, "mounted", "; ".join(f"{place}/kubexec.sh" for place in places)) == "kubexec\n" * 3
    assert run(cluster, "mounted", "touch /run/mpi-agents/from-inside; id -u").strip() == str(os.getuid())
    assert (tmp_path / "from-inside").exists()
    assert not os.path.exists("/etc/mpi/kubexec.sh")
    hosts = run(cluster, "mounted", "cat /etc/hosts")
    full = "mounted.pi-worker.default.svc.cluster.local mounted.pi-worker.default.svc mounted.pi-worker mounted"
    assert f"{cluster.pod_address('mounted')}\t{full}\n" in hosts
    cluster.create_pod("later")
    cluster.until(lambda _stats: "\tlater\n" in run(cluster, "mounted", "cat /etc/hosts"))


def test_leftovers_are_found_and_end_with_the_pod(cluster: Cluster) -> None:
    cluster.create_pod("leaver")
    daemon = daemon_of(cluster, "leaver")
    (found,) = cluster.leftovers("leaver")
    assert found.argv[-2:] == ["sleep", "1000"]
    cluster.delete_pod("leaver")
    assert not is_alive(daemon)
    with pytest.raises(ClusterError):
        cluster.leftovers("leaver")


def test_an_ended_pod_has_no_processes(cluster: Cluster) -> None:
    cluster.create_pod("oom")
    token = cluster.token()
    with RawExec(cluster, "oom", ["sh", "-c", "echo; sleep 1000"], token=token) as stream:
        stream.until(STDOUT, b"\n")
        cluster.set_state("oom", "oom-killed")
        assert stream.finish()["details"]["causes"][0]["message"] == "137"
    assert cluster.pod("oom")["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] == "OOMKilled"
    with RawExec(cluster, "oom", ["true"], token=token) as stream:
        assert "container not found" in stream.finish()["message"]


def test_a_deleted_pod_s_streams_end_or_freeze(cluster: Cluster) -> None:
    token = cluster.token()
    for streams in ("end", "freeze"):
        cluster.create_pod("gone")
        with RawExec(cluster, "gone", ["sh", "-c", "echo; sleep 1000"], token=token) as stream:
            stream.until(STDOUT, b"\n")
            cluster.delete_pod("gone", streams=streams)
            if streams == "end":
                assert stream.finish()["details"]["causes"][0]["message"] == "137"
            else:
                stream.send_frame(9, b"?")
                assert stream.next() == (10, b"?"), "the API server answers, whatever became of the pod"


# Access


def test_roles(cluster: Cluster) -> None:
    cluster.create_pod("w-0")
    cluster.create_pod("w-1")
    token = cluster.token("create pods/exec", "get pods w-0", account="launcher")
    with RawExec(cluster, "w-0", ["true"], token=token) as stream:
        assert stream.answer.status == 403
        assert stream.refusal() == (
            'pods "w-0" is forbidden: User "system:serviceaccount:default:launcher" cannot get resource "pods/exec" '
            'in API group "" in the namespace "default"'
        )
    token_get = cluster.token("get pods/exec")
    with RawExec(cluster, "w-0", ["true"], token=token_get) as stream:
        assert 'cannot create resource "pods/exec"' in stream.refusal(), "from Kubernetes 1.35 on"
    assert request(cluster, f"{PODS}/w-0", token)[0].status == 200
    assert request(cluster, f"{PODS}/w-1", token)[0].status == 403
    assert request(cluster, PODS, token)[0].status == 403
    assert request(cluster, f"{PODS}?fieldSelector=metadata.name%3Dw-0&watch=1", token)[0].status == 403
    assert request(cluster, "/api/v1/namespaces/other/pods/w-0", token)[0].status == 403
    cluster.revoke(token)
    answer, body = request(cluster, f"{PODS}/w-0", token)
    assert (answer.status, json.loads(body)["message"]) == (401, "Unauthorized")


def test_access_reviews(cluster: Cluster) -> None:
    token = cluster.token("get pods/exec")

    def allowed(verb: str) -> bool:
        asked = {"verb": verb, "resource": "pods", "subresource": "exec", "namespace": "default"}
        review = {"kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": asked}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer, body = request(cluster, path, token, method="POST", body=json.dumps(review).encode())
        assert answer.status == 201
        return bool(json.loads(body)["status"]["allowed"])

    assert allowed("get")
    assert not allowed("create")


# Requests that make no sense


@pytest.mark.parametrize(
    ("path", "method", "code"),
    [
        (f"{PODS}?labelSelector=%3D%3D", "GET", 400),
        (f"{PODS}?limit=many", "GET", 400),
        (f"{PODS}?watch=1&resourceVersion=new", "GET", 400),
        (f"{PODS}/nobody", "POST", 405),
        (PODS, "PUT", 405),
        (PODS, "POST", 400),
        ("/api/v1/nodes", "GET", 404),
        ("/healthz", "GET", 200),
        ("/version", "GET", 200),
        (f"{PODS}/nobody", "GET", 404),
    ],
)
def test_answers(cluster: Cluster, path: str, method: str, code: int) -> None:
    assert request(cluster, path, cluster.token(), method=method)[0].status == code


def test_the_handle_tells_what_was_wrong(cluster: Cluster) -> None:
    cluster.create_pod("twice", state="pending")
    with pytest.raises(ClusterError, match="ExistsError: twice"):
        cluster.create_pod("twice", state="pending")
    with pytest.raises(ClusterError, match="no pod state 'redy'"):
        cluster.set_state("twice", "redy")
    with pytest.raises(TimeoutError, match="not within"):
        cluster.until(lambda _stats: False, timeout_s=0.05)


# The end


def test_nothing_is_left_when_the_context_ends(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    with pytest.raises(ZeroDivisionError), cluster:  # noqa: PT012 - it is what is tested
        cluster.create_pod("w-0")
        daemon = daemon_of(cluster, "w-0")
        helpers = [cluster.pid, *cluster.processes()["shims"], cluster.processes()["zygote"]]
        raise ZeroDivisionError
    assert not is_alive(daemon)
    until(lambda: not any(map(is_alive, helpers)), "the helpers have ended")
    with pytest.raises(ClusterError, match="not running"):
        cluster.stats()


VICTIM = f"""
import os, sys, signal
from agents.playground import Cluster
cluster = Cluster(sys.argv[1])
cluster.start()
cluster.create_workers(2, "w")
pids = []
for name in ("w-0", "w-1"):
    cluster.exec_local(name, ["/bin/sh", "-c", {DAEMON!r}]).wait()
    pids += [one.pid for one in cluster.leftovers(name)]
processes = cluster.processes()
helpers = [cluster.pid, processes["zygote"], *processes["shims"]]
print(*pids, *helpers, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("killed", ["handle", "server", "both"])
def test_nothing_is_left_when_a_process_is_killed(tmp_path: Path, killed: str) -> None:
    victim = subprocess.Popen([sys.executable, "-c", VICTIM, str(tmp_path)], stdin=PIPE, stdout=PIPE, cwd=os.getcwd())
    assert victim.stdin is not None
    assert victim.stdout is not None
    with victim:
        pids = [int(word) for word in victim.stdout.readline().split()]
        assert len(pids) == 6
        assert all(is_alive(pid) for pid in pids)
        if killed != "server":
            os.kill(victim.pid, signal.SIGKILL)
        if killed != "handle":
            os.kill(pids[2], signal.SIGKILL)
        until(lambda: not any(is_alive(pid) for pid in pids if pid != pids[2]), f"all have ended: {killed}")
        victim.kill()
    until(lambda: not any(map(is_alive, pids)), "all have ended")
