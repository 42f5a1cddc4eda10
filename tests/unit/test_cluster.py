"""Who the API server is and who we are to it, inside a pod; tokens that others renew; mistakes in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from clocks import Clock
from hypothesis import given
from hypothesis import strategies as st
from scripted_api import Authority, authority

from rshagent.net.cluster import Cluster, ConfigError, Token, decode, tls_context

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["authority"]


@pytest.fixture
def account(tmp_path: Path, authority: Authority) -> Path:
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "namespace").write_text("training\n")
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    return tmp_path


def environ(account: Path, **more: str) -> dict[str, str]:
    return {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "MPI_AGENT_SERVICE_ACCOUNT": str(account), **more}


def test_in_a_pod(account: Path) -> None:
    cluster = Cluster.load(environ(account, KUBERNETES_SERVICE_PORT="6443"))
    assert (cluster.host, cluster.port, cluster.path) == ("10.96.0.1", 6443, "")
    assert cluster.authority == "10.96.0.1:6443"
    assert cluster.namespace == "training"
    assert cluster.authorization() == "Bearer first"
    assert cluster.proxy is None


def test_in_a_pod_with_ipv6_and_the_default_port(account: Path) -> None:
    cluster = Cluster.load(environ(account, KUBERNETES_SERVICE_HOST="fd00::1"))
    assert (cluster.host, cluster.port, cluster.authority) == ("fd00::1", 443, "[fd00::1]:443")


def test_variables_win_over_files_and_the_https_port_over_the_other(account: Path) -> None:
    given = {"KUBERNETES_SERVICE_PORT": "1", "KUBERNETES_SERVICE_PORT_HTTPS": "2", "MPI_AGENT_NAMESPACE": "other"}
    cluster = Cluster.load(environ(account, **given))
    assert (cluster.port, cluster.namespace) == (2, "other")


def test_without_a_namespace_file_it_is_default(account: Path) -> None:
    (account / "namespace").unlink()
    assert Cluster.load(environ(account)).namespace == "default"


def test_the_proxy_of_the_environment(account: Path) -> None:
    cluster = Cluster.load(environ(account, HTTPS_PROXY="http://p:3128"))
    assert cluster.proxy is not None
    assert cluster.proxy.host == "p"


def test_a_token_is_read_again_after_a_minute(account: Path) -> None:
    clock = Clock()
    cluster = Cluster.load(environ(account), clock)
    (account / "token").write_text("second")
    clock.now += 59.999
    assert cluster.authorization() == "Bearer first"
    clock.now += 0.001
    assert cluster.authorization() == "Bearer second"
    (account / "token").write_text("third")
    assert cluster.authorization() == "Bearer second"


def test_a_token_is_read_again_after_a_401(account: Path) -> None:
    cluster = Cluster.load(environ(account), Clock())
    (account / "token").write_text("second")
    assert cluster.authorization() == "Bearer first"
    cluster.renew()
    assert cluster.authorization() == "Bearer second"


def test_a_token_that_can_not_be_renewed_is_used_on_until_it_is_refused(account: Path) -> None:
    clock = Clock()
    cluster = Cluster.load(environ(account), clock)
    (account / "token").unlink()
    clock.now += 60
    assert cluster.authorization() == "Bearer first"
    (account / "token").write_text("second")
    assert cluster.authorization() == "Bearer second"
    (account / "token").unlink()
    cluster.renew()
    with pytest.raises(ConfigError, match="the token can't be read"):
        cluster.authorization()


def test_the_ca_is_read_again_when_the_server_is_not_trusted(account: Path) -> None:
    cluster = Cluster.load(environ(account))
    before = cluster.tls
    cluster.renew()
    renewed = cluster.tls
    assert renewed is not before
    (account / "ca.crt").write_text("no certificate")
    cluster.renew()
    assert cluster.tls is renewed


def test_no_pod_and_no_kubeconfig() -> None:
    with pytest.raises(ConfigError, match="no API server is known: this is no pod"):
        Cluster.load({})


FILES: list[tuple[str, bytes | None, str]] = [
    ("token", None, "the token can't be read from .*/token: No such file or directory"),
    ("token", b"", "the token file .*/token holds no token"),
    ("token", b" \n", "holds no token"),
    ("token", b"two\nlines", "holds no token"),
    ("token", b"caf\xc3\xa9", "holds no token"),
    ("token", b"\x00", "holds no token"),
    ("ca.crt", None, "the cluster's CA can't be read from .*/ca.crt: No such file or directory"),
    ("ca.crt", b"", "the cluster's CA can't be read from .*/ca.crt: no certificate in it"),
    ("ca.crt", b"-----BEGIN CERTIFICATE-----\nAAAA\n", "no certificate in it"),
]


@pytest.mark.parametrize(("name", "content", "words"), FILES)
def test_a_broken_service_account_is_one_line(account: Path, name: str, content: bytes | None, words: str) -> None:
    if content is None:
        (account / name).unlink()
    else:
        (account / name).write_bytes(content)
    with pytest.raises(ConfigError, match=words) as error:
        Cluster.load(environ(account))
    assert str(error.value).isprintable()


SERVERS: list[tuple[str, tuple[str, int, str]]] = [
    ("https://api.example:6443", ("api.example", 6443, "")),
    ("https://api.example", ("api.example", 443, "")),
    ("https://api.example/", ("api.example", 443, "")),
    ("https://api.example/k8s/clusters/c-1/", ("api.example", 443, "/k8s/clusters/c-1")),
    ("HTTPS://api.example", ("api.example", 443, "")),
    ("api.example:6443", ("api.example", 6443, "")),
    ("https://[fd00::1]:6443", ("fd00::1", 6443, "")),
    ("https://192.0.2.1", ("192.0.2.1", 443, "")),
]


def at(server: str) -> Cluster:
    return Cluster(server=server, load_tls=tls_context, namespace="", token=None, environ={})


@pytest.mark.parametrize(("server", "expected"), SERVERS)
def test_addresses_of_servers(server: str, expected: tuple[str, int, str]) -> None:
    cluster = at(server)
    assert (cluster.host, cluster.port, cluster.path) == expected


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ("http://api.example", "not an https address: a token would be readable"),
        ("ftp://api.example", "not an https address"),
        ("https://", "has no valid host"),
        ("https://:6443", "has no valid host"),
        ("https://.example", "has no valid host"),
        ("https://user@api.example", "has no valid host"),
        ("https://api.example:99999", "has no valid port"),
        ("https://bücher.example", "is no address"),
        ("https://api.example\r\nX-Evil: 1", "is no address"),
        ("https://api.example/a b", "is no address"),
        ("https://api.example\x00", "is no address"),
    ],
)
def test_what_is_no_address_of_a_server(server: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as error:
        at(server)
    assert str(error.value).isprintable()


ADDRESSES = st.lists(st.sampled_from(["https", "://", ":", "/", "[", "]", "a", "1", "%"]) | st.text(max_size=3))


@given(ADDRESSES.map("".join))
def test_any_address_is_a_server_or_a_config_error(server: str) -> None:
    try:
        cluster = at(server)
    except ConfigError as error:
        assert str(error).isprintable()  # noqa: PT017 (a server is fine as well)
        return
    f"GET {cluster.path}/api HTTP/1.1\r\nHost: {cluster.authority}\r\n".encode("ascii")
    assert not set(cluster.path + cluster.authority) & set(" \r\n\x00")


@given(st.text(max_size=40) | st.binary(max_size=40).map(lambda data: data.hex()))
def test_any_text_is_base64_or_a_config_error(text: str) -> None:
    try:
        decode(text, "token")
    except ConfigError as error:
        assert str(error) == "the kubeconfig's token is not base64"  # noqa: PT017 (bytes are fine as well)


def test_a_token_that_never_was_is_looked_for_at_each_use(tmp_path: Path) -> None:
    token = Token(str(tmp_path / "token"), Clock())
    for _ in range(2):
        with pytest.raises(ConfigError):
            token.value()
    (tmp_path / "token").write_text("late")
    assert token.value() == "late"
