"""π by the midpoint rule, its strips dealt out to the ranks; ends with 1 if the sum is not π."""

import math
import socket
import sys

from mpi4py import MPI

STRIPS = 400_000

world = MPI.COMM_WORLD
width = 1 / STRIPS
mine = width * sum(4 / (1 + ((strip + 0.5) * width) ** 2) for strip in range(world.rank, STRIPS, world.size))
pi = world.allreduce(mine)
print(f"rank {world.rank} of {world.size} on {socket.gethostname()} has {mine:.10f}", flush=True)
world.Barrier()
if world.rank == 0:
    error = abs(pi - math.pi)
    print(f"π is {pi:.12f}, off by {error:.0e}: {'right' if error < 1e-9 else 'WRONG'}", flush=True)
    sys.exit(error >= 1e-9)
