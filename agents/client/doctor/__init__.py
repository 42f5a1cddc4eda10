"""Checks of a cluster and of a job, each with a remedy: `kubectl mpi doctor`.

- check: what a check found
- rights, cluster, job, admission, capacity: checks as functions of what the API server has. Pure
- script, probe, ssh: what runs in pods, and checks of what it finds. Pure
- examine, probing: ask the API server, and execute the script
"""

from agents.client.doctor.check import Check, Group, Level, ordered, skip
from agents.client.doctor.examine import Examination, Subject, without_cluster

__all__ = ["Check", "Examination", "Group", "Level", "Subject", "ordered", "skip", "without_cluster"]
