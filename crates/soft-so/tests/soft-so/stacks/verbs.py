"""Exchanges data between two processes by the Python binding ibverbs, with checks of the data.

The argument is the folder that contains ibverbs.
"""

import ctypes
import os
import socket
import sys

BYTES, TIMES = 1 << 16, 20

ends = socket.socketpair()
child = os.fork()
mine, other = ends if child else reversed(ends)
# Without this, nobody would notice that the other process has gone.
other.close()
link = mine.makefile("rwb", buffering=0)

sys.path.insert(0, sys.argv[1])
import ibverbs as ib

access = ib.AccessFlags.LOCAL_WRITE | ib.AccessFlags.REMOTE_WRITE
access |= ib.AccessFlags.REMOTE_READ | ib.AccessFlags.REMOTE_ATOMIC
context = ib.get_device_list()[0].open()
pd, cq = context.alloc_pd(), context.create_cq(64)
room = ctypes.create_string_buffer(BYTES)
mr = pd.reg_mr(ctypes.addressof(room), BYTES, access)
qp = pd.create_qp(ib.QPInitAttr(send_cq=cq, recv_cq=cq, qp_type=ib.QPType.RC))
own = ib.local_qp_info(qp, context.query_port(1), context.query_gid(1, 0), port=1).to_bytes()
link.write(own + mr.addr.to_bytes(8, "big") + mr.rkey.to_bytes(4, "big"))
peer = link.read(len(own) + 12)
ib.connect_rc(qp, ib.QPInfo.from_bytes(peer[:-12]), port=1, sgid_index=0, access=access)
remote = {"remote_addr": int.from_bytes(peer[-12:-4], "big"), "rkey": int.from_bytes(peer[-4:], "big")}


def completed():
    while not (completions := cq.poll(1)):
        pass
    completions[0].raise_for_status()


def send(opcode, length=BYTES, **more):
    sges = [ib.SGE(mr, length)]
    qp.post_send(ib.SendWR(1, sges, opcode=opcode, send_flags=ib.SendFlags.SIGNALED, **more))
    completed()


def data(time):
    return bytes((time + at) % 251 for at in range(256)) * (BYTES // 256)


for time in range(TIMES):
    if child:
        room.raw = data(time)
        send(ib.WROpcode.RDMA_WRITE, **remote)
        ctypes.memset(room, 0, BYTES)
        send(ib.WROpcode.RDMA_READ, **remote)
        assert room.raw == data(time)
        link.write(b"w")
        link.read(1)
        send(ib.WROpcode.SEND)
        link.read(1)
        send(ib.WROpcode.ATOMIC_FETCH_AND_ADD, 8, compare_add=3, **remote)
        link.write(b"a")
        link.read(1)
    else:
        link.read(1)
        assert room.raw == data(time)
        ctypes.memset(room, 0, BYTES)
        qp.post_recv(ib.RecvWR(2, [ib.SGE(mr, BYTES)]))
        link.write(b"r")
        completed()
        assert room.raw == data(time)
        link.write(b"s")
        link.read(1)
        assert int.from_bytes(room.raw[:8], "little") == int.from_bytes(data(time)[:8], "little") + 3
        link.write(b"e")
if child:
    assert os.waitpid(child, 0)[1] == 0
    print(f"{TIMES} WRITEs, READs and SENDs of {BYTES} bytes")
