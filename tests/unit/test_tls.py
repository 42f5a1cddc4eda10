"""TLS by `_ssl` against servers of the `ssl` module: whom we trust, who we say we are, which sessions are resumed."""

from __future__ import annotations

import os
import pty
import socket
import ssl
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from scripted_api import (
    PATIENCE_S,
    Authority,
    Server,
    authority,
    certificate,
    linked,
    private_pem,
    read_to_end,
    until,
)

from rshagent.net.cluster import Cluster
from rshagent.net.connection import Lost
from rshagent.net.tls import Context

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["authority", "certificate"]

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("other"), "other-ca")


def greet(stream: socket.socket) -> None:
    stream.sendall(b"hello")
    read_to_end(stream)


def talk(server: Server, context: Context, host: str = "127.0.0.1") -> bytes | Lost:
    """Connect, and return what the server said, or why it could not."""
    cluster = Cluster(
        server=f"https://{host}:{server.port}", load_tls=lambda: context, namespace="", token=None, environ={}
    )
    loop, owner, link = linked(cluster)
    until(loop, lambda: owner.data == b"hello" or owner.lost is not None)
    link.close()
    return owner.lost or bytes(owner.data)


def refused(answer: bytes | Lost) -> str:
    assert isinstance(answer, Lost)
    assert answer.is_final
    return answer.reason


def test_a_certificate_of_our_ca_by_address_and_by_name(authority: Authority, certificate: tuple[Path, Path]) -> None:
    with Server(greet, certificate) as server:
        for context in (Context(ca_file=str(authority.path)), Context(ca_data=authority.pem.decode())):
            assert talk(server, context) == b"hello"
            assert talk(server, context, "localhost") == b"hello"


def test_a_certificate_of_another_ca(other: Authority, certificate: tuple[Path, Path]) -> None:
    with Server(greet, certificate) as server:
        reason = refused(talk(server, Context(ca_file=str(other.path))))
    assert reason.startswith("the API server's certificate is not trusted: ")
    assert "issuer" in reason or "self-signed" in reason
    assert server.handshakes == 0


def test_without_a_ca_it_is_the_systems(certificate: tuple[Path, Path]) -> None:
    with Server(greet, certificate) as server:
        refused(talk(server, Context()))


@pytest.mark.parametrize(
    ("names", "host"), [(["api.example"], "localhost"), (["localhost"], "127.0.0.1"), (["127.0.0.2"], "127.0.0.1")]
)
def test_a_certificate_for_another_name(authority: Authority, names: list[str], host: str) -> None:
    with Server(greet, authority.issue("misnamed", *names)) as server:
        reason = refused(talk(server, Context(ca_file=str(authority.path)), host))
    assert "mismatch" in reason


def test_a_ca_without_key_identifiers_which_python_3_13_would_refuse(tmp_path: Path) -> None:
    plain = Authority(tmp_path, "plain-ca", key_identifiers=False)
    with Server(greet, plain.issue("server", "127.0.0.1")) as server:
        assert talk(server, Context(ca_file=str(plain.path))) == b"hello"
        strict = ssl.create_default_context(cafile=plain.path)
        strict.verify_flags |= ssl.VERIFY_X509_STRICT
        with (
            socket.create_connection(("127.0.0.1", server.port)) as connection,
            pytest.raises(ssl.SSLCertVerificationError),
        ):
            strict.wrap_socket(connection, server_hostname="127.0.0.1")


def test_an_intermediate_ca_alone_is_trusted_as_kubectl_does(tmp_path: Path, authority: Authority) -> None:
    intermediate = Authority(tmp_path, "intermediate-ca", issuer=authority)
    with Server(greet, intermediate.issue("server", "127.0.0.1")) as server:
        assert talk(server, Context(ca_file=str(intermediate.path))) == b"hello"


def test_several_cas_in_one_file(tmp_path: Path, authority: Authority, other: Authority) -> None:
    bundle = tmp_path / "bundle.crt"
    bundle.write_bytes(b"# two clusters\n" + other.pem + b"\n" + authority.pem)
    with Server(greet, other.issue("server", "127.0.0.1")) as server:
        assert talk(server, Context(ca_file=str(bundle))) == b"hello"


