"""TLS for a client, on non-blocking sockets.

This uses `_ssl`, the C module beneath `ssl`, whose socket class costs every session of a hub a kilobyte, and several
calls per read. The four names used
here (`_SSLContext`, `_wrap_socket`, `read`, `write`) are the same from Python 3.8 to 3.14, and `tests/unit/test_tls.py`
runs against whichever Python runs it.
"""

from __future__ import annotations

import _socket
import _ssl
import os
from typing import Protocol

WantRead = _ssl.SSLWantReadError
WantWrite = _ssl.SSLWantWriteError
Closed = _ssl.SSLZeroReturnError
EndOfStream = (Closed, _ssl.SSLEOFError)
UntrustedCertificate = _ssl.SSLCertVerificationError
TlsError = _ssl.SSLError


class Tls(Protocol):
    """What `_ssl` makes of a socket; each call raises WantRead or WantWrite rather than wait."""

    session: _ssl.SSLSession | None
    session_reused: bool

    def do_handshake(self) -> None:
        """Go on with the handshake."""

    def read(self, size: int, into: memoryview, /) -> int:
        """Read at most `size` bytes, at most one record, into a buffer; 0 where the peer has closed."""

    def write(self, data: memoryview, /) -> int:
        """Write some of `data`."""


class Context:
    """What all connections to one server share: its trusted CAs and our certificate.

    Server certificates and host names are always verified. VERIFY_X509_STRICT, which Python 3.13 turned on in
    `ssl.create_default_context`, is left off: cluster CAs without an authority key identifier are common
    (kubernetes-client/python#2394).
    """

    def __init__(self, *, ca_file: str | None = None, ca_data: str | None = None) -> None:
        # The server's ticket: resuming spares the verification of its certificate, two thirds of a handshake's CPU.
        self._session: _ssl.SSLSession | None = None
        self._context = _ssl._SSLContext(_ssl.PROTOCOL_TLS_CLIENT)  # noqa: SLF001
        self._context.minimum_version = _ssl.PROTO_TLSv1_2
        # A CA file may hold an intermediate CA alone: kubectl trusts all that it holds, and so does Python from 3.13.
        self._context.verify_flags |= _ssl.VERIFY_X509_PARTIAL_CHAIN
        if ca_file is None and ca_data is None:
            self._context.set_default_verify_paths()
        else:
            self._context.load_verify_locations(ca_file, None, ca_data)

    def use_certificate_data(self, certificate: bytes, key: bytes) -> None:
        """Authenticate with a client certificate in PEM, which never touches a disk. Raises OSError."""
        fd = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
        try:
            os.write(fd, certificate + b"\n" + key)
            # An empty password: without one, OpenSSL would ask the terminal for that of an encrypted key, and wait.
            self._context.load_cert_chain(f"/proc/self/fd/{fd}", None, "")
        finally:
            os.close(fd)

    def wrap(self, sock: _socket.socket, host: str) -> Tls:
        """Return the TLS side of a connected, non-blocking socket; the handshake is still to be done."""
        return self._context._wrap_socket(sock, False, host, owner=None, session=self._session)  # type: ignore[attr-defined,no-any-return]  # noqa: SLF001

    def remember(self, tls: Tls) -> None:
        """Resume this connection's session in the next one. A server that no longer knows it makes a full handshake."""
        if not tls.session_reused:
            session = tls.session
            if session is not None and session.has_ticket:
                self._session = session
