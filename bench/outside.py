#!/usr/bin/env python3
"""Networks that nobody here wrote, from packages of PyPI: planned steps beside eager mode's, one line a network.

    outside.py [--ways LIST] [--only PART ...] [--first N] [--minutes N] [--jobs N] [--seconds N] [--effort N] [--json FILE] [--why] [--list]

For each network (bench/outsiders: architectures by their configurations, small sizes, no weights): plan(), which must change nothing; then
three steps of eager mode beside three planned ones, at no budget, half-way between the least arena and the free one, and in the least
(tests/python/eager_judge.py says what is compared: everything, bit for bit). `--ways` (default torch; "all") tries the same networks by native,
auto, backend, samples and swap. Each network and way is a process of its own with `--seconds` to end in, so that a crash ends one line.

    right     as eager mode
    refused   one of Lowtide's errors, which must say what to do instead; otherwise it counts as wrong
    wrong     another number, something of the user's changed, or a refusal without a way round
    crash     another exception, an internal error, a signal, no end

What is not installed is named and skipped; networks that this eager mode does not run, or not twice alike, are named and not judged. The
packages are installed by `scripts/setup --outside` into build/outside, beside those of .venv, and this program runs itself by that Python
where it is there. A whole run takes a core many hours: `--json FILE` takes down each answer as it comes, one line of JSON, and goes on behind
what FILE has; `--minutes N` begins nothing later, in the drawn order of `--first`, so that what was reached is a sample of all. Exit code 1 where anything is wrong or crashes, or more than 15 % are refused in a way.
"""

import argparse
import collections
import dataclasses
import importlib
import json
import math
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
import zlib

ROOT = pathlib.Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / part) for part in ("python", "bench/outsiders", "tests/python")]
BUILD = pathlib.Path(os.environ.get("LOWTIDE_BUILD_DIR", ROOT / "build/release"))
os.environ.setdefault("LOWTIDE_LIBRARY", str(BUILD / "liblowtide.so"))
SUBJECTS = ("texts", "sights", "lucid", "graphs", "science")
MOST_REFUSED = 0.15
STATES = ("right", "refused", "wrong", "crash", "not judged")


def by_its_own_python() -> None:
    """The environment that has the packages, where it was made and is not the one that runs."""
    other = pathlib.Path(os.environ.get("LOWTIDE_OUTSIDE_PYTHON", ROOT / "build/outside/bin/python"))
    if other.exists() and pathlib.Path(sys.prefix).resolve() != other.parents[1].resolve():
        os.execv(other, [str(other), *sys.argv])


def import_once() -> None:
    """What most networks import, so that a process that is forked has it; nothing here may start a thread."""
    import torch
    torch.set_num_threads(1)
    for name in ("torch._dynamo", "torch.export", "torch._inductor.compile_fx", "transformers.modeling_utils", "lowtide.pytorch", *SUBJECTS):
        try:
            importlib.import_module(name)
        except ImportError:
            if name in SUBJECTS:
                raise


class Running:
    """The process of one network in one way: its answer is a line of JSON at the end of a file."""

    def __init__(self, name: str, way: str, effort: float):
        self.name, self.way, self.began = name, way, time.monotonic()
        self.output = tempfile.TemporaryFile()
        self.answer = tempfile.TemporaryFile()
        self.process = os.fork()
        if self.process == 0:
            os.setsid()
            for stream in (1, 2):
                os.dup2(self.output.fileno(), stream)
            try:
                os.write(self.answer.fileno(), json.dumps(judged(name, way, effort)).encode())
                sys.stdout.flush()
            finally:
                os._exit(0)

    def kill(self) -> None:
        os.killpg(self.process, signal.SIGKILL)

    def said(self, status: int, late: bool, used: float) -> dict:
        self.answer.seek(0)
        line = self.answer.read()
        found = json.loads(line) if line else {"status": "crash", "said": "no end in time" if late else f"ended by signal {os.WTERMSIG(status)}"
                                               if os.WIFSIGNALED(status) else "ended without an answer"}
        if found["status"] == "crash":
            self.output.seek(0)
            found["printed"] = self.output.read()[-2000:].decode(errors="replace")
        return {"name": self.name, "way": self.way, "seconds": used, **found}


def judged(name: str, way: str, effort: float) -> dict:
    import eager_judge
    from common import NETWORKS
    try:
        judge = eager_judge.Judge(NETWORKS[name].make, effort=effort, cache=True)
        found = dataclasses.asdict(judge.verdict(way))
    except eager_judge.NotJudged as problem:
        return {"status": "not judged", "said": str(problem)}
    if found["status"] == "refused" and not eager_judge.names_a_way_round(found["said"]):
        found |= {"status": "wrong", "said": f"refused without a way round: {found['said']}"}
    return found


def line_of(found: dict) -> str:
    said = " ".join(str(found["said"]).split())
    return f"{found['way']:8} {found['status']:10} {found['seconds']:5.1f} s  {found['name']:44} {said[:220]}"


def answered(file: pathlib.Path | None) -> dict[tuple[str, str], dict]:
    """What an earlier run has left in the file; its last line may be cut off."""
    found = {}
    for line in file.read_text().splitlines() if file is not None and file.exists() else ():
        try:
            one = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[one["name"], one["way"]] = one
    return found


