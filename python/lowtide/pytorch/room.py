"""Whether there is memory for what no plan counts: a rehearsal.

What is free is what the system says, the limits of the process's control groups (containers) and of `ulimit -v` among it: the least counts.
"""

from __future__ import annotations

import pathlib
import resource

import torch

SPARE = 0.8  # of what is free, for what somebody asked for
SPARE_UNASKED = 0.5
SMALL = 256 << 20  # bytes that nobody is asked for: a process with PyTorch in it has as much without any model


def free_bytes(device: torch.device) -> int:
    """What the system could give. Where it does not say, nothing."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    said = [_of_machine(), *_of_groups(pathlib.Path("/proc/self/cgroup"), pathlib.Path("/sys/fs/cgroup")), _of_process()]
    return max(0, min(number for number in said if number is not None))


def _of_machine() -> int:
    try:
        with open("/proc/meminfo") as said:
            return next(int(line.split()[1]) << 10 for line in said if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return 0


def _of_groups(said: pathlib.Path, root: pathlib.Path) -> list[int]:
    """What control groups leave: of the process's own and of those that it lies in; files that the kernel could drop are free."""
    try:
        lines = [line.rstrip("\n").split(":", 2) for line in said.read_text().splitlines()]
    except OSError:
        return []
    found = []
    for _, kinds, path in (line for line in lines if len(line) == 3):
        if kinds == "":
            found += _of_folders(root, path, "memory.max", "memory.current", "inactive_file ")
        elif "memory" in kinds.split(","):
            found += _of_folders(root / "memory", path, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ")
    return found


def _of_folders(root: pathlib.Path, path: str, limit: str, used: str, cached: str) -> list[int]:
    folder, found = root / path.lstrip("/"), []
    for each in dict.fromkeys([folder, *folder.parents, root]):
        if not each.is_relative_to(root):
            continue
        try:
            most, now = (each / limit).read_text().strip(), int((each / used).read_text())
            lines = (each / "memory.stat").read_text().splitlines()
        except (OSError, ValueError):
            continue
        if most.isdigit():
            found.append(int(most) - now + sum(int(line.split()[1]) for line in lines if line.startswith(cached)))
    return found


def _of_process() -> int | None:
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    if most == resource.RLIM_INFINITY:
        return None
    try:
        return most - int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (OSError, ValueError):
        return 0


def there_is_room(device: torch.device, more: int, spare: float = SPARE) -> bool:
    """For so many bytes beside what is taken already."""
    return more <= free_bytes(device) * spare
