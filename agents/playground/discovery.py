"""What kubectl reads before it speaks of pods. Pure."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def answer(path: str, minor: int) -> Object | None:
    """The answer to a discovery path; None where the stand-in has nothing."""
    if path == "/version":
        return {"major": "1", "minor": str(minor), "gitVersion": f"v1.{minor}.0", "platform": "linux/amd64"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        group = {"groupVersion": "authorization.k8s.io/v1", "version": "v1"}
        groups = [{"name": "authorization.k8s.io", "versions": [group], "preferredVersion": group}]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    if path == "/api/v1":
        pods = _resource("pods", "Pod", ["get", "list", "watch"], singularName="pod", shortNames=["po"])
        return _resources("v1", [pods, _resource("pods/exec", "PodExecOptions", ["create", "get"])])
    if path == "/apis/authorization.k8s.io/v1":
        review = _resource("selfsubjectaccessreviews", "SelfSubjectAccessReview", ["create"], namespaced=False)
        return _resources("authorization.k8s.io/v1", [review])
    return None


def _resource(name: str, kind: str, verbs: list[str], **more: Any) -> Object:
    return {"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": verbs, **more}


def _resources(version: str, resources: list[Object]) -> Object:
    return {"kind": "APIResourceList", "groupVersion": version, "resources": resources}
