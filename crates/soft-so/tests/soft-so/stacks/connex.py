"""Writes to another process's memory and reads the data back, by an engine of Connex.

The argument is the folder that contains connex-rs.
"""

import ctypes
import os
import socket
import sys

BYTES, TIMES = 1 << 20, 10

ends = socket.socketpair()
child = os.fork()
mine, other = ends if child else reversed(ends)
# Without this, nobody would notice that the other process has gone.
other.close()
link = mine.makefile("rwb", buffering=0)

sys.path.insert(0, sys.argv[1])
import connex_rs

engine = connex_rs.Engine("model", 0 if child else 1, listen_ip="127.0.0.1", advertise_ip="127.0.0.1")
room = ctypes.create_string_buffer(BYTES)
at = ctypes.addressof(room)
assert engine.register_memory(at, BYTES) == 0
link.write(f"{engine.local_url} {at}\n".encode())
peer, there = link.readline().decode().split()
if child:
    for time in range(TIMES):
        room.raw = data = bytes((time + at) % 251 for at in range(256)) * (BYTES // 256)
        assert engine.transfer_sync_write(peer, at, int(there), BYTES) == 0
        ctypes.memset(at, 0, BYTES)
        assert engine.transfer_sync_read(peer, at, int(there), BYTES) == 0
        assert room.raw == data
    engine.put_signal(peer, at, int(there), BYTES, b"all").wait()
    link.write(b"all\n")
    assert link.readline()
    link.write(b"end\n")
    engine.close()
    assert os.waitpid(child, 0)[1] == 0
    print(f"{TIMES} WRITEs and READs of {BYTES} bytes")
else:
    assert link.readline(), "the writer has gone"
    while not engine.recv_msg(timeout_ms=1000):
        pass
    link.write(b"right\n")
    link.readline()
    engine.close()
