"""The files by which agents and kubectl find the stand-in and log in: kubeconfigs and service account folders."""

from __future__ import annotations

import json
import os
import secrets


def write_kubeconfig(folder: str, url: str, ca: str, token: str) -> str:
    """Write a kubeconfig in JSON form (kubectl reads it too) with a token; returns its path."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "stand-in",
        "clusters": [{"name": "stand-in", "cluster": {"server": url, "certificate-authority": ca}}],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [
            {"name": "stand-in", "context": {"cluster": "stand-in", "user": "user", "namespace": "default"}},
        ],
    }
    path = os.path.join(folder, f"kubeconfig-{secrets.token_hex(4)}.json")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)
    return path


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
