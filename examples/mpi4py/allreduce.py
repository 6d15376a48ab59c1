"""Every rank adds its share of a vector; all ranks must see the same sum."""

import array
import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()

share = array.array("d", [rank + i for i in range(1000)])
total = array.array("d", bytes(8 * len(share)))
world.Allreduce(share, total, op=MPI.SUM)

wanted = [size * (size - 1) / 2 + size * i for i in range(1000)]
wrong = world.allreduce(int(list(total) != wanted))
if rank == 0:
    print(f"sum over {size} ranks: {total[0]:.0f} to {total[-1]:.0f}, wrong on {wrong}")
sys.exit(bool(wrong))
