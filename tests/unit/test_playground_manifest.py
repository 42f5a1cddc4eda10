"""Manifests as processes can have them."""

from __future__ import annotations

from typing import Any

import pytest

from agents.playground import manifest

POD: dict[str, Any] = {
    "metadata": {"name": "pi", "namespace": "ns", "labels": {"a/b": "c"}},
    "spec": {
        "containers": [{"name": "main", "volumeMounts": [{"name": "config", "mountPath": "/etc/mpi/"}]}],
        "initContainers": [{"name": "hub", "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/x"}]}],
        "volumes": [
            {"name": "config", "configMap": {"name": "pi-config"}},
            {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
        ],
    },
    "status": {"podIP": "127.64.0.1"},
}


def values(kind: str, name: str, key: str) -> str | None:
    return f"{kind}.{name}.{key}" if name == "there" else None


def called(rewritten: dict[str, str] | None = None, **container: Any) -> manifest.Call:
    return manifest.call(POD, {"name": "main", **container}, {"PATH": "/bin"}, values, rewritten or {})


def test_commands_and_variables_refer_to_variables() -> None:
    env = [
        {"name": "ONE", "value": "1"},
        {"name": "TWO", "value": "$(ONE)+$(ONE) $$(ONE) $(NONE)"},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIPs"}}},
        {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a/b']"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "there", "key": "k"}}},
        {"name": "GONE", "valueFrom": {"secretKeyRef": {"name": "gone", "key": "k", "optional": True}}},
    ]
    call = called(env=env, command=["run", "$(TWO)"], args=["$(IP)"], resources={"limits": {"cpu": "2"}})
    assert call.argv == ("run", "1+1 $(ONE) $(NONE)", "127.64.0.1")
    assert dict(call.environ) == {
        "PATH": "/bin",
        "ONE": "1",
        "TWO": "1+1 $(ONE) $(NONE)",
        "IP": "127.64.0.1",
        "LABEL": "c",
        "CPU": "2",
        "KEY": "ConfigMap.there.k",
    }


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"args": ["x"]}, "arguments need a command"),
        ({"env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "no", "key": "k"}}}]}, '"no" or its key k'),
        ({"env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "metadata"}}}]}, "no field metadata"),
        ({"env": [{"name": "X", "valueFrom": {"else": {}}}]}, "no such source of a variable: else"),
    ],
)
def test_what_can_not_be_done_is_told(container: dict[str, Any], words: str) -> None:
    with pytest.raises(manifest.ManifestError, match=words):
        called(**container)


def test_a_container_without_a_command_has_no_process() -> None:
    assert called().argv == ()


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("/etc/mpi", "/x"),
        ("/etc/mpi/hostfile", "/x/hostfile"),
        ("#!/etc/mpi/kubexec.sh\n", "#!/x/kubexec.sh\n"),
        ("--file=/etc/mpi/hostfile:/etc/mpi", "--file=/x/hostfile:/x"),
        ("/etc/mpirun", "/etc/mpirun"),
        ("/home/etc/mpi", "/home/etc/mpi"),
        ("/etc/mpi.conf", "/etc/mpi.conf"),
    ],
)
def test_paths_that_can_not_be_shown_are_moved(text: str, moved: str) -> None:
    assert manifest.moved(text, {"/etc/mpi": "/x"}) == moved


def test_agents_are_told_where_moved_paths_are() -> None:
    environ = called({"/etc/mpi": "/x", "/run/mpi-agents": "/y"}, env=[{"name": "TARGET_DIR", "value": "/z"}]).environ
    assert environ["MPI_AGENT_HOSTFILE"] == "/x/hostfile"
    assert environ["MPI_AGENT_SOCKET"] == "/y/hub.sock"
    assert environ["TARGET_DIR"] == "/z"
    assert "MPI_AGENT_SOCKET" not in called().environ


def test_a_token_is_shown_to_those_alone_that_mount_it() -> None:
    assert manifest.paths(POD) == {"/etc/mpi": "config"}
    hub, main = manifest.containers(POD)
    assert (manifest.token_volume(POD, hub), manifest.token_volume(POD, main)) == ("token", "")


def test_containers_share_one_view() -> None:
    two = [{"name": name, "volumeMounts": [{"name": name, "mountPath": "/data"}]} for name in ("a", "b")]
    pod = {"metadata": {}, "spec": {"containers": two, "volumes": [{"name": "a"}, {"name": "b"}]}}
    with pytest.raises(manifest.ManifestError, match="two volumes at /data"):
        manifest.paths(pod)
