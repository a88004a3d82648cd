"""Runs Python scripts in forks of a process that has imported what they import: importing PyTorch takes longer than most of
them run.

A fork starts as a fresh process does, with the script as __main__, the environment that it is given and no thread beside
its own, and ends as one: by the interpreter's own exit, with its code. A process is not forked from the tests' own, since
that one may have run PyTorch's threads, which a fork would lose. Tests: test_forks.py.
"""

import atexit
import dataclasses
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SERVER = pathlib.Path(__file__).parent / "fork_server.py"


@dataclasses.dataclass
class Done:
    returncode: int  # 0 if all ended well, else that of the first that did not
    stdout: str
    stderr: str


class Forks:
    """The process that forks, which ends with its standard input, and so with the tests."""

    def __init__(self, modules: tuple[str, ...], environment: dict[str, str]):
        self.process = subprocess.Popen([sys.executable, SERVER, *modules], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=os.environ | environment)
        atexit.register(self.end)

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()  # so that its seconds are among those of the tests

    def run(self, command: list, environments: list[dict[str, str]], timeout: float) -> Done:
        """The script with its arguments, once for each environment, side by side: each gets these variables beside those
        that the process has. As soon as one fails, or after `timeout` seconds, the others are killed."""
        with tempfile.TemporaryDirectory() as folder:
            job = dict(command=[str(word) for word in command], environments=environments, timeout=timeout, folder=folder)
            print(json.dumps(job), file=self.process.stdin, flush=True)
            answer = json.loads(self.process.stdout.readline())
            if answer["late"]:
                raise subprocess.TimeoutExpired(command, timeout)
            written = {path.name: path.read_text(errors="replace") for path in pathlib.Path(folder).iterdir()}  # none of one that was killed at once
            stdout, stderr = ("".join(written.get(f"{k}.{name}", "") for k in range(len(environments))) for name in ("out", "err"))
        return Done(answer["code"], stdout, stderr)


@functools.cache
def forks(*modules: str, **environment: str) -> Forks:
    """One for all tests of a process that ask for these modules, with what these read when they are imported."""
    return Forks(modules, environment)
