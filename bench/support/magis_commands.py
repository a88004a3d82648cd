"""What a table of bench/magis.py was made by, as a reader can run it again: its own arguments, or
those of the pieces that it merges. Pieces that differ in nothing but their networks are one
command.
"""

import argparse

Commands = dict[str, list[str]]  # the flags, and the networks that were asked for with them


def command_of(arguments: argparse.Namespace) -> str:
    """The flags that decide what is planned, written out; without networks, files and figures."""
    words = ["--ratios", *(f"{ratio:g}" for ratio in arguments.ratios),
             "--rows", *map(quoted, arguments.rows), "--effort", f"{arguments.effort:g}",
             "--time-limit", f"{arguments.time_limit:g}"]
    if arguments.cost_model != "roofline":
        words += ["--cost-model", arguments.cost_model]
    words += ["--no-least"] if arguments.no_least else ["--least", *arguments.least]
    return " ".join(words)


def quoted(word: str) -> str:
    return f'"{word}"' if " " in word else word


def add(commands: Commands, more: Commands) -> None:
    for flags, models in more.items():
        known = commands.setdefault(flags, [])
        known += [model for model in models if model not in known]


def told(commands: Commands, models: list[str]) -> list[str]:
    """A line for each command that planned some of these networks, naming those."""
    lines = []
    for flags, planned in commands.items():
        named = [model for model in planned if model in models]
        if named:
            lines.append(f"bench/magis.py --models {' '.join(named)} {flags}")
    return lines
