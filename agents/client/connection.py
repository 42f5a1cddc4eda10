"""A user's requests to the API server, with errors for people."""

from __future__ import annotations

from typing import Self

from agents.client.errors import AccessError, from_api
from agents.kube.api import Api
from agents.kube.errors import ApiError
from rshagent import __version__

_CONNECTIONS = 4
_READ_S = 60.0
PAGE = 500  # as kubectl


class Connection(Api):
    """One user's requests to one API server. A failed one raises ClientError."""

    @classmethod
    def load(cls, kubeconfig: str | None, context: str | None) -> Self:
        """Connect as kubectl would. Raises AccessError."""
        from agents.kube import access  # noqa: PLC0415 (`kubernetes` takes long, and --help and completion don't need it)

        try:
            found = access.load(kubeconfig, _CONNECTIONS, context)
        except access.AccessError as error:
            raise AccessError(f"{error} (see --kubeconfig, --context)") from None
        agent = f"kubectl-mpi/{__version__}"
        return cls(found, agent=agent, manager="kubectl-mpi", timeout_s=_READ_S, page=PAGE, is_whole=True)

    def failure(self, error: ApiError) -> Exception:
        """Return the error with its meaning for a user."""
        return from_api(error)
