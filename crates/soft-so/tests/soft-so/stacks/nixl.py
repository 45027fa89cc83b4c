"""Writes to another process's memory by NIXL's UCX backend. The last WRITE carries a notification.

The first argument is the folder that contains NIXL. Two optional arguments are the bytes and the number of
the WRITEs. The script prints the median time of a WRITE, from the post until its completion is seen.
"""

import ctypes
import os
import pickle
import statistics
import sys
import time
import types

BYTES, TIMES = map(int, sys.argv[2:] or (1 << 20, 20))

# Only NIXL's bindings are used. The package's own module would need further Python packages.
package = types.ModuleType("nixl_cu12")
package.__path__ = [sys.argv[1] + "/nixl_cu12"]
sys.modules["nixl_cu12"] = package

(a_hears, a_says), (b_hears, b_says) = os.pipe(), os.pipe()
child = os.fork()
me, other, hears, says = ("writer", "target", b_hears, a_says) if child else ("target", "writer", a_hears, b_says)


def say(thing):
    data = pickle.dumps(thing)
    os.write(says, len(data).to_bytes(8, "little") + data)


def hear():
    def exactly(count):
        data = b""
        while len(data) < count:
            data += os.read(hears, count - len(data)) or sys.exit("the other has gone")
        return data

    return pickle.loads(exactly(int.from_bytes(exactly(8), "little")))


from nixl_cu12 import _bindings as nixl


def described(kind, *what):
    described = kind(nixl.DRAM_SEG, 0)
    described.addDesc(what)
    return described


agent = nixl.nixlAgent(me, nixl.nixlAgentConfig(True))
backend = agent.createBackend("UCX", agent.getPluginParams("UCX")[0])
DATA = bytes(at % 256 for at in range(BYTES))
room = ctypes.create_string_buffer(DATA if child else BYTES, BYTES)
at = ctypes.addressof(room)
assert agent.registerMem(described(nixl.nixlRegDList, at, BYTES, 0, b""), [backend]) == nixl.NIXL_SUCCESS
say((agent.getLocalMD(), at))
metadata, there = hear()
agent.loadRemoteMD(metadata)
if child:
    here, far = (described(nixl.nixlXferDList, address, BYTES, 0) for address in (at, there))
    took = []
    for number in range(TIMES):
        tells = "done" if number == TIMES - 1 else ""
        request = agent.createXferReq(nixl.NIXL_WRITE, here, far, other, tells, [backend])
        begin = time.perf_counter()
        state = agent.postXferReq(request)
        while state == nixl.NIXL_IN_PROG:
            state = agent.getXferStatus(request)
        took.append(time.perf_counter() - begin)
        assert state == nixl.NIXL_SUCCESS, state
        agent.releaseXferReq(request)
    assert hear() == "right"
    print(f"{TIMES} WRITEs of {BYTES} bytes, median {statistics.median(took) * 1e6:.3f} us")
    say("end")
    assert os.waitpid(child, 0)[1] == 0
else:
    told = {}
    while not told.get("writer"):
        told = agent.getNotifs(told)
    assert room.raw == DATA
    say("right")
    hear()
