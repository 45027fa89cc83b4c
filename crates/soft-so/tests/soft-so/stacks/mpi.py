"""Ping-pong between ranks 0 and 1, then sums over all ranks, with checks of the data.

Uses only libmpi: Open MPI's library, or the library of MPICH that the argument names.
"""

import ctypes as c
import sys

mpi = c.CDLL(sys.argv[1] if sys.argv[1:] else "libmpi.so.40", mode=c.RTLD_GLOBAL)


def constant(name):
    return c.c_void_p(c.addressof(c.c_char.in_dll(mpi, "ompi_mpi_" + name)))


# Open MPI's handles are addresses, and MPICH's handles are numbers.
if sys.argv[1:]:
    world, byte, number, total = 0x44000000, 0x4C00010D, 0x4C00083A, 0x58000003
    ignored = c.c_void_p(1)
else:
    world, byte, number, total = map(constant, ("comm_world", "byte", "int64_t", "op_sum"))
    ignored = None
mpi.MPI_Init(None, None)
rank, size = c.c_int(), c.c_int()
mpi.MPI_Comm_rank(world, c.byref(rank))
mpi.MPI_Comm_size(world, c.byref(size))
rank, size = rank.value, size.value

BYTES, TIMES = 20000, 50
for time in range(TIMES):
    message = bytes((time + at) % 251 for at in range(BYTES))
    room = c.create_string_buffer(BYTES)
    if rank == 0:
        mpi.MPI_Send(message, BYTES, byte, 1, 7, world)
        mpi.MPI_Recv(room, BYTES, byte, 1, 7, world, ignored)
        assert room.raw == message, time
    elif rank == 1:
        mpi.MPI_Recv(room, BYTES, byte, 0, 7, world, ignored)
        assert room.raw == message, time
        mpi.MPI_Send(room, BYTES, byte, 0, 7, world)

COUNT = 5000
own = (c.c_int64 * COUNT)(*(rank * at for at in range(COUNT)))
sums = (c.c_int64 * COUNT)()
for _ in range(10):
    mpi.MPI_Allreduce(own, sums, COUNT, number, total, world)
    assert list(sums) == [at * size * (size - 1) // 2 for at in range(COUNT)]
mpi.MPI_Finalize()
if rank == 0:
    print(f"{size} ranks agree")
    sys.stdout.flush()
