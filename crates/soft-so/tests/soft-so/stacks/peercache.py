"""Stores values in the key-value store PeerCache, and gets them in another process by READs.

The arguments are the folder that contains PeerCache and the TCP port of its directory.
"""

import ctypes
import os
import select
import sys

BYTES, KEYS = 1 << 17, 64

(a_hears, a_says), (b_hears, b_says) = os.pipe(), os.pipe()
child = os.fork()
hears, says = (b_hears, a_says) if child else (a_hears, b_says)
# A pipe ends when no process has its other end.
for end in {a_hears, a_says, b_hears, b_says} - {hears, says}:
    os.close(end)

sys.path.insert(0, sys.argv[1])
from peercache.bench.sglang_sim import HostKVPool
from peercache.store import PeerCacheStore


def say():
    os.write(says, b".")


def hear():
    assert os.read(hears, 1), "the other has gone"


def store():
    store = PeerCacheStore(extra={
        "discovery_addr": f"127.0.0.1:{sys.argv[2]}",
        "device_name": "doorbell0",
        "gid_index": 0,
        "local_hostname": "127.0.0.1",
        "global_segment_size": 2 * BYTES * KEYS,
        # A busy machine may stop a process for longer than the store's own six seconds.
        "member_ttl": 600.0,
        "disk_enabled": False,
        "metrics_enabled": False,
    })
    store.register_mem_pool_host(HostKVPool(BYTES, KEYS, layout="mla"))
    return store


def value(key):
    return bytes((key + at) % 251 for at in range(256)) * (BYTES // 256)


# The first process serves the directory that the second process joins.
if child:
    hear()
mine = store()
if child:
    say()
    hear()
    room = ctypes.create_string_buffer(BYTES)
    for key in range(KEYS):
        assert mine.get(f"key{key}", ctypes.addressof(room), BYTES) is not None, key
        assert room.raw == value(key)
    say()
    mine.close()
    assert os.waitpid(child, 0)[1] == 0
    print(f"{KEYS} values of {BYTES} bytes")
else:
    say()
    hear()
    while len(mine.runtime.ring) < 2:
        assert not select.select([hears], [], [], 0.01)[0], "the other has gone"
    for key in range(KEYS):
        assert mine.set(f"key{key}", value(key)), key
    say()
    hear()
    mine.close()
