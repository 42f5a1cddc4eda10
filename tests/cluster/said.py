"""What `kubectl mpi why` says of each kind of broken job that `broken` makes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

EXEC, SSH, MPI_OPERATOR, TRAINING_OPERATOR = "exec", "ssh", "mpi-operator", "training-operator"
"""Whose jobs: ours by a transport, or another operator's."""


@dataclass(frozen=True)
class Said:
    """STATE, REASON (or several, parted by |), texts of the paragraph, and one of the remedy."""

    state: str
    reason: str
    texts: tuple[str, ...]
    remedy: str


@dataclass(frozen=True)
class Kind:
    """What is said of a kind; `otherwise`: of some operator's job instead, None: it has no such job."""

    said: Said
    otherwise: Mapping[str, Said | None] = field(default_factory=dict)

    def of(self, operator: str) -> Said | None:
        """What is said of an operator's job of this kind; None if it has no such job."""
        return self.otherwise.get(operator, self.said)


_WAITS = "Starting|Running"  # by ssh the launcher runs meanwhile


def unschedulable(text: str, remedy: str) -> Said:
    return Said(_WAITS, "Unschedulable", ("0/1 ready", "unschedulable", text), remedy)


KINDS = {
    "image can't be pulled": Kind(
        Said(
            _WAITS,
            "ErrImagePull|ImagePullBackOff",
            ("can't get its image",),
            "Check the image's name, the registry and the pull secret.",
        )
    ),
    "image's name is invalid": Kind(
        Said(f"{_WAITS}|Failed", "InvalidImageName", ("can never start",), "Correct the image's name in the job.")
    ),
    "too many CPUs": Kind(
        unschedulable("Insufficient cpu", "Ask for less (requests, fewer workers), or wait for or add nodes.")
    ),
    "no such GPU": Kind(
        unschedulable(
            "Insufficient nvidia.com/gpu",
            "Ask for fewer devices, or wait for or add nodes with them; without its device plugin a node offers none.",
        )
    ),
    "no such node": Kind(
        unschedulable(
            "didn't match Pod's node affinity/selector",
            "No node has the labels of nodeSelector or nodeAffinity: correct them, or label a node.",
        )
    ),
    "quota": Kind(
        Said(
            "Blocked",
            "QuotaExceeded",
            ("can't create its pods: exceeded quota: none",),
            "Ask for less, wait until other pods end, or have the quota raised.",
        )
    ),
    "Pod Security": Kind(
        Said(
            "Blocked", "CreationRefused", ("violates PodSecurity",), "Correct the pod templates, or ask for the right."
        )
    ),
    "missing ConfigMap": Kind(
        Said(
            _WAITS,
            "CreateContainerConfigError",
            ("0/1 ready", "can't be created", 'configmap "no-such" not found'),
            "Check the ConfigMaps, Secrets and volumes it names.",
        )
    ),
    "missing Secret": Kind(
        Said(
            _WAITS,
            "FailedMount",
            ("0/1 ready", "can't start (FailedMount)", 'secret "no-such" not found'),
            "Create the Secret, ConfigMap or volume that it names, or correct the name.",
        )
    ),
    "missing claim": Kind(
        unschedulable(
            'persistentvolumeclaim "no-such" not found',
            "Create the PersistentVolumeClaim in the job's namespace, or correct its name.",
        )
    ),
    "worker crashes": Kind(
        Said(
            _WAITS, "CrashLoopBackOff", ("0/1 ready", "out of luck"), "`kubectl logs --previous` shows its last output"
        ),
        # Their launchers may have found it running, for a moment.
        dict.fromkeys(
            (MPI_OPERATOR, TRAINING_OPERATOR),
            Said(
                f"{_WAITS}|Failed",
                "CrashLoopBackOff",
                ("container mpi",),
                "`kubectl logs --previous` shows its last output",
            ),
        ),
    ),
    "worker's memory": Kind(Said("Failed", "OOMKilled|Signal9|ExitCode137", (), "memory limit")),
    "launcher's program": Kind(
        Said(
            "Failed",
            "StartError|ExitCode127|ContainerCannotRun",
            ("no-such-program",),
            "The image lacks this program, or it is not on PATH or not executable: check command and image.",
        )
    ),
    "ranks' program": Kind(
        Said(
            "Failed",
            "ProgramNotFound",
            ("A host does not have the program (no-such-program)",),
            "Check its path, and that the workers' image has it too.",
        )
    ),
    "launcher exits with 3": Kind(
        Said("Failed", "ExitCode3", ("container mpi exited with 3",), "The program's own output says why.")
    ),
    "rank exits with 7": Kind(
        Said("Failed", "ExitCode7", ("container mpi exited with 7",), "The program's own output says why.")
    ),
    "rank crashes": Kind(
        Said(
            "Failed",
            "Signal11",
            ("was killed by signal 11 (Segmentation fault)",),
            "The program crashed: run it with fewer ranks, or under a debugger, to find where.",
        )
    ),
    "rank aborts": Kind(
        Said(
            "Failed",
            "ExitCode1",
            ("rank 1 aborted the job (MPI_Abort) with exit code 1",),
            "The program's own output says why.",
        )
    ),
    "root": Kind(
        Said(
            "Failed",
            "RunsAsRoot",
            ("Open MPI refuses to run as root",),
            "Add --allow-run-as-root to mpirun, or set runAsUser in both templates.",
        )
    ),
    "slots": Kind(
        Said(
            "Failed",
            "NotEnoughSlots",
            ("There are fewer slots than ranks", "not enough slots available"),
            "Start fewer ranks, or raise slotsPerWorker or the number of workers.",
        )
    ),
    "no MPI in the worker": Kind(
        Said(
            "Failed",
            "DaemonNotFound",
            ("lacks the MPI daemon", "orted"),
            "Install the launcher's MPI in the workers' image too, and put it on PATH.",
        )
    ),
    "no sshd": Kind(
        Said("Running", "NoSshd", ("0/1 ready", "no sshd answers in it"), "Its command must start sshd"),
        {
            EXEC: None,
            TRAINING_OPERATOR: None,
            MPI_OPERATOR: Said(
                "Failed",
                "SshNotListening",
                ("No sshd listens in a worker",),
                "Does the workers' command start sshd on this port?",
            ),
        },
    ),
    "keys refused": Kind(
        Said(
            "Failed",
            "SshRefused",
            ("refuses the job's key",),
            "Check sshAuthMountPath, the user, and StrictModes in the image's sshd_config.",
        ),
        {EXEC: None, TRAINING_OPERATOR: None},
    ),
    "too late": Kind(
        Said("Failed", "DeadlineExceeded", (), "Raise runPolicy.activeDeadlineSeconds, or give it more workers."),
        {TRAINING_OPERATOR: None},  # which looks at the deadline only when something else happens to the job
    ),
    "suspended": Kind(
        Said(
            "Suspended",
            "Suspended",
            ("is suspended and has no pods",),
            "Set runPolicy.suspend (or the pause) to false to resume it.",
        )
    ),
    "/dev/shm": Kind(
        Said("Failed", "NoSpace", ("often /dev/shm",), "Mount an emptyDir with medium: Memory at /dev/shm.")
    ),
    "hangs": Kind(Said("Running", "", ("has been running for", "1 of 1 workers"), "")),
    "fails again and again": Kind(
        Said("Failed", "ExitCode1", ("exited with 1",), "The program's own output says why."),
        {
            MPI_OPERATOR: Said(
                "Failed", "BackoffLimitExceeded", ("the specified backoff limit",), "The launcher's pod is gone"
            ),
            TRAINING_OPERATOR: Said(
                "Failed", "MPIJobFailed", ("the specified backoff limit",), "The launcher's pod is gone"
            ),
        },
    ),
    "evicted": Kind(Said("Failed", "Evicted", ("Evicted",), "The program is not at fault: submit the job again")),
}
