"""The cluster as tests use it: objects as dictionaries, one namespace, waits that have a deadline."""

from __future__ import annotations

import contextlib
import json
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import urllib3
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import NotFoundError
from kubernetes.stream import stream

from tests.cluster import pods as of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

Object = dict[str, Any]

LABELS = {"mpi-agents/made-by": "tests"}  # of what is not in a namespace, and of namespaces
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEADLINE_S = 120.0
_PAUSE_S = 0.2  # between tries where the API server doesn't answer
_CONNECT_S = 10.0
_LOST = (urllib3.exceptions.HTTPError, OSError)
_Found = TypeVar("_Found")


class WaitError(AssertionError):
    """The event did not come in time; the text is a picture of how things stand."""


@dataclass(frozen=True)
class Done:
    """A command that ended in a container."""

    code: int
    output: str
    errors: str


class Api:
    """The API server that a kubeconfig names."""

    def __init__(self, kubeconfig: str) -> None:
        self._kubeconfig = kubeconfig
        self._client = config.new_client_from_config(kubeconfig)
        self._dynamic = DynamicClient(self._client)

    def close(self) -> None:
        """Close the connections that are kept."""
        self._client.rest_client.pool_manager.clear()

    def path(self, kind: str, api_version: str, name: str | None = None, namespace: str | None = None) -> str:
        """The URL's path of a kind's objects, or of one."""
        resource = self._dynamic.resources.get(api_version=api_version, kind=kind)
        return str(resource.path(name=name, namespace=namespace if resource.namespaced else None))

    def call(self, method: str, path: str, body: Any = None, *, query: Mapping[str, Any] | None = None) -> Any:
        """One request and its answer as JSON. Raises ApiException; NotFoundError is one."""
        content = "application/merge-patch+json" if method == "patch" else "application/json"
        response = self._dynamic.request(
            method, path, body=body, query_params=[*(query or {}).items()], content_type=content, serialize=False
        )
        return json.loads(response.data)

    def find(self, path: str) -> Object | None:
        """An object; None if there is none."""
        try:
            found: Object = self.call("get", path)
        except NotFoundError:
            return None
        return found

    def remove(self, path: str, within_s: float = DEADLINE_S) -> None:
        """Delete an object, if it is there, and wait until it is gone. Raises WaitError."""
        with contextlib.suppress(NotFoundError):
            self.call("delete", path)
        until(f"{path} is gone", lambda: self.find(path) is None, within_s)

    @contextlib.contextmanager
    def made(self, body: Object, namespace: str | None = None) -> Iterator[None]:
        """Have an object, in the place of one that a killed run has left; of a definition the kind is served."""
        kind, version = body["kind"], body["apiVersion"]
        path = self.path(kind, version, body["metadata"]["name"], namespace)
        self.remove(path)
        self.call("post", self.path(kind, version, None, namespace), body)
        try:
            if kind == "CustomResourceDefinition":
                until("the kind's definition", lambda: self.is_defined(path))
            yield
        finally:
            self.remove(path)

    def is_defined(self, path: str) -> bool:
        """Whether a CustomResourceDefinition is there and its kind is served, a moment after it says so."""
        found = self.find(path) or {}
        conditions = found.get("status", {}).get("conditions") or ()
        if not any(one["type"] == "Established" and one["status"] == "True" for one in conditions):
            return False
        spec = found["spec"]
        served = [one["name"] for one in spec["versions"] if one["served"]]
        try:
            for version in served:
                self.call("get", f"/apis/{spec['group']}/{version}/{spec['names']['plural']}", query={"limit": 1})
        except ApiException:
            return False
        return True

    def lines(self, path: str, query: Mapping[str, Any], timeout_s: float) -> Iterator[str]:
        """An answer line by line, as it comes, with a limit for the time between two lines. Raises HTTPError."""
        response = self._dynamic.request(
            "get",
            path,
            query_params=[*query.items()],
            header_params={"Accept": "*/*"},
            serialize=False,
            _request_timeout=(_CONNECT_S, timeout_s),
        )
        try:
            for line in response:
                yield line.decode(errors="replace")
        finally:
            response.close()

    def exec(self, namespace: str, pod: str, argv: Sequence[str], container: str | None, timeout_s: float) -> Done:
        """Run a command in a container to its end."""
        # Its stream() replaces methods of the client, which therefore serves this call alone.
        core = client.CoreV1Api(config.new_client_from_config(self._kubeconfig))
        where = {"container": container} if container else {}
        session = stream(
            core.connect_get_namespaced_pod_exec,
            pod,
            namespace,
            command=list(argv),
            stdout=True,
            stderr=True,
            _preload_content=False,
            **where,
        )
        session.run_forever(timeout=timeout_s)
        runs_on = session.is_open()
        session.close()
        session.sock.shutdown()  # which close() leaves out where the server has closed first
        if runs_on:
            raise WaitError(f"{argv[0]} in {pod} runs on after {timeout_s:g} s")
        return Done(session.returncode, session.read_stdout(timeout=0) or "", session.read_stderr(timeout=0) or "")


