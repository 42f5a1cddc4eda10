"""A TLS server whose answers a test writes down, its certificates, and what a test needs to run the agents' loop."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import socket
import ssl
import struct
import threading
import time
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from agents.common.loop import Loop
from rshagent.net.cluster import Cluster
from rshagent.net.connection import Link, Lost, Owner
from rshagent.net.tls import Context

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


PATIENCE_S = 20.0


class Authority:
    """A CA, of its own or of `issuer`; without key identifiers it is one that Python 3.13's strict flag refuses."""

    def __init__(
        self, folder: Path, name: str = "ca", *, issuer: Authority | None = None, key_identifiers: bool = True
    ) -> None:
        self._folder, self._name, self._key_identifiers = folder, name, key_identifiers
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.path = folder / f"{name}.crt"
        self.pem = _sign(self, issuer or self, _named(name), self.key, [], ca=True)
        self.path.write_bytes(self.pem)

    def issue(self, name: str, *names: str) -> tuple[Path, Path]:
        """Return the files of a certificate for DNS names and addresses, and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate, private = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        certificate.write_bytes(_sign(self, self, _named(name), key, [_alternative(each) for each in names], ca=False))
        private.write_bytes(private_pem(key))
        return certificate, private

    @property
    def subject(self) -> x509.Name:
        return _named(self._name)

    @property
    def names_its_key(self) -> bool:
        return self._key_identifiers


def private_pem(key: ec.EllipticCurvePrivateKey, password: bytes | None = None) -> bytes:
    lock = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock)


def _sign(
    of: Authority,
    issuer: Authority,
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    names: list[x509.GeneralName],
    *,
    ca: bool,
) -> bytes:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    if of.names_its_key:
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.key.public_key())
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        builder = builder.add_extension(identifier, critical=False)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(issuer.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def certificate(authority: Authority) -> tuple[Path, Path]:
    """A server's on this machine."""
    return authority.issue("server", "127.0.0.1", "::1", "localhost")


class Server:
    """Calls `serve(stream)` in a thread of its own for each connection; TLS where it has a certificate.

    `handshakes` counts those that succeeded, `errors` says why others did not. What `serve` raises fails the test.
    """

    def __init__(
        self,
        serve: Callable[[socket.socket], None],
        certificate: tuple[Path, Path] | None = None,
        *,
        client_ca: Path | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self._serve = serve
        self.context: ssl.SSLContext | None = None
        if certificate is not None:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(*certificate)
            if client_ca is not None:
                self.context.verify_mode = ssl.CERT_REQUIRED
                self.context.load_verify_locations(client_ca)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        self.port: int = self._listener.getsockname()[1]
        self.handshakes, self.errors = 0, list[str]()
        self._failed: list[BaseException] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        if kind is not None:  # the test has failed already, and its threads may wait for what will not come
            return
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "a thread of the server does not end"
        if self._failed:
            raise self._failed[0]

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._talk, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _talk(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE_S)
        with connection:
            if self.context is None:
                self._guarded(connection)
                return
            try:
                stream = self.context.wrap_socket(connection, server_side=True, suppress_ragged_eofs=True)
            except OSError as error:
                self.errors.append(str(error))
                return
            self.handshakes += 1
            with stream:
                self._guarded(stream)

    def _guarded(self, stream: socket.socket) -> None:
        try:
            self._serve(stream)
        except BaseException as error:  # noqa: BLE001 (raised again by the test's own thread)
            self._failed.append(error)


def read_head(stream: socket.socket) -> str:
    """Return a request's head."""
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        more = stream.recv(1)
        assert more, data
        data += more
    return data.decode("latin-1")


def read_to_end(stream: socket.socket) -> bytes:
    """Return all that comes until the peer closes or resets."""
    data = b""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while more := stream.recv(65536):
            data += more
    return data


def reset_at_its_end(stream: socket.socket) -> None:
    """Have a connection reset when it is closed."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def greet(stream: socket.socket) -> None:
    """Greet whoever gives a name first."""
    stream.sendall(b"hello " + stream.recv(100))
    read_to_end(stream)


def cluster_at(
    port: int, ca: Path | bytes, *, host: str = "127.0.0.1", environ: Mapping[str, str] | None = None
) -> Cluster:
    """Return a cluster that trusts one CA."""
    given = {"ca_file": str(ca)} if not isinstance(ca, bytes) else {"ca_data": ca.decode()}
    authority = f"[{host}]" if ":" in host else host
    return Cluster(
        server=f"https://{authority}:{port}",
        load_tls=lambda: Context(**given),
        namespace="default",
        token="secret",
        environ=environ or {},
    )


def in_pod(folder: Path, authority: Authority, port: int = 443) -> dict[str, str]:
    """Return the environment of a pod whose service account's files are in a folder."""
    (folder / "token").write_text("first")
    (folder / "ca.crt").write_bytes(authority.pem)
    return {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(port),
        "MPI_AGENT_SERVICE_ACCOUNT": str(folder),
    }


class Recorder(Owner):
    """What a link told its owner, in order: "opened", bytes, "drained", Lost. Stops the loop after each."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.told: list[str | bytes | Lost] = []
        self.data = bytearray()

    def opened(self) -> None:
        self._tell("opened")

    def received(self, data: memoryview) -> None:
        self.data += data
        self._tell(bytes(data))

    def drained(self) -> None:
        self._tell("drained")

    def closed(self, lost: Lost) -> None:
        self._tell(lost)

    @property
    def lost(self) -> Lost | None:
        found = [each for each in self.told if isinstance(each, Lost)]
        assert len(found) <= 1, "closed twice"
        return found[0] if found else None

    def _tell(self, what: str | bytes | Lost) -> None:
        assert not self.told or not isinstance(self.told[-1], Lost), f"{what!r} after the end"
        self.told.append(what)
        self._loop.stop()


def linked(cluster: Cluster, loop: Loop | None = None) -> tuple[Loop, Recorder, Link]:
    """Return a link to a cluster's API server that has just begun, with its loop and owner."""
    loop = loop or Loop()
    owner = Recorder(loop)
    return loop, owner, Link(loop, cluster, owner)


def until(loop: Loop, done: Callable[[], bool]) -> None:
    """Run the loop, which each event of interest stops, until `done()`."""
    timer, deadline = loop.call_later(PATIENCE_S, loop.stop), loop.now() + PATIENCE_S
    while not done() and deadline > loop.now():
        loop.run()
    timer.cancel()
    assert done(), "not within the deadline"


def until_on(loop: Loop, done: Callable[[], bool]) -> None:
    """Do the same on a clock that stands still, for which no deadline would ever come."""
    given_up_at = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < given_up_at, "not within the deadline"
        settle(loop)
        time.sleep(0.001)  # lets the server's thread run


def lost_of(cluster: Cluster) -> Lost:
    """Return how a connection is lost that never opens."""
    loop, owner, _link = linked(cluster)
    until(loop, lambda: owner.lost is not None)
    assert owner.told == [owner.lost]
    assert owner.lost is not None
    return owner.lost


def settle(loop: Loop) -> None:
    """Let the loop take what is ready now, and what that leads to at once."""
    for _ in range(3):
        loop.call_later(0, loop.stop)
        loop.run()
