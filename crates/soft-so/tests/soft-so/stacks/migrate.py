"""Migrates a running machine of QEMU to another QEMU by RDMA. The machine has no disk and runs its BIOS."""

import atexit
import json
import socket
import subprocess
import sys
import time

MACHINE = "qemu-system-x86_64 -M q35 -accel tcg -m 32 -display none -nodefaults -serial none".split()
URI = "rdma:127.0.0.1:4444"


class Qemu:
    """A QEMU and its QMP connection."""

    def __init__(self, *options):
        ours, theirs = socket.socketpair()
        monitor = ["-chardev", f"socket,id=q,fd={theirs.fileno()}", "-mon", "chardev=q,mode=control"]
        self.process = subprocess.Popen([*MACHINE, *monitor, *options], pass_fds=[theirs.fileno()])
        atexit.register(self.process.kill)
        theirs.close()
        self.link = ours.makefile("rw")
        self.link.readline()
        self.run("qmp_capabilities")

    def run(self, command, **arguments):
        print(json.dumps({"execute": command, "arguments": arguments}), file=self.link, flush=True)
        for line in self.link:
            answer = json.loads(line)
            if "event" not in answer:
                assert "return" in answer, answer
                return answer["return"]
        sys.exit("QEMU has gone")

    def migrated(self):
        """Waits until the migration has ended. Returns its final state."""
        while (state := self.run("query-migrate")).get("status") not in ("completed", "failed"):
            time.sleep(0.02)
        assert state["status"] == "completed", state
        return state

    def quit(self):
        self.run("quit")
        assert self.process.wait() == 0


target = Qemu("-incoming", URI)
source = Qemu()
source.run("migrate", uri=URI)
moved = source.migrated()["ram"]["normal-bytes"]
target.migrated()
assert target.run("query-status")["running"]
source.quit()
target.quit()
assert moved > 1 << 20, moved
print("the machine has moved")
