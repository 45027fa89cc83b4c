"""Writes to another process's memory and reads the data back, by Mooncake's transfer engine over RDMA.

The argument is the folder that contains Mooncake.
"""

import ctypes
import os
import sys

BYTES, TIMES = 1 << 20, 10

(a_hears, a_says), (b_hears, b_says) = os.pipe(), os.pipe()
child = os.fork()
hears, says = (b_hears, a_says) if child else (a_hears, b_says)


def say(text):
    os.write(says, text.encode() + b"\n")


def hear():
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(hears, 1) or sys.exit("the other has gone")
    return line.decode().strip()


sys.path.insert(0, sys.argv[1])
from mooncake.engine import TransferEngine

engine = TransferEngine()
assert engine.initialize("127.0.0.1", "P2PHANDSHAKE", "rdma", "doorbell0") == 0
DATA = bytes(range(256)) * (BYTES // 256)
room = ctypes.create_string_buffer(DATA if child else BYTES, BYTES)
at = ctypes.addressof(room)
assert engine.register_memory(at, BYTES) == 0
say(f"127.0.0.1:{engine.get_rpc_port()} {at}")
name, there = hear().split()
if child:
    for _ in range(TIMES):
        assert engine.transfer_sync_write(name, at, int(there), BYTES) == 0
    ctypes.memset(at, 0, BYTES)
    assert engine.transfer_sync_read(name, at, int(there), BYTES) == 0
    assert room.raw == DATA
    say("look")
    assert hear() == "right"
    print(f"{TIMES} WRITEs and a READ of {BYTES} bytes", flush=True)
    assert os.waitpid(child, 0)[1] == 0
else:
    assert hear() == "look" and room.raw == DATA
    say("right")
# The engine's threads never end, so a normal exit would wait for them.
os._exit(0)
