"""The API server, and our credentials for it: from the pod's service account, or from a kubeconfig in JSON form.

YAML is not read: the standard library has no reader for it, and kubectl takes JSON as well
(`kubectl config view --raw --flatten -o json`).
"""

from __future__ import annotations

import binascii
import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from rshagent.call import surroundings
from rshagent.net import proxy
from rshagent.net.tls import Context

# A projected token is replaced at 80 % of its life, an hour by default; client-go reads it again every minute as well.
_TOKEN_AGE_S = 60.0
_FILE_MAX = 1024 * 1024


class ConfigError(Exception):
    """How this process is set up keeps it from the cluster, or a hub from serving; the text is one line for people."""

    def __init__(self, text: str) -> None:
        super().__init__("".join(char if char.isprintable() else "?" for char in text))  # names may hold anything


class Token:
    """A bearer token in a file that another process renews."""

    def __init__(self, path: str, clock: Callable[[], float]) -> None:
        self._path, self._clock = path, clock
        self._value = ""
        self._read_at: float | None = None

    def value(self) -> str:
        """Return the token, read again once a minute; the old one where that fails. Raises ConfigError."""
        if self._read_at is None or self._clock() - self._read_at >= _TOKEN_AGE_S:
            try:
                self._value = _header_value(_read_file(self._path, "the token"), f"the token file {self._path}")
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
            return _from_kubeconfig(environ["KUBECONFIG"], environ, clock)
        return _in_cluster(environ, clock)

    @property
    def authority(self) -> str:
        """The server as a Host header names it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def authorization(self) -> str | None:
        """Return the Authorization header's value, None if a certificate authenticates us. Raises ConfigError."""
        if self._token is None:
            return None
        return "Bearer " + (self._token.value() if isinstance(self._token, Token) else self._token)

    def renew(self) -> None:
        """Read token and CA again: the server refused one, or we the other, and both are files that get renewed.

        A CA that can't be read just now is not replaced.
        """
        if isinstance(self._token, Token):
            self._token.forget()
        with suppress(ConfigError):
            self.tls = self._reload_tls()


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


def _from_kubeconfig(path: str, environ: Mapping[str, str], clock: Callable[[], float]) -> Cluster:
    """Read the current context of the kubeconfig at `path`. Raises ConfigError."""
    document = _read_document(path)
    context = _named(document, "contexts", "context", str(document.get("current-context") or ""), path)
    cluster = _named(document, "clusters", "cluster", str(context.get("cluster") or ""), path)
    user = _named(document, "users", "user", str(context.get("user") or ""), path)
    folder = os.path.dirname(os.path.abspath(path))
    if user.get("exec") or user.get("auth-provider"):
        raise ConfigError(
            f"the user in {path} gets its credentials from a plugin, which is not run here: use a token or certificate"
        )
    if cluster.get("insecure-skip-tls-verify"):
        raise ConfigError(f"{path} turns the verification of the server off, which is not supported: name its CA")
    server = cluster.get("server")
    if not isinstance(server, str):
        raise ConfigError(f"the cluster in {path} has no server")
    return Cluster(
        server=server,
        load_tls=lambda: _client_context(cluster, user, folder),
        namespace=environ.get("MPI_AGENT_NAMESPACE") or str(context.get("namespace") or "default"),
        token=_token(user, folder, clock),
        environ=environ,
        proxy_url=str(cluster.get("proxy-url") or "") or None,
    )


def _read_document(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as error:
        raise ConfigError(f"the kubeconfig {path} can't be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise ConfigError(
            f"the kubeconfig {path} is not JSON; make it so: kubectl config view --raw --flatten -o json"
        ) from None
    if not isinstance(document, dict):
        raise ConfigError(f"the kubeconfig {path} is not a JSON object")
    return document


def _named(document: dict[str, Any], group: str, kind: str, name: str, path: str) -> dict[str, Any]:
    entries = document.get(group)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(kind), dict):
            found: dict[str, Any] = entry[kind]
            return found
    raise ConfigError(f"the kubeconfig {path} has no {kind} {name!r}")


def _client_context(cluster: dict[str, Any], user: dict[str, Any], folder: str) -> Context:
    data, file = cluster.get("certificate-authority-data"), cluster.get("certificate-authority")
    if data:
        # In ASCII, as PEM is: a comment of other letters does no harm, and _ssl would not take it.
        pem = decode(str(data), "certificate-authority-data").decode("ascii", "replace").replace("\ufffd", "?")
        context = tls_context(ca_data=pem)
    else:
        context = tls_context(ca_file=os.path.join(folder, str(file)) if file else None)
    certificate, key = (_part(user, name, folder) for name in ("client-certificate", "client-key"))
    if bool(certificate) != bool(key):
        raise ConfigError("the kubeconfig must have both a client certificate and its key")
    if certificate and key:
        try:
            context.use_certificate_data(certificate, key)
        except OSError:
            raise ConfigError("the kubeconfig's client certificate and key do not fit together") from None
    return context


def _part(user: dict[str, Any], name: str, folder: str) -> bytes | None:
    data, file = user.get(f"{name}-data"), user.get(name)
    if data:
        return decode(str(data), f"{name}-data")
    if not file:
        return None
    return _read_file(os.path.join(folder, str(file)), f"the kubeconfig's {name}")


def _token(user: dict[str, Any], folder: str, clock: Callable[[], float]) -> str | Token | None:
    if user.get("tokenFile"):
        token = Token(os.path.join(folder, str(user["tokenFile"])), clock)
        token.value()
        return token
    inline = user.get("token")
    return _header_value(str(inline).encode("utf-8", "surrogatepass"), "the kubeconfig's token") if inline else None


def tls_context(*, ca_file: str | None = None, ca_data: str | None = None) -> Context:
    """Return a context that trusts the given CAs, or the system's where none is given. Raises ConfigError."""
    try:
        return Context(ca_file=ca_file, ca_data=ca_data)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, FileNotFoundError | PermissionError) else "no certificate in it"
        raise ConfigError(f"the cluster's CA can't be read from {ca_file or 'the kubeconfig'}: {reason}") from None


def _header_value(token: bytes, place: str) -> str:
    """Return a token as it goes into a header; `place` says where it stood. Raises ConfigError, without it."""
    value = token.decode("latin-1").strip()
    if not value or not value.isascii() or not value.isprintable():
        raise ConfigError(f"{place} holds no token")
    return value


def _read_file(path: str, what: str) -> bytes:
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