def tell(found: dict, file: pathlib.Path | None) -> None:
    print(line_of(found), flush=True)
    if file is not None:
        with file.open("a") as lines:
            lines.write(json.dumps(found) + "\n")


def run_all(work: list[tuple[str, str]], arguments: argparse.Namespace) -> list[dict]:
    """The answers to all of it, those of an earlier run first; those behind the last minute are left out."""
    known = answered(arguments.json)
    done = [known[one] for one in work if one in known]
    waiting, running, until = [one for one in work if one not in known], {}, time.monotonic() + 60 * arguments.minutes
    while waiting or running:
        while waiting and len(running) < arguments.jobs:
            if time.monotonic() > until:
                print(f"time is up: {len(waiting)} of {len(work)} were not begun, the first is {' by '.join(waiting[0])}")
                waiting = []
                break
            started = Running(*waiting.pop(0), arguments.effort)
            running[started.process] = started
        if not running:
            break
        process, status, used = os.wait4(-1, os.WNOHANG)
        if process:
            one = running.pop(process)
            late = os.WIFSIGNALED(status) and time.monotonic() - one.began > arguments.seconds
            done.append(one.said(status, late, used.ru_utime + used.ru_stime))
            tell(done[-1], arguments.json)
            continue
        for one in running.values():
            if time.monotonic() - one.began > arguments.seconds:
                one.kill()
        time.sleep(0.02)
    return done


def reason_of(said: str) -> str:
    """A refusal without the names in it, so that alike ones count together."""
    return re.sub(r"'[^']*'|\d+(\.\d+)?|\([^()]*\)", "..", " ".join(said.split()))[:150]


def totals(found: list[dict], arguments: argparse.Namespace) -> bool:
    """Prints them; whether all is as it should be."""
    good = True
    print(f"\n{'way':8} " + " ".join(f"{state:>10}" for state in STATES))
    for way in arguments.ways:
        counted = collections.Counter(each["status"] for each in found if each["way"] == way)
        print(f"{way:8} " + " ".join(f"{counted[state]:10}" for state in STATES))
        tried = sum(counted[state] for state in STATES[:4])
        good &= not (counted["wrong"] or counted["crash"] or counted["refused"] > MOST_REFUSED * tried)
    reasons = collections.Counter((each["way"], reason_of(each["said"])) for each in found if each["status"] == "refused")
    for (way, reason), count in reasons.most_common():
        print(f"refused {count:3} times by {way}: {reason}")
    for each in found if arguments.why else ():
        if each["status"] in ("wrong", "crash"):
            print(f"\n{each['name']}, {each['way']}: {each['said']}\n{each.get('details') or each.get('printed', '')}")
    return good


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ways", default="torch", help="of torch, native, auto, backend, samples, swap, comma-separated; or all")
    parser.add_argument("--only", nargs="*", default=[], metavar="PART", help="networks with this in their names; =NAME: exactly")
    parser.add_argument("--first", type=int, metavar="N", help="N networks, one after another in a drawn order, which is always the same")
    parser.add_argument("--minutes", type=float, default=math.inf, metavar="N", help="nothing begins later; in that drawn order, too")
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("LOWTIDE_JOBS", os.cpu_count() or 1)))
    parser.add_argument("--seconds", type=float, default=400, help="that one network may take in one way")
    parser.add_argument("--effort", type=float, default=0.3)
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="an answer a line, as it comes; what is there already is not run again")
    parser.add_argument("--why", action="store_true", help="where what is wrong was raised")
    parser.add_argument("--list", action="store_true", help="names alone")
    arguments = parser.parse_args()
    import eager_judge
    arguments.ways = list(eager_judge.WAYS) if arguments.ways == "all" else arguments.ways.split(",")
    if unknown := [way for way in arguments.ways if way not in eager_judge.WAYS]:
        parser.error(f"there is no way {unknown[0]}; there are {', '.join(eager_judge.WAYS)}")
    return arguments


def main() -> int:
    by_its_own_python()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    arguments = parsed()
    import_once()
    from common import NETWORKS
    names = [n for n in NETWORKS if not arguments.only or any(part in n if part[0] != "=" else part[1:] == n for part in arguments.only)]
    if arguments.first or arguments.minutes < math.inf:
        names = sorted(names, key=lambda n: zlib.crc32(n.encode()))[:arguments.first]
    absent = [name for name in names if not NETWORKS[name].there]
    names = [name for name in names if name not in absent]
    for package in sorted({NETWORKS[name].package for name in absent}):
        print(f"skipped: {sum(NETWORKS[n].package == package for n in absent)} networks of {package}, which is not installed (scripts/setup --outside)")
    if arguments.list:
        print("\n".join(names))
        return 0
    with tempfile.TemporaryDirectory() as kept:
        os.environ["LOWTIDE_CACHE"] = kept  # libraries are built, and kinds measured, once for all
        found = run_all([(name, way) for name in names for way in arguments.ways], arguments)
    return 0 if totals(found, arguments) else 1


if __name__ == "__main__":
    sys.exit(main())
