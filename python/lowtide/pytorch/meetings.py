"""Ranks that compile the same graph at the same time take one plan, the first rank's.

They meet in the store of their process group, not in its collectives: a rank that compiles while
the others do not (its batch alone has another shape) would take part in a collective of theirs that
is meant for something else. In the store a rank says what it has, and looks for a while whether the
others have said the same:

    1. each the key of its graph, or what went wrong; where one differs or failed, all raise
    2. the first its plan, or what went wrong; the others wait for that

Who waits in vain raises, and names who has not come. Planning may take long, so the second wait is
as long as the group's own. What has been read by all is deleted. Tests:
tests/python/test_torch_ranks.py.
"""

from __future__ import annotations

import collections
import datetime
import hashlib
import json
import os
from collections.abc import Callable
from typing import Any, TypeVar

import torch.distributed as dist

from ..errors import BY_STATUS, Error, Internal, Usage

Made = TypeVar("Made")
PATIENCE = 300.0  # seconds for another rank to come, unless LOWTIDE_RANK_TIMEOUT says others
_counts: collections.Counter[tuple[int, ...]] = collections.Counter()  # meetings of these ranks


def patience() -> float | None:
    """The seconds that LOWTIDE_RANK_TIMEOUT says. Raises Usage."""
    text = os.environ.get("LOWTIDE_RANK_TIMEOUT", "")
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise Usage(f"LOWTIDE_RANK_TIMEOUT={text} is no number of seconds")
    return seconds


def group_store() -> dist.Store:
    return dist.distributed_c10d._get_default_store()


def ranks_in_words(found: list[int]) -> str:
    return f"rank{'s' if len(found) > 1 else ''} {', '.join(map(str, found))}"


def _told(problem: BaseException) -> bytes:
    status, text = getattr(problem, "status", None), f"{type(problem).__name__}: {problem}"
    return json.dumps({"status": status, "error": text}).encode()


class Meeting:
    """One graph, that all of these ranks compile."""

    def __init__(self, ranks: list[int]) -> None:
        self.ranks, self.rank = ranks, dist.get_rank()
        self.key = tuple(ranks)
        name = hashlib.sha256(repr(self.key).encode()).hexdigest()[:16]
        self.store = dist.PrefixStore(f"lowtide/{name}/{_counts[self.key]}", group_store())
        _counts[self.key] += 1

    def _wait(self, names: dict[str, int], seconds: float | None) -> None:
        """Until these are there, each from a rank."""
        limit = [] if seconds is None else [datetime.timedelta(seconds=seconds)]
        try:
            self.store.wait(list(names), *limit)
        except RuntimeError:
            missing = [rank for name, rank in names.items() if not self.store.check([name])]
            if not missing:
                return
            self._left()
            waited = "" if seconds is None else f" within {seconds:g} s (LOWTIDE_RANK_TIMEOUT)"
            raise Error(f"{ranks_in_words(missing)} did not compile the graph that rank "
                        f"{self.rank} compiles{waited}; a rank whose batch alone has another shape compiles "
                        "alone, and ranks that share parameters run one plan") from None

    def _left(self) -> None:
        """The others may come later: the next meeting is this one."""
        self.store.delete_key(str(self.rank))
        _counts[self.key] -= 1

    def _raise_of(self, rank: int, told: dict[str, Any]) -> None:
        raise BY_STATUS.get(told["status"], Internal)(f"rank {rank}: {told['error']}")

    def same(self, make: Callable[[], Made], key_of: Callable[[Made], str]) -> Made:
        """What `make` makes; its key has to be the same on all. Raises what `make` raises, on all
        ranks."""
        try:
            made = make()
            key = key_of(made)
        except BaseException as problem:
            self.store.set(str(self.rank), _told(problem))
            raise
        self.store.set(str(self.rank), json.dumps({"key": key}))
        self._wait({str(rank): rank for rank in self.ranks}, patience() or PATIENCE)
        every = {rank: json.loads(self.store.get(str(rank))) for rank in self.ranks}
        for rank, told in every.items():
            if "error" in told:
                self._raise_of(rank, told)
        first = self.ranks[0]
        for rank, told in every.items():
            if told["key"] != every[first]["key"]:
                raise Usage(f"rank {rank} compiles another graph than rank {first} (batch shapes, "
                            "options, threads and versions have to be the same on all ranks)")
        return made

    def from_first(self, make: Callable[[], tuple[Made, bytes]],
                   take: Callable[[bytes], Made]) -> Made:
        """What the first rank makes, which the others take. Raises what `make` raises there, on all
        ranks."""
        first = self.ranks[0]
        if self.rank == first:
            try:
                made, told = make()
            except BaseException as problem:
                self.store.set("first", b"!" + _told(problem))
                raise
            self.store.set("first", b"=" + told)
            return made
        self._wait({"first": first}, None)
        told = self.store.get("first")
        if told[:1] == b"!":
            self._raise_of(first, json.loads(told[1:]))
        made = take(told[1:])
        if self.store.add("read", 1) == len(self.ranks) - 1:
            for name in ("first", "read", *map(str, self.ranks)):
                self.store.delete_key(name)
        return made
