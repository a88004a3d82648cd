"""Files that are worth keeping between processes: plans and what was measured for them, and built libraries.

In LOWTIDE_CACHE, or $XDG_CACHE_HOME/lowtide, or ~/.cache/lowtide. An entry is written whole or not at all; one that is
damaged or of something else is made anew, never believed. Where there is no such folder and none can be made, or it
cannot be written, nothing is kept, and all else works.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import tempfile
from typing import Any

from ._library import version
from .errors import Error
from .plans import Plan


def folder() -> pathlib.Path:
    """Raises OSError where it is not there and cannot be made."""
    named = os.environ.get("LOWTIDE_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    path = pathlib.Path(named) if named else pathlib.Path(base) / "lowtide"
    path.mkdir(parents=True, exist_ok=True)
    return path


def key(*parts: Any) -> str:
    """The key of an entry: what the plan depends on, and this version."""
    text = json.dumps([version(), *parts], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _place(name: str) -> pathlib.Path:
    return folder() / "plans" / name


def load(name: str) -> tuple[Plan, Any] | None:
    """The plan of an entry and what was kept beside it; None where there is none that holds."""
    try:
        path = _place(name)
        beside = json.loads((path / "beside.json").read_text())
        if beside.pop("key") != name or beside.pop("plan") != _digest(path / "plan.lt"):
            return None
        return Plan.load(path / "plan.lt"), beside
    except (OSError, ValueError, KeyError, AttributeError, TypeError, Error):
        return None


def _digest(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def load_rows(name: str) -> list | None:
    """What was kept by `store_rows`; None where there is nothing that holds."""
    try:
        kept = json.loads((folder() / "measured" / f"{name}.json").read_text())
        rows = kept["rows"]
        return rows if kept["key"] == name and kept["digest"] == _digest_of(rows) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def store_rows(name: str, rows: list) -> None:
    """Keeps plain lists."""
    with contextlib.suppress(OSError):
        path = folder() / "measured" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as made:
            text = json.dumps(rows)  # json.dump goes by Python's own encoder
            head = json.dumps({"key": name, "digest": hashlib.sha256(text.encode()).hexdigest()})
            made.write(f'{head[:-1]}, "rows": {text}}}')
        pathlib.Path(made.name).replace(path)


def _digest_of(rows: list) -> str:
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def store(name: str, plan: Plan, beside: dict[str, Any]) -> None:
    """Keeps a plan. A full disk or a folder that cannot be written costs the entry, nothing else."""
    with contextlib.suppress(OSError, Error):
        path = _place(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
            made = pathlib.Path(scratch) / "entry"
            made.mkdir()
            plan.save(made / "plan.lt")
            text = json.dumps({**beside, "key": name, "plan": _digest(made / "plan.lt")})
            (made / "beside.json").write_text(text)
            shutil.rmtree(path, ignore_errors=True)
            made.replace(path)


def load_library(name: str) -> pathlib.Path | None:
    """A built library that was kept; None where there is none that holds.

    Its digest stands behind its last byte, where the linker does not look: a library that was cut short is not found out
    when it is opened, but ends the process (SIGBUS) when a page of it is read that is not there.
    """
    try:
        path = folder() / name
        content = path.read_bytes()
    except OSError:
        return None
    holds = hashlib.sha256(content[:-_SEAL]).digest() == content[-_SEAL:]
    return path if holds else None


def store_library(name: str, made: pathlib.Path) -> pathlib.Path | None:
    """Keeps a built library; where it lies then, None where it cannot be kept."""
    try:
        path = folder() / name
        content = made.read_bytes()
        with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
            sealed = pathlib.Path(scratch) / name
            sealed.write_bytes(content + hashlib.sha256(content).digest())
            sealed.replace(path)
        return path
    except OSError:
        return None


_SEAL = hashlib.sha256().digest_size
