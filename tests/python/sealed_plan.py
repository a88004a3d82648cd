"""Plan files edited by hand: changes members and puts the right checksum under the text again, as seal_plan_text does."""

import ctypes
import ctypes.util
import pathlib
import re

import pytest

TAIL = '"checksum": "'


def xxh3_64(data: bytes) -> int:
    name = ctypes.util.find_library("xxhash")
    if name is None:
        pytest.skip("there is no libxxhash to seal a changed plan with")
    library = ctypes.CDLL(name)
    library.XXH3_64bits.restype = ctypes.c_uint64
    library.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    return library.XXH3_64bits(data, len(data))


def seal(text: str) -> str:
    """Everything before the last member, and the checksum of that."""
    body = text[: text.rindex(TAIL)]
    return f'{body}{TAIL}{xxh3_64(body.encode()):016x}"\n}}\n'


def change(source: pathlib.Path, target: pathlib.Path, member: str, value, inside: str = "format") -> None:
    """The plan with `member`, a number or word of JSON, set to what `value` makes of its text: the first behind `inside`."""
    text = source.read_text()
    found = re.compile(rf'"{member}": ([^,}}\]\s]+)').search(text, text.index(f'"{inside}"'))
    assert found, f"{source} has no {member}"
    target.write_text(seal(text[: found.start(1)] + value(found.group(1)) + text[found.end(1) :]))