def until(
    what: str | Callable[[], str],
    check: Callable[[], _Found | None],
    within_s: float = DEADLINE_S,
    *,
    pause_s: float = _PAUSE_S,
) -> _Found:
    """Call `check`, which asks the API server, until it gives something true, and return that. Raises WaitError."""
    end = time.monotonic() + within_s
    while not (found := check()):
        if time.monotonic() > end:
            raise WaitError(f"not within {within_s:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(pause_s)
    return found


def remove_leftovers(api: Api) -> None:
    """Delete the namespaces of an earlier run, which was interrupted, with all that runs there. Raises WaitError."""
    selector = {"labelSelector": ",".join(f"{name}={text}" for name, text in LABELS.items())}
    found = api.call("get", api.path("Namespace", "v1"), query=selector)["items"]
    left = [Namespace(api, one["metadata"]["name"]) for one in found]
    for namespace in left:
        namespace.delete("Namespace", namespace.name)
    for namespace in left:
        namespace.wait_deleted("Namespace", namespace.name)


class Namespace:
    """A namespace of a test's own."""

    def __init__(self, api: Api, name: str) -> None:
        self.api, self.name = api, name

    # Objects ----------------------------------------------------------------------------------------------------------

    def create(self, level: str = "privileged") -> None:
        """Create it; it enforces a Pod Security level."""
        labels = {"pod-security.kubernetes.io/enforce": level, **LABELS}
        self.api.call("post", self.api.path("Namespace", "v1"), {"metadata": {"name": self.name, "labels": labels}})

    def apply(self, objects: Iterable[Object]) -> None:
        """Create the objects in this namespace (or cluster-wide, if their kind is)."""
        for one in objects:
            self.api.call("post", self.path(one["kind"], api_version=one["apiVersion"]), one)

    def get(self, kind: str, name: str, api_version: str = "v1") -> Object:
        """Read an object. Raises NotFoundError."""
        return dict(self.api.call("get", self.path(kind, name, api_version)))

    def patch(self, kind: str, name: str, change: Object, api_version: str = "v1") -> Object:
        """Change an object by a JSON merge patch: lists are replaced as a whole."""
        return dict(self.api.call("patch", self.path(kind, name, api_version), change))

    def delete(self, kind: str, name: str, *, grace_s: int | None = None, api_version: str = "v1") -> None:
        """Have an object deleted, with what it owns; its end may come later. No error where there is none."""
        query = {"propagationPolicy": "Background"} | ({} if grace_s is None else {"gracePeriodSeconds": grace_s})
        try:
            self.api.call("delete", self.path(kind, name, api_version), query=query)
        except NotFoundError:
            return

    def pods(self, selector: str = "") -> list[of.Pod]:
        """The pods, by name."""
        listed = self.api.call("get", self.path("Pod"), query={"labelSelector": selector} if selector else None)
        return sorted(listed["items"], key=lambda pod: str(pod["metadata"]["name"]))

    def events(self) -> list[Object]:
        """The events, oldest first."""
        listed = self.api.call("get", self.path("Event"))["items"]

        def key(event: Object) -> tuple[str, int]:  # most times are whole seconds: within one, the order of writes
            time = str(event.get("lastTimestamp") or event.get("eventTime"))
            return time[: len("2026-01-01T00:00:00")], int(event["metadata"]["resourceVersion"])

        return sorted(listed, key=key)

    def warnings(self, job: str) -> list[str]:
        """The Warning events of a job's objects, up to the end of each pod: of a healthy start there are none."""
        events = [(event, event["involvedObject"]["name"]) for event in self.events()]
        ends: dict[str, str] = {}  # a probe may still meet a container that the kubelet has just ended
        for event, name in events:
            if event["reason"] == "Killing":
                ends.setdefault(name, str(event["firstTimestamp"]))
        return [
            f"{name}: {event['reason']}: {event['message']}"
            for event, name in events
            if event["type"] == "Warning"
            and f"{name}-".startswith(f"{job}-")
            and event["reason"] != "FailedScheduling"  # other tests' pods fill the node at times
            # The kubelet gives its caches one second on a busy node, and then tries again.
            and not re.search("failed to sync (secret|configmap) cache", event["message"])
            and not (name in ends and str(event.get("firstTimestamp") or event.get("eventTime")) >= ends[name])
        ]

    def path(self, kind: str, name: str | None = None, api_version: str = "v1") -> str:
        """The URL's path of a kind's objects in this namespace, or of one."""
        return self.api.path(kind, api_version, name, self.name)

    # Waits ------------------------------------------------------------------------------------------------------------

    def until(
        self, condition: Callable[[dict[str, of.Pod]], Any], what: str, deadline_s: float = DEADLINE_S
    ) -> dict[str, of.Pod]:
        """Wait until `condition` holds for the pods by name, as a watch tells of them, and return them.

        It waits for an API server that is away, too. Raises WaitError.
        """
        pods: dict[str, of.Pod] = {}
        end = time.monotonic() + deadline_s
        while (left := end - time.monotonic()) > 0:
            try:
                for pods in self._views(left):
                    if condition(pods):
                        return pods
                    if time.monotonic() > end:
                        break
            except _LOST:
                pass
            except ApiException as error:
                if error.status and error.status < 500 and error.status not in (410, 429):
                    raise
            time.sleep(_PAUSE_S)
        raise WaitError(f"not within {deadline_s:g} s: {what}\n{of.picture(pods.values())}")

    def wait(self, pod: str, condition: Callable[[of.Pod], Any], what: str, deadline_s: float = DEADLINE_S) -> of.Pod:
        """Wait until this pod is there and `condition` holds for it; return it. Raises WaitError."""
        return self.until(lambda pods: pod in pods and condition(pods[pod]), f"{pod} {what}", deadline_s)[pod]

    def wait_ready(self, names: Iterable[str], deadline_s: float = DEADLINE_S) -> dict[str, of.Pod]:
        """Wait until all these pods are Ready at one moment; return all pods by name. Raises WaitError."""
        names = [*names]
        return self.until(
            lambda pods: all(name in pods and of.is_ready(pods[name]) for name in names),
            f"{', '.join(names[:3])}{' …' if names[3:] else ''} ready",
            deadline_s,
        )

    def uid(self, pod: str) -> str:
        """A pod's uid. Raises NotFoundError."""
        return str(self.get("Pod", pod)["metadata"]["uid"])

    def wait_another(self, pod: str, uid: str, deadline_s: float = DEADLINE_S) -> None:
        """Wait until another pod than that has this name, and is Ready. Raises WaitError."""
        self.wait(
            pod, lambda one: one["metadata"]["uid"] != uid and of.is_ready(one), "is ready, as another pod", deadline_s
        )

    def replace(self, pod: str, *, grace_s: int = 1) -> None:
        """Delete a pod, and wait until another one is ready in its place. Raises WaitError."""
        uid = self.uid(pod)
        self.delete("Pod", pod, grace_s=grace_s)
        self.wait_another(pod, uid)

    def wait_exit(self, pod: str, container: str, deadline_s: float = DEADLINE_S) -> int:
        """Wait until a container has ended; its exit code. Raises WaitError."""
        ended = self.wait(
            pod, lambda one: of.exit_code(one, container) is not None, f"{container} has ended", deadline_s
        )
        code = of.exit_code(ended, container)
        assert code is not None
        return code

    def wait_gone(self, pod: str, deadline_s: float = DEADLINE_S) -> None:
        """Wait until there is no pod of this name. Raises WaitError."""
        self.until(lambda pods: pod not in pods, f"{pod} is gone", deadline_s)

    def wait_deleted(self, kind: str, name: str, deadline_s: float = DEADLINE_S, api_version: str = "v1") -> None:
        """Wait until there is no such object. Raises WaitError."""
        path = self.path(kind, name, api_version)
        until(f"{kind} {name} is gone", lambda: self.api.find(path) is None, deadline_s)

    def _views(self, timeout_s: float) -> Iterator[dict[str, of.Pod]]:
        """The pods as they are, and again after each change, until the watch ends."""
        listed = self.api.call("get", self.path("Pod"))
        pods = {pod["metadata"]["name"]: pod for pod in listed["items"]}
        yield pods
        query = {
            "watch": "true",
            "resourceVersion": listed["metadata"]["resourceVersion"],
            "timeoutSeconds": max(1, int(timeout_s)),
        }
        for line in self.api.lines(self.path("Pod"), query, timeout_s + 1):
            event = json.loads(line)
            if event["type"] == "ERROR":  # too old a version: the next list is newer
                return
            pod = event["object"]
            if event["type"] == "DELETED":
                pods.pop(pod["metadata"]["name"], None)
            else:
                pods[pod["metadata"]["name"]] = pod
            yield pods

    # Inside -----------------------------------------------------------------------------------------------------------

    def logs(self, pod: str, container: str, *, previous: bool = False) -> str:
        """What a container has printed so far, stdout and stderr; "" before it has started."""
        query = {"container": container} | ({"previous": "true"} if previous else {})
        try:
            return "".join(self.api.lines(f"{self.path('Pod', pod)}/log", query, _CONNECT_S))
        except ApiException as error:
            if error.status in (400, 404):
                return ""
            raise

    def wait_log(self, pod: str, container: str, text: str, times: int = 1, deadline_s: float = DEADLINE_S) -> str:
        """Wait until a container has printed `text` so often; what it has printed. Raises WaitError.

        The container must have started, or be about to.
        """
        end = time.monotonic() + deadline_s
        log = ""
        while (left := end - time.monotonic()) > 0:
            log = ""
            try:
                query = {"container": container, "follow": "true"}
                for line in self.api.lines(f"{self.path('Pod', pod)}/log", query, left):
                    log += line
                    if log.count(text) >= times:
                        return log
                if of.exit_code(self.get("Pod", pod), container) is not None:
                    break
            except (*_LOST, ApiException):
                pass
            time.sleep(_PAUSE_S)
        seen = f"{log.count(text)} of {times} {text!r} in the log of {container} in {pod}"
        raise WaitError(f"{'not within the time' if left <= 0 else 'it has ended'}: {seen}\n{log[-3000:]}")

    def may_exec(self, account: str, pod: str, verb: str = "create") -> bool:
        """Whether a ServiceAccount may exec into a pod, as the API server itself knows it now."""
        version, kind = "authorization.k8s.io/v1", "SubjectAccessReview"
        wanted = {"namespace": self.name, "verb": verb, "resource": "pods", "subresource": "exec", "name": pod}
        spec = {"user": f"system:serviceaccount:{self.name}:{account}", "resourceAttributes": wanted}
        review = {"apiVersion": version, "kind": kind, "spec": spec}
        return bool(self.api.call("post", self.api.path(kind, version), review)["status"].get("allowed"))

    def exec_in(
        self, pod: str, argv: Sequence[str], container: str | None = None, *, timeout_s: float = DEADLINE_S
    ) -> Done:
        """Run a command in a container to its end. Raises WaitError if it has none in time."""
        return self.api.exec(self.name, pod, argv, container, timeout_s)
