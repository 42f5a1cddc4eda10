"""The files by which agents and kubectl find the stand-in and log in: kubeconfigs and service account folders."""

from __future__ import annotations

import base64
import json
import os
import secrets
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .certs import Pair


def write_kubeconfig(
    folder: str,
    url: str,
    ca: str,
    *,
    token: str | None = None,
    pair: Pair | None = None,
    namespace: str = "default",
    inline: bool = False,
) -> str:
    """Write a kubeconfig in JSON form (kubectl reads it too) with a token or a client certificate; returns its path.

    `inline` puts the certificates themselves into it instead of their paths.
    """
    cluster: dict[str, Any] = {"server": url, **_file("certificate-authority", ca, inline=inline)}
    login: dict[str, Any] = {"token": token} if token is not None else {}
    if pair is not None:
        login |= _file("client-certificate", pair.certificate, inline=inline)
        login |= _file("client-key", pair.key, inline=inline)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "stand-in",
        "clusters": [{"name": "stand-in", "cluster": cluster}],
        "users": [{"name": "user", "user": login}],
        "contexts": [
            {"name": "stand-in", "context": {"cluster": "stand-in", "user": "user", "namespace": namespace}},
        ],
    }
    path = os.path.join(folder, f"kubeconfig-{secrets.token_hex(4)}.json")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)
    return path


def _file(name: str, path: str, *, inline: bool) -> dict[str, str]:
    if not inline:
        return {name: path}
    with open(path, "rb") as file:
        return {f"{name}-data": base64.b64encode(file.read()).decode()}


def write_service_account(folder: str, token: str, ca: str, namespace: str) -> str:
    """Make a folder with `token`, `ca.crt` and `namespace`, as it is mounted into pods; returns its path."""
    path = os.path.join(folder, f"serviceaccount-{secrets.token_hex(4)}")
    os.makedirs(path)
    with open(ca, encoding="ascii") as file:
        contents = {"token": token, "namespace": namespace, "ca.crt": file.read()}
    for name, text in contents.items():
        with open(os.path.join(path, name), "w", encoding="utf-8") as file:
            file.write(text)
    return path
