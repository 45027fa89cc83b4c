"""Exchanges Python objects and buffers between two ranks by mpi4py, with checks of the data."""

from mpi4py import MPI

BYTES, TIMES = 65536, 20

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
assert size == 2
for time in range(TIMES):
    data = bytes((time + at) % 251 for at in range(256)) * (BYTES // 256)
    message, room = {"time": time, "data": data}, bytearray(BYTES)
    if rank == 0:
        world.send(message, dest=1)
        assert world.recv(source=1) == message, time
        world.Send([data, MPI.BYTE], dest=1)
        world.Recv([room, MPI.BYTE], source=1)
        assert room == data, time
    else:
        world.send(world.recv(source=0), dest=0)
        world.Recv([room, MPI.BYTE], source=0)
        world.Send([room, MPI.BYTE], dest=0)
assert world.allreduce([rank]) == [0, 1]
if rank == 0:
    print(f"{TIMES} objects and buffers of {BYTES} bytes", flush=True)
