"""Which call to a disk fails, and how."""

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

MUTATIONS = frozenset(
    {
        "create",
        "make_directory",
        "pwritev",
        "remove",
        "remove_tree",
        "replace",
        "sync",
        "sync_directory",
        "truncate",
    }
)
"""The calls that can change what a crash leaves."""


class PowerLoss(BaseException):
    """The machine stopped in the middle of a call. Nothing but the test may catch it."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call, before it happens.

    Attributes:
        number: counts all calls from 1.
        mutation: counts those that can change something; this one's number, or of the one before.
        name: the method's, except that `open` of a file that is not there is `create`.
        size_bytes: how much is read or written, 0 for other calls.
    """

    number: int
    mutation: int
    name: str
    path: Path
    size_bytes: int = 0

    @property
    def mutates(self) -> bool:
        return self.name in MUTATIONS


def _any_call(_: Call) -> bool:
    return True


@dataclass(slots=True)
class Fault:
    """Fail the calls that match.

    Attributes:
        error: the errno to fail with; None cuts the power (`PowerLoss`), and then every call fails
            until `CrashDisk.crash`.
        when: which calls.
        times: how often, None for always.
        written_bytes: what a failing `pwritev` writes all the same: a short write, of which the
            rest did not fit.

    >>> full = Fault(errno.ENOSPC, lambda call: call.name == "pwritev", written_bytes=100)
    >>> full.applies(Call(1, 1, "pwritev", Path("/data/0.log"), 4096))
    True
    >>> full.applies(Call(2, 2, "pwritev", Path("/data/0.log"), 4096))
    False
    """

    error: int | None = errno.EIO
    when: Callable[[Call], bool] = field(default=_any_call)
    times: int | None = 1
    written_bytes: int = 0

    @classmethod
    def at_call(cls, number: int, error: int | None = errno.EIO) -> "Fault":
        """Fail the call with this number, whatever it is."""
        return cls(error, lambda call: call.number == number)

    @classmethod
    def at_mutation(cls, number: int, error: int | None = None) -> "Fault":
        """Fail the mutation with this number; by default the power goes.

        Running a history once for each number visits every point at which a crash can leave
        something new.
        """
        return cls(error, lambda call: call.mutates and call.mutation == number)

    def applies(self, call: Call) -> bool:
        """Return whether this call fails, and count it when it does."""
        if self.times == 0 or not self.when(call):
            return False
        if self.times is not None:
            self.times -= 1
        return True
