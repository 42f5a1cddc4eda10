"""Kubeconfigs in JSON form: what kubectl would take from them, and mistakes in one line."""

from __future__ import annotations

import base64
import copy
import json
import ssl
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scripted_api import Authority, Server, authority, linked, private_pem, read_to_end, until

from rshagent.net.cluster import Cluster, ConfigError

if TYPE_CHECKING:
    import socket
    from pathlib import Path

__all__ = ["authority"]


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def document(authority: Authority, *, server: str = "https://api.example:6443", **user: Any) -> dict[str, Any]:
    cluster = {"server": server, "certificate-authority-data": b64(authority.pem)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [
            {"name": "there", "context": {"cluster": "x", "user": "x"}},
            {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "training"}},
        ],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "other", "user": {"token": "wrong"}}, {"name": "u", "user": user or {"token": "inline"}}],
    }


def load(tmp_path: Path, content: object, **environ: str) -> Cluster:
    path = tmp_path / "config"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return Cluster.load({"KUBECONFIG": str(path), **environ})


def test_the_current_context_counts_and_wins_over_the_pod(tmp_path: Path, authority: Authority) -> None:
    cluster = load(tmp_path, document(authority), KUBERNETES_SERVICE_HOST="10.96.0.1")
    assert (cluster.host, cluster.port, cluster.namespace) == ("api.example", 6443, "training")
    assert cluster.authorization() == "Bearer inline"


def test_the_namespace_of_the_environment_and_of_none(tmp_path: Path, authority: Authority) -> None:
    config = document(authority)
    assert load(tmp_path, config, MPI_AGENT_NAMESPACE="mine").namespace == "mine"
    del config["contexts"][1]["context"]["namespace"]
    assert load(tmp_path, config).namespace == "default"


