"""CPU time of the launches of a script, taken inside the script and handed to the benchmark."""

import contextlib
import os
import time


@contextlib.contextmanager
def timed():
    """Append the process CPU seconds of the block to the file named by BENCH_TIMES, if any."""
    began = time.process_time()
    yield
    spent = time.process_time() - began
    path = os.environ.get("BENCH_TIMES")
    if path:
        with open(path, "a") as out:
            print(spent, file=out)
