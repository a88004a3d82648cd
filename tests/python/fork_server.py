#!/usr/bin/env python3
"""The process of forks.py: imports the modules named, then forks for each script that standard input asks for.

    tests/python/fork_server.py MODULE...    a line of JSON for each job; answers with a line each
"""

import contextlib
import importlib
import json
import os
import runpy
import signal
import sys
import time


def become(job: dict, number: int) -> None:
    """The process of the fork: what belongs to the server is closed, and what a fresh one has is made."""
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    for descriptor, name in ((1, "out"), (2, "err")):
        with open(f"{job['folder']}/{number}.{name}", "wb") as file:
            os.dup2(file.fileno(), descriptor)
    os.environ |= job["environments"][number]
    sys.argv = job["command"]
    paths = job["environments"][number].get("PYTHONPATH", "")
    sys.path[:1] = [os.path.dirname(os.path.abspath(sys.argv[0])), *filter(None, paths.split(os.pathsep))]


def wait_for(running: set[int], timeout: float) -> dict:
    """Until all have ended; one that fails takes the others with it, who may wait for it."""
    end = time.monotonic() + timeout
    code, late = 0, False
    while running:
        process, status = os.waitpid(-1, os.WNOHANG)
        if process:
            running.discard(process)
            code = code or os.waitstatus_to_exitcode(status)
        elif code == 0 and not (late := time.monotonic() > end):
            time.sleep(0.005)
            continue
        if code or late:
            for other in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(other, signal.SIGKILL)
            time.sleep(0.005)
    return {"code": code, "late": late}


def main() -> None:
    for name in sys.argv[1:]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        job, running = json.loads(line), set()
        for number in range(len(job["environments"])):
            process = os.fork()
            if process == 0:
                become(job, number)
                runpy.run_path(sys.argv[0], run_name="__main__")
                return
            running.add(process)
        print(json.dumps(wait_for(running, job["timeout"])), flush=True)


if __name__ == "__main__":
    main()
