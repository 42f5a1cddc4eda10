"""horovodrun from Horovod's plain sources: its runner is all Python; the collectives (Gloo) are not built.

It refuses to start ranks if Gloo was not built, so it is told that it was: ranks start as always, and can't allreduce.
"""

if __name__ == "__main__":  # its processes import this file again
    import os
    import sys

    from horovod.runner import launch
    from horovod.runner.common.util import env

    launch.gloo_built = lambda verbose=False: True  # noqa: ARG005 - its signature
    # It knows /etc/mpi/kubexec.sh alone; where pods can't have that path, the agent is somewhere else.
    env.KUBEFLOW_MPI_EXEC = os.environ["OMPI_MCA_plm_rsh_agent"]  # noqa: SIM112
    launch.run_commandline()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # a thread of its own that still writes would abort Python's shutdown, now and then