def test_files_are_found_beside_the_kubeconfig(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    (tmp_path / "the-token").write_text("from a file\n".replace(" ", "-"))
    config = document(authority, tokenFile="the-token", token="shadowed")
    config["clusters"][0]["cluster"] = {"server": "https://api.example", "certificate-authority": "ca.crt"}
    monkeypatch.chdir("/")
    cluster = load(tmp_path, config)
    assert cluster.authorization() == "Bearer from-a-file"
    (tmp_path / "the-token").write_text("renewed")
    cluster.renew()
    assert cluster.authorization() == "Bearer renewed"


@pytest.mark.parametrize("inline", [True, False])
def test_a_client_certificate_speaks_for_us(tmp_path: Path, authority: Authority, inline: bool) -> None:
    names: list[str] = []

    def greet(stream: socket.socket) -> None:
        assert isinstance(stream, ssl.SSLSocket)
        peer: Any = stream.getpeercert()
        names.append(peer["subject"][0][0][1])
        stream.sendall(b"hello")
        read_to_end(stream)

    certificate, key = authority.issue("alice")
    user = (
        {"client-certificate-data": b64(certificate.read_bytes()), "client-key-data": b64(key.read_bytes())}
        if inline
        else {"client-certificate": str(certificate), "client-key": str(key)}
    )
    with Server(greet, authority.issue("server", "127.0.0.1"), client_ca=authority.path) as server:
        cluster = load(tmp_path, document(authority, server=f"https://127.0.0.1:{server.port}", **user))
        assert cluster.authorization() is None
        loop, owner, link = linked(cluster)
        until(loop, lambda: owner.data == b"hello")
        link.close()
    assert names == ["alice"]


def test_its_own_proxy(tmp_path: Path, authority: Authority) -> None:
    config = document(authority)
    config["clusters"][0]["cluster"]["proxy-url"] = "http://q:2"
    cluster = load(tmp_path, config, HTTPS_PROXY="http://p:1", NO_PROXY="*")
    assert cluster.proxy is not None
    assert cluster.proxy.host == "q"
    config["clusters"][0]["cluster"]["proxy-url"] = ""
    cluster = load(tmp_path, config, HTTPS_PROXY="http://p:1")
    assert cluster.proxy is not None
    assert cluster.proxy.host == "p"


def test_a_comment_of_other_letters_in_the_ca(tmp_path: Path, authority: Authority) -> None:
    config = document(authority)
    config["clusters"][0]["cluster"]["certificate-authority-data"] = b64("# für uns\n".encode() + authority.pem)
    load(tmp_path, config)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the kubeconfig .*/nowhere can't be read: No such file or directory"):
        Cluster.load({"KUBECONFIG": str(tmp_path / "nowhere")})


@pytest.mark.parametrize("content", ["apiVersion: v1\nkind: Config\n", "", "{", "[" * 100_000, '{"a": ' + "9" * 5000])
def test_what_is_not_json_says_how_to_make_it_so(tmp_path: Path, content: str) -> None:
    with pytest.raises(ConfigError, match="is not JSON; make it so: kubectl config view --raw --flatten -o json"):
        load(tmp_path, content)


CLUSTER, USER = ("clusters", 0, "cluster"), ("users", 1, "user")

MISTAKES: list[tuple[tuple[Any, ...], Any, str]] = [
    # where, what is put there, words of the message
    ((), [], "is not a JSON object"),
    (("current-context",), "nowhere", "has no context 'nowhere'"),
    (("current-context",), None, "has no context ''"),
    (("contexts",), None, "has no context 'here'"),
    (("contexts",), {"here": {}}, "has no context 'here'"),
    (("contexts", 1, "context"), "x", "has no context 'here'"),
    (("contexts", 1, "context", "cluster"), "z", "has no cluster 'z'"),
    (("contexts", 1, "context", "user"), "z", "has no user 'z'"),
    ((*CLUSTER, "server"), None, "has no server"),
    ((*CLUSTER, "server"), 6443, "has no server"),
    ((*CLUSTER, "server"), "http://api.example", "not an https address"),
    ((*CLUSTER, "insecure-skip-tls-verify"), True, "turns the verification of the server off"),
    ((*CLUSTER, "proxy-url"), "socks5://p", "'socks5' is not supported"),
    ((*CLUSTER, "certificate-authority-data"), "!", "certificate-authority-data is not base64"),
    ((*CLUSTER, "certificate-authority-data"), b64(b"\xff\xfe"), "no certificate in it"),
    ((*CLUSTER, "certificate-authority-data"), b64(b"hello"), "the cluster's CA can't be read from the kubeconfig"),
    ((*USER, "exec"), {"command": "aws"}, "gets its credentials from a plugin"),
    ((*USER, "auth-provider"), {"name": "oidc"}, "gets its credentials from a plugin"),
    ((*USER, "token"), "two\nlines", "the kubeconfig's token holds no token"),
    ((*USER, "token"), "caf\xe9", "holds no token"),
    ((*USER, "token"), "\ud800", "holds no token"),
    ((*USER, "tokenFile"), "/nowhere/token", "the token can't be read from /nowhere/token: No such file"),
    ((*USER, "tokenFile"), "a\x00b", "the token can't be read from .*: that is no path"),
    ((*USER, "client-certificate"), "/nowhere/crt", "client-certificate can't be read from /nowhere/crt: No such"),
    ((*USER, "client-certificate"), "a\x00b", "that is no path"),
    ((*USER, "client-certificate-data"), "!", "client-certificate-data is not base64"),
    ((*USER, "client-certificate-data"), b64(b"x"), "must have both a client certificate and its key"),
    ((*USER, "client-key-data"), b64(b"x"), "must have both a client certificate and its key"),
]


@pytest.mark.parametrize(("place", "value", "words"), MISTAKES)
def test_a_mistake_is_one_line(
    tmp_path: Path, authority: Authority, place: tuple[Any, ...], value: Any, words: str
) -> None:
    config: Any = copy.deepcopy(document(authority))
    inner = config
    for step in place[:-1]:
        inner = inner[step]
    if place:
        inner[place[-1]] = value
    else:
        config = value
    with pytest.raises(ConfigError, match=words) as error:
        load(tmp_path, config)
    assert str(error.value).isprintable()


@pytest.mark.parametrize("kind", ["of another pair", "encrypted", "garbage"])
def test_a_key_that_does_not_fit(tmp_path: Path, authority: Authority, kind: str) -> None:
    certificate, _ = authority.issue("client")
    keys = {
        "of another pair": private_pem(authority.key),
        "encrypted": private_pem(authority.key, b"pw"),
        "garbage": b"x",
    }
    user = {"client-certificate": str(certificate), "client-key-data": b64(keys[kind])}
    with pytest.raises(ConfigError, match="the kubeconfig's client certificate and key do not fit together"):
        load(tmp_path, document(authority, **user))


KEYS = [
    "current-context", "contexts", "clusters", "users", "name", "context", "cluster", "user", "server", "namespace",
    "certificate-authority", "certificate-authority-data", "proxy-url", "token", "tokenFile", "client-certificate",
    "client-key", "client-certificate-data", "client-key-data", "exec",
]  # fmt: skip
VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["https://a", "c", "AAAA"])
JSON = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)
PARTS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(user=PARTS, cluster=PARTS, context=PARTS, whole=st.none() | JSON)
def test_any_document_is_a_cluster_or_a_config_error(
    tmp_path: Path,
    authority: Authority,
    user: dict[str, Any],
    cluster: dict[str, Any],
    context: dict[str, Any],
    whole: Any,
) -> None:
    config: Any = document(authority)
    config["users"][1]["user"] = user
    config["clusters"][0]["cluster"] |= cluster
    config["contexts"][1]["context"] |= context
    try:
        loaded = load(tmp_path, config if whole is None else whole)
    except ConfigError as error:
        assert str(error).isprintable()  # noqa: PT017 (a cluster is fine as well)
        return
    authorization = loaded.authorization()
    assert authorization is None or (authorization.isascii() and authorization.isprintable())