def test_a_client_certificate(authority: Authority, certificate: tuple[Path, Path], other: Authority) -> None:
    ours, theirs = authority.issue("client"), other.issue("client")
    with Server(greet, certificate, client_ca=authority.path) as server:
        context = Context(ca_file=str(authority.path))
        context.use_certificate_data(ours[0].read_bytes(), ours[1].read_bytes())
        assert talk(server, context) == b"hello"
        stranger = Context(ca_file=str(authority.path))
        stranger.use_certificate_data(theirs[0].read_bytes(), theirs[1].read_bytes())
        for refused_one in (stranger, Context(ca_file=str(authority.path))):
            answer = talk(server, refused_one)
            assert isinstance(answer, Lost)
            assert not answer.is_final, "it is they who do not trust us"
    assert server.handshakes == 1


def test_a_certificate_and_a_key_that_do_not_fit(authority: Authority, other: Authority) -> None:
    certificate, key = authority.issue("client")[0], other.issue("client")[1]
    with pytest.raises(OSError, match=r"(?i)mismatch"):
        Context(ca_file=str(authority.path)).use_certificate_data(certificate.read_bytes(), key.read_bytes())


ENCRYPTED = """
import sys
sys.path.insert(0, {root!r})
from rshagent.net.tls import Context
try:
    Context().use_certificate_data(open({certificate!r}, "rb").read(), open({key!r}, "rb").read())
except OSError:
    sys.exit(7)
"""


def test_an_encrypted_key_is_an_error_and_no_question_on_the_terminal(authority: Authority, tmp_path: Path) -> None:
    key = tmp_path / "locked.key"
    key.write_bytes(private_pem(authority.key, b"password"))
    script = ENCRYPTED.format(root=ROOT, certificate=str(authority.path), key=str(key))
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True
    )
    try:
        assert process.wait(PATIENCE_S) == 7
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
        os.close(controller)


def test_no_descriptor_is_left_of_a_client_certificate(authority: Authority) -> None:
    certificate, key = authority.issue("client")
    before = sorted(os.listdir("/proc/self/fd"))
    Context(ca_file=str(authority.path)).use_certificate_data(certificate.read_bytes(), key.read_bytes())
    assert sorted(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_is_resumed_and_a_server_that_forgot_it_begins_anew(
    authority: Authority, certificate: tuple[Path, Path], version: ssl.TLSVersion
) -> None:
    reused: list[bool | None] = []

    def note(stream: socket.socket) -> None:
        assert isinstance(stream, ssl.SSLSocket)
        assert stream.version() == {771: "TLSv1.2", 772: "TLSv1.3"}[version]
        reused.append(stream.session_reused)
        greet(stream)

    context = Context(ca_file=str(authority.path))
    for _ in range(2):  # the second server has keys of its own for its tickets
        with Server(note, certificate) as server:
            assert server.context is not None
            server.context.minimum_version = server.context.maximum_version = version
            for _ in range(3):
                assert talk(server, context) == b"hello"
    assert reused == [False, True, True] * 2


def test_a_session_does_not_open_the_door_to_another_server(
    authority: Authority, certificate: tuple[Path, Path], other: Authority
) -> None:
    context = Context(ca_file=str(authority.path))
    with Server(greet, certificate) as server:
        assert talk(server, context) == b"hello"
    with Server(greet, other.issue("impostor", "127.0.0.1")) as impostor:
        refused(talk(impostor, context))


def test_a_server_of_older_tls_than_1_2(authority: Authority, certificate: tuple[Path, Path]) -> None:
    """Seen from our first message: which versions we offer. Today's OpenSSL can't serve the old ones at all."""
    hello: list[bytes] = []
    done = threading.Event()

    def listen(stream: socket.socket) -> None:
        hello.append(stream.recv(65536))
        done.set()

    with Server(listen) as server:
        answer = talk(server, Context(ca_file=str(authority.path)))
    assert isinstance(answer, Lost)
    assert done.is_set()
    # RFC 8446 §4.2.1: extension 43, its length, the length of the list, two bytes for each version.
    offered = hello[0].partition(b"\x00\x2b")[2]
    versions = offered[3 : 3 + offered[2]]
    assert {versions[at : at + 2] for at in range(0, len(versions), 2)} == {b"\x03\x03", b"\x03\x04"}
