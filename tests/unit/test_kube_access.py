"""Credentials for the API server are read again for each request."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes.client import Configuration
from kubernetes.config import ConfigException

from agents.kube.access import Access
from agents.kube.api import Api
from agents.kube.errors import UnavailableError


@pytest.mark.parametrize("fault", [OSError(24, "Too many open files"), ConfigException("Token file exists but empty.")])
def test_a_token_that_can_t_be_read_is_a_request_that_failed(fault: Exception) -> None:
    """As any other it is tried again: the threads that watch and renew the lease take nothing else."""

    def renew(_configuration: Any) -> None:
        raise fault

    configuration = Configuration(host="https://127.0.0.1:1")
    configuration.api_key["BearerToken"] = "bearer one"
    configuration.refresh_api_key_hook = renew
    api = Api(Access(configuration, 1), agent="mpi-operator", manager="mpi-agents")
    with pytest.raises(UnavailableError, match=r"the token can't be read: .*(Too many|empty)"):
        api.get("/apis")
    with pytest.raises(UnavailableError):
        api.watch("/api/v1/pods", version="1", timeout_s=1)
