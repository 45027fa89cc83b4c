"""Writes and reads a disk of tgt with qemu-io and libiscsi, by iSER. The argument is a TCP port for tgt's
iSCSI portal, which the programs do not use.
"""

import atexit
import os
import subprocess
import sys
import tempfile
import time

BYTES, TIMES = 1 << 16, 16
INITIATOR, TARGET = "iqn.2026-01.doorbell:initiator", "iqn.2026-01.doorbell:target"

# Only root has the folder of tgtd in its path.
os.environ["PATH"] += ":/usr/sbin:/sbin"
folder = tempfile.TemporaryDirectory()
disk = f"{folder.name}/disk"
with open(disk, "wb") as file:
    file.truncate(16 << 20)
os.environ["TGT_IPC_SOCKET"] = f"{folder.name}/socket"
# tgtd without a portal would take iSCSI's TCP port. The port of iSER is one of this fabric.
portal = f"portal=127.0.0.1:{sys.argv[1]}"
server = subprocess.Popen(["tgtd", "-f", "--iscsi", portal], stderr=subprocess.DEVNULL)
# tgt 1.0.85 crashes if tgtadm ends it.
atexit.register(server.kill)


def admin(arguments, **options):
    return subprocess.run(["tgtadm", *arguments.split()], **options)


while admin("--op show --mode system", capture_output=True).returncode:
    assert server.poll() is None, "tgtd has ended"
    time.sleep(0.02)
for step in [
    f"new --mode target --tid 1 -T {TARGET}",
    f"new --mode logicalunit --tid 1 --lun 1 -b {disk}",
    "bind --mode target --tid 1 -I ALL",
    f"bind --mode target --tid 1 -Q {INITIATOR}",
]:
    admin(f"--lld iser --op {step}", check=True)
subprocess.run(["iscsi-inq", "-i", INITIATOR, f"iser://127.0.0.1:3260/{TARGET}/1"], check=True)
image = f"driver=iscsi,transport=iser,portal=127.0.0.1:3260,target={TARGET},lun=1,initiator-name={INITIATOR}"
commands = []
for at in range(TIMES):
    commands += ["-c", f"write -P {at + 1} {at}M {BYTES}", "-c", f"read -P {at + 1} {at}M {BYTES}"]
subprocess.run(["qemu-io", "--image-opts", image, *commands], check=True)
with open(disk, "rb") as file:
    for at in range(TIMES):
        file.seek(at << 20)
        assert file.read(BYTES) == bytes([at + 1]) * BYTES
print(f"{TIMES} writes and reads of {BYTES} bytes")
