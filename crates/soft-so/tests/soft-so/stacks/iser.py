"""Runs libiscsi's tests of reads and writes on a disk of tgt, by iSER. The argument is a TCP port for tgt's
iSCSI portal, which the tests do not use.
"""

import os
import subprocess
import sys
import tempfile
import time

INITIATOR, TARGET = "iqn.2026-01.doorbell:initiator", "iqn.2026-01.doorbell:target"

folder = tempfile.TemporaryDirectory()
disk = f"{folder.name}/disk"
with open(disk, "wb") as file:
    file.truncate(16 << 20)
os.environ["TGT_IPC_SOCKET"] = f"{folder.name}/socket"
# tgtd without a portal would take iSCSI's TCP port. The port of iSER is one of this fabric.
server = subprocess.Popen(["tgtd", "-f", "--iscsi", f"portal=127.0.0.1:{sys.argv[1]}"], stderr=subprocess.DEVNULL)


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
url = f"iser://127.0.0.1:3260/{TARGET}/1"
for command in [
    ["iscsi-inq", "-i", INITIATOR, url],
    ["iscsi-test-cu", "-i", INITIATOR, "--dataloss", "--test=SCSI.Write10.Simple", url],
    ["iscsi-test-cu", "-i", INITIATOR, "--dataloss", "--test=SCSI.Read10.Simple", url],
]:
    subprocess.run(command, check=True)
admin("--lld iser --op delete --mode target --tid 1 --force", check=True)
admin("--op delete --mode system", check=True)
assert server.wait() == 0
print("the disk is right")
