"""A kubeconfig in JSON form: server, CA, and a client certificate or token, inline or as files."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from rshagent.net.cluster import Cluster, ConfigError, Token, decode, header_value, read_file, tls_context

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rshagent.net.tls import Context


def load(path: str, environ: Mapping[str, str], clock: Callable[[], float]) -> Cluster:
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
        load_tls=lambda: _context(cluster, user, folder),
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


def _context(cluster: dict[str, Any], user: dict[str, Any], folder: str) -> Context:
    data, file = cluster.get("certificate-authority-data"), cluster.get("certificate-authority")
    if data:
        # In ASCII, as PEM is: a comment of other letters does no harm, and _ssl would not take it.
        pem = decode(str(data), "certificate-authority-data").decode("ascii", "replace").replace("\ufffd", "?")
        context = tls_context(ca_data=pem)
    else:
        context = tls_context(ca_file=os.path.join(folder, str(file)) if file else None)
    certificate, key = (_part(user, name, folder) for name in ("client-certificate", "client-key"))
    if bool(certificate) != bool(key):
        raise ConfigError("the kubeconfig has one of client certificate and key, and lacks the other")
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
    return read_file(os.path.join(folder, str(file)), f"the kubeconfig's {name}")


def _token(user: dict[str, Any], folder: str, clock: Callable[[], float]) -> str | Token | None:
    if user.get("tokenFile"):
        token = Token(os.path.join(folder, str(user["tokenFile"])), clock)
        token.value()
        return token
    inline = user.get("token")
    return header_value(str(inline).encode("utf-8", "surrogatepass"), "the kubeconfig's token") if inline else None
