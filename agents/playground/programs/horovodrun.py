"""horovodrun from Horovod's plain sources: its runner is all Python; the collectives (Gloo) are not built.

It refuses to start ranks if Gloo was not built, so it is told that it was: ranks start as always, and can't allreduce.
"""

if __name__ == "__main__":  # its processes import this file again
    from horovod.runner import launch

    launch.gloo_built = lambda verbose=False: True  # noqa: ARG005 - its signature
    launch.run_commandline()
