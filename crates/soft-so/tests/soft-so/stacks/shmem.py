"""Puts data to the next PE and gets the data back, with checks of the data. Uses only liboshmem."""

import ctypes as c

shmem = c.CDLL("liboshmem.so.40", mode=c.RTLD_GLOBAL)
shmem.shmem_malloc.restype = c.c_void_p
shmem.shmem_malloc.argtypes = [c.c_size_t]
for move in (shmem.shmem_putmem, shmem.shmem_getmem):
    move.argtypes = [c.c_void_p, c.c_void_p, c.c_size_t, c.c_int]
shmem.shmem_init()
pe, size = shmem.shmem_my_pe(), shmem.shmem_n_pes()

BYTES, TIMES = 1 << 16, 20
room, back = shmem.shmem_malloc(BYTES), shmem.shmem_malloc(BYTES)
for time in range(TIMES):
    data = [bytes((of + time + at) % 251 for at in range(BYTES)) for of in range(size)]
    shmem.shmem_putmem(room, data[pe], BYTES, (pe + 1) % size)
    shmem.shmem_barrier_all()
    assert c.string_at(room, BYTES) == data[pe - 1], time
    shmem.shmem_getmem(back, room, BYTES, (pe + 1) % size)
    assert c.string_at(back, BYTES) == data[pe], time
    shmem.shmem_barrier_all()
shmem.shmem_finalize()
if pe == 0:
    print(f"{size} PEs agree", flush=True)
