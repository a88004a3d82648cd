"""What can go wrong, by who can mend it.

One exception for each status of the library (include/lowtide/lowtide.h), which are the exit codes of the
command line too. The text of an exception is the line that the command line would print.
"""

from __future__ import annotations


class Error(Exception):
    """Anything that Lowtide says no to."""

    status = 1


class Internal(Error):
    """A bug of Lowtide's, or out of memory."""

    status = 1


class Usage(Error, ValueError):
    """An argument that makes no sense."""

    status = 2


class Infeasible(Error):
    """Cannot be, with proof: a budget below what every schedule needs."""

    status = 3


class BadInput(Error):
    """A file or a model that cannot be read, or is malformed; a label that is no class."""

    status = 4


class Unsupported(BadInput):
    """A model, an optimizer or an op that cannot be captured or planned."""

    status = 4


class Limit(Error):
    """A limit ended the search before there was an answer."""

    status = 5


class Refused(Error):
    """A plan that does not hold what it claims."""

    status = 6


BY_STATUS = {kind.status: kind for kind in (Internal, Usage, Infeasible, BadInput, Limit, Refused)}


def error_of(status: int, line: str) -> Error:
    """The exception of a status of the library."""
    return BY_STATUS.get(status, Internal)(line)
