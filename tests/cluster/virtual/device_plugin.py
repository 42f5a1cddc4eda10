"""A device plugin: the kubelet gives a device of the node to the pods that ask for it as a resource.

Of k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto as much as that takes. Its messages are few and short, so they
are written by hand.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

if TYPE_CHECKING:
    from collections.abc import Iterator

_SOCKETS = Path("/var/lib/kubelet/device-plugins")  # whatever the kubelet's root folder is
_API = "v1beta1"
_WAIT_S = 60.0


class _Plugin(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Gives one device, as often as there are numbers below `many`."""

    def __init__(self, device: str, node: str, many: int) -> None:
        spec = _bytes(1, device) + _bytes(2, node) + _bytes(3, "rw")
        self._allocated = _bytes(1, _bytes(3, spec))
        self._devices = b"".join(_bytes(1, _bytes(1, str(n)) + _bytes(2, "Healthy")) for n in range(many))
        self.has_ended = threading.Event()

    def service(self, handler_call_details: Any) -> Any:
        method = handler_call_details.method.rpartition("/")[2]
        if method == "ListAndWatch":
            return grpc.unary_stream_rpc_method_handler(self._list)
        answers = {"GetDevicePluginOptions": b"", "Allocate": self._allocated}
        return grpc.unary_unary_rpc_method_handler(lambda _request, _context: answers[method])

    def _list(self, _request: bytes, _context: Any) -> Iterator[bytes]:
        yield self._devices
        self.has_ended.wait()


def _bytes(field: int, value: str | bytes) -> bytes:
    """A field of text, bytes or a message, of less than 128 bytes."""
    data = value.encode() if isinstance(value, str) else value
    assert len(data) < 128
    return bytes((field << 3 | 2, len(data))) + data


@contextlib.contextmanager
def device_plugin(resource: str, device: str, many: int = 8) -> Iterator[None]:
    """Have pods get a device of the node by `resources.limits`, `many` times at once; any user may use it there."""
    name = resource.replace("/", "-") + ".sock"
    node = _SOCKETS / Path(device).name  # as a container's has the mode of the node's
    node.unlink(missing_ok=True)  # of a run that was killed
    os.mknod(node, stat.S_IFCHR, os.stat(device).st_rdev)
    node.chmod(0o666)
    plugin = _Plugin(device, os.fspath(node), many)
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((plugin,))
    server.add_insecure_port(f"unix://{_SOCKETS / name}")
    server.start()
    try:
        with grpc.insecure_channel(f"unix://{_SOCKETS}/kubelet.sock") as kubelet:
            register = kubelet.unary_unary(f"/{_API}.Registration/Register")
            register(_bytes(1, _API) + _bytes(2, name) + _bytes(3, resource), timeout=_WAIT_S, wait_for_ready=True)
        yield
    finally:
        plugin.has_ended.set()
        server.stop(grace=None).wait()
        (_SOCKETS / name).unlink(missing_ok=True)
        node.unlink(missing_ok=True)
