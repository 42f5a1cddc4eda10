"""What kubectl reads before it speaks of objects. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import definitions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from .resources import Resource

Object = dict[str, Any]

_REVIEWS = ("authorization.k8s.io", "v1")
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


def answer(path: str, resources: Collection[Resource]) -> Object | None:
    """The answer to a discovery path; None where the stand-in has nothing."""
    if path == "/version":
        return {"major": "1", "minor": "35", "gitVersion": "v1.35.0", "platform": "linux/amd64"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    groups = {group["name"]: group for group in _groups(resources)}
    if path == "/apis":
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": list(groups.values())}
    words = path.strip("/").split("/")
    if words == ["api", "v1"]:
        return _resources(resources, "", "v1")
    if len(words) == 2 and words[0] == "apis" and words[1] in groups:
        return {"kind": "APIGroup", "apiVersion": "v1", **groups[words[1]]}
    if len(words) == 3 and words[0] == "apis" and words[1] in groups:
        return _resources(resources, words[1], words[2])
    if path == "/openapi/v3":
        return {"paths": {place: {"serverRelativeURL": f"/openapi/v3/{place}"} for place in _places(resources)}}
    place = path.removeprefix("/openapi/v3/")
    return _open_api(resources, place) if place in _places(resources) else None


def _groups(resources: Iterable[Resource]) -> list[Object]:
    found: dict[str, list[str]] = {_REVIEWS[0]: [_REVIEWS[1]]}
    for resource in resources:
        if resource.group:
            known = found.setdefault(resource.group, [])
            known += [version for version in resource.versions if version not in known]
    groups = []
    for name, versions in found.items():
        told = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
        groups.append({"name": name, "versions": told, "preferredVersion": told[0]})
    return groups


def _resources(resources: Iterable[Resource], group: str, version: str) -> Object | None:
    told = [one for one in resources if one.group == group and version in one.versions]
    lines = [line for resource in told for line in _lines(resource)]
    if (group, version) == _REVIEWS:
        lines = [
            _resource("selfsubjectaccessreviews", "SelfSubjectAccessReview", ["create"], namespaced=False),
        ]
    if not lines:
        return None
    named = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "groupVersion": named, "resources": lines}


def _lines(resource: Resource) -> list[Object]:
    names = {"singularName": resource.kind.lower(), "shortNames": list(resource.short_names)}
    lines = [_resource(resource.plural, resource.kind, _VERBS, namespaced=resource.namespaced, **names)]
    for one in resource.parts:
        kind, verbs = {
            "exec": ("PodExecOptions", ["create", "get"]),
            "log": ("Pod", ["get"]),
            "scale": ("Scale", ["get", "patch", "update"]),
        }.get(one, (resource.kind, ["get", "patch", "update"]))
        of_kind = {"group": "autoscaling", "version": "v1"} if one == "scale" else {}
        lines.append(_resource(f"{resource.plural}/{one}", kind, verbs, namespaced=resource.namespaced, **of_kind))
    return lines


def _resource(name: str, kind: str, verbs: list[str], *, namespaced: bool = True, **more: Any) -> Object:
    return {"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": verbs, **more}


def _places(resources: Iterable[Resource]) -> dict[str, tuple[str, str]]:
    """OpenAPI documents' names: group and version."""
    pairs = {(one.group, version) for one in resources for version in one.versions}
    return {(f"apis/{group}/{version}" if group else f"api/{version}"): (group, version) for group, version in pairs}


def _open_api(resources: Iterable[Resource], place: str) -> Object:
    """Enough for `kubectl apply`, that the server looks at fields itself, and for `kubectl explain`."""
    group, version = _places(resources)[place]
    paths, schemas = {}, {}
    known, none = definitions.schemas(), {"type": "object", "description": "The stand-in has no schema of this kind."}
    for one in resources:
        if one.group == group and version in one.versions:
            kind = {"group": group, "version": version, "kind": one.kind}
            parameters = [
                {"name": name, "in": "query", "schema": {"type": "string"}} for name in ("dryRun", "fieldValidation")
            ]
            schema = known.get((group, version, one.kind), none)
            schemas[f"{group}.{version}.{one.kind}"] = {**schema, "x-kubernetes-group-version-kind": [kind]}
            operation = {"parameters": parameters, "x-kubernetes-group-version-kind": kind, "responses": {}}
            paths[f"/{place}/namespaces/{{namespace}}/{one.plural}/{{name}}"] = {"patch": operation}
    return {
        "openapi": "3.0.0",
        "info": {"title": "stand-in", "version": version},
        "paths": paths,
        "components": {"schemas": schemas},
    }
