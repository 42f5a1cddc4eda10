"""Which API server, and who we are to it: from the pod's service account, or from a kubeconfig in JSON form.

YAML is not read: the standard library has no reader for it, and kubectl takes JSON as well
(`kubectl config view --raw --flatten -o json`).
"""

from __future__ import annotations

import binascii
import time

from rshagent.call import surroundings
from rshagent.net import proxy
from rshagent.net.tls import Context

TYPE_CHECKING = False  # typing costs every launch 3 ms to import
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# A projected token is replaced at 80 % of its life, an hour by default; client-go reads it again every minute as well.
_TOKEN_AGE_S = 60.0
_FILE_MAX = 1024 * 1024


class ConfigError(Exception):
    """The cluster can't be reached because of how this process is set up; the text is one line for people."""

    def __init__(self, text: str) -> None:
        super().__init__("".join(char if char.isprintable() else "?" for char in text))  # names may hold anything


class Token:
    """A bearer token in a file that somebody else renews."""

    __slots__ = ("_clock", "_path", "_read_at", "_value")

    def __init__(self, path: str, clock: Callable[[], float]) -> None:
        self._path, self._clock = path, clock
        self._value = ""
        self._read_at: float | None = None

    def value(self) -> str:
        """Return the token, read again once a minute; the old one where that fails. Raises ConfigError."""
        if self._read_at is None or self._clock() - self._read_at >= _TOKEN_AGE_S:
            try:
                self._value = header_value(read_file(self._path, "the token"), f"the token file {self._path}")
                self._read_at = self._clock()
            except ConfigError:
                if not self._value:
                    raise
        return self._value

    def forget(self) -> None:
        """Read the file again at the next use (after a 401)."""
        self._value, self._read_at = "", None


class Cluster:
    """An API server and our credentials for it."""

    __slots__ = ("_reload_tls", "_token", "host", "namespace", "path", "port", "proxy", "tls", "token")

    def __init__(
        self,
        *,
        server: str,
        load_tls: Callable[[], Context],
        namespace: str,
        token: str | Token | None,
        environ: Mapping[str, str],
        proxy_url: str | None = None,
    ) -> None:
        self.host, self.port, self.path = _split_server(server)
        self._reload_tls = load_tls
        self.tls = load_tls()
        self.namespace = namespace
        self._token = token
        try:
            self.proxy = proxy.choose(environ, self.host, self.port, proxy_url)
        except ValueError as error:
            raise ConfigError(str(error)) from None

    @classmethod
    def load(cls, environ: Mapping[str, str], clock: Callable[[], float] = time.monotonic) -> Cluster:
        """Read KUBECONFIG if it is set, else the pod's service account. Raises ConfigError."""
        if environ.get("KUBECONFIG"):
            from rshagent.net.kubeconfig import load  # noqa: PLC0415 (json costs 5 ms, and no pod needs it)

            return load(environ["KUBECONFIG"], environ, clock)
        return _in_cluster(environ, clock)

    @property
    def authority(self) -> str:
        """The server as a Host header names it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def authorization(self) -> str | None:
        """Return the Authorization header's value, None where a certificate speaks for us. Raises ConfigError."""
        if self._token is None:
            return None
        return "Bearer " + (self._token.value() if isinstance(self._token, Token) else self._token)

    def renew(self) -> None:
        """Read token and CA again: the server refused one, or we the other, and both are files that get renewed."""
        if isinstance(self._token, Token):
            self._token.forget()
        self.tls = self._reload_tls()

    def renew_quietly(self) -> None:
        """Do the same, and stay with what we have where the files can't be read just now."""
        try:
            self.renew()
        except ConfigError:
            return


def _in_cluster(environ: Mapping[str, str], clock: Callable[[], float]) -> Cluster:
    host, account = environ.get("KUBERNETES_SERVICE_HOST"), surroundings.service_account(environ)
    if not host:
        raise ConfigError(
            "no API server is known: this is no pod (KUBERNETES_SERVICE_HOST is not set) and KUBECONFIG is not set"
        )
    port = environ.get("KUBERNETES_SERVICE_PORT_HTTPS") or environ.get("KUBERNETES_SERVICE_PORT") or "443"
    token = Token(f"{account}/token", clock)
    token.value()
    authority = f"[{host}]" if ":" in host else host
    return Cluster(
        server=f"https://{authority}:{port}",
        load_tls=lambda: tls_context(ca_file=f"{account}/ca.crt"),
        namespace=surroundings.namespace(environ),
        token=token,
        environ=environ,
    )


def tls_context(*, ca_file: str | None = None, ca_data: str | None = None) -> Context:
    """Return a context that trusts the given CAs, or the system's where none is given. Raises ConfigError."""
    try:
        return Context(ca_file=ca_file, ca_data=ca_data)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, FileNotFoundError | PermissionError) else "no certificate in it"
        raise ConfigError(f"the cluster's CA can't be read from {ca_file or 'the kubeconfig'}: {reason}") from None


def header_value(token: bytes, place: str) -> str:
    """Return a token as it goes into a header; `place` says where it stood. Raises ConfigError, without it."""
    value = token.decode("latin-1").strip()
    if not value or not value.isascii() or not value.isprintable():
        raise ConfigError(f"{place} holds no token")
    return value


def read_file(path: str, what: str) -> bytes:
    """Return what a file of ours holds. Raises ConfigError."""
    try:
        with open(path, "rb") as file:
            return file.read(_FILE_MAX)
    except OSError as error:
        raise ConfigError(f"{what} can't be read from {path}: {error.strerror}") from None
    except ValueError:  # a NUL in it
        raise ConfigError(f"{what} can't be read from {path!a}: that is no path") from None


def _split_server(server: str) -> tuple[str, int, str]:
    scheme, separator, rest = server.partition("://")
    if not separator:
        scheme, rest = "https", server
    if not server.isascii() or not server.isprintable() or " " in server:
        raise ConfigError(f"the API server {server!a} is no address")
    if scheme.lower() != "https":
        raise ConfigError(f"the API server {server} is not an https address: a token would be readable on the way")
    authority, _, path = rest.partition("/")
    try:
        host, port = proxy.split_host(authority, 443)
    except ValueError:
        raise ConfigError(f"the API server {server} has no valid port") from None
    if not proxy.is_host(host):
        raise ConfigError(f"the API server {server} has no valid host")
    return host, port, "/" + path.strip("/") if path.strip("/") else ""


def decode(data: str, what: str) -> bytes:
    """Decode a kubeconfig's inline base64. Raises ConfigError."""
    try:
        return binascii.a2b_base64(data.encode("ascii"), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError):
        raise ConfigError(f"the kubeconfig's {what} is not base64") from None
