"""A process that computes during a measurement."""

import os
import signal
import subprocess
import sys
import time


def burn(duty):
    """Computes for `duty` of every 20 ms until it is killed, or its parent has ended."""
    parent = os.getppid()
    while os.getppid() == parent:
        start = time.perf_counter()
        while time.perf_counter() - start < 0.02 * duty:
            pass
        if duty < 1:
            time.sleep(0.02 * (1 - duty))


class Neighbour:
    """A process that computes on one CPU while this object is entered."""

    def __init__(self, percent):
        self.percent = percent

    def __enter__(self):
        if self.percent > 0:
            self.process = subprocess.Popen([sys.executable, __file__, "--burn", str(self.percent / 100)])
            os.sched_setaffinity(self.process.pid, {max(os.sched_getaffinity(0))})
        return self

    def __exit__(self, *_):
        if self.percent > 0:
            self.process.kill()
            self.process.wait()


if __name__ == "__main__" and len(sys.argv) == 3 and sys.argv[1] == "--burn":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    burn(float(sys.argv[2]))
