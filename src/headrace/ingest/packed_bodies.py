"""The bodies of a batch in one piece of memory, for components that handle thousands at once."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Int64s: TypeAlias = npt.NDArray[np.int64]


class PackedBodies:
    """Bodies one after the other, without gaps: body `i` is `data[offsets[i]:offsets[i + 1]]`.

    Invariant: offsets never fall, and lie in `data`. The first may be above 0 and the last below
    the size of `data`: `cut` shares the memory. Nothing changes after construction.
    """

    __slots__ = ("data", "offsets")

    def __init__(self, data: bytes, offsets: Int64s) -> None:
        self.data = data
        self.offsets = offsets

    @classmethod
    def of(cls, bodies: Sequence[bytes]) -> "PackedBodies":
        """Return bodies in new memory.

        >>> PackedBodies.of([b"one", b"two"]).offsets.tolist()
        [0, 3, 6]
        """
        offsets = np.zeros(len(bodies) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, bodies), np.int64, len(bodies)), out=offsets[1:])
        return cls(b"".join(bodies), offsets)

    @classmethod
    def join(cls, parts: Sequence["PackedBodies"]) -> "PackedBodies":
        """Return the bodies of all parts, in order, in new memory."""
        sizes = np.concatenate([np.diff(part.offsets) for part in parts])
        offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
        np.cumsum(sizes, out=offsets[1:])
        return cls(b"".join(part.content for part in parts), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def size_bytes(self) -> int:
        return int(self.offsets[-1] - self.offsets[0])

    @property
    def content(self) -> memoryview:
        """The bytes of all bodies."""
        return memoryview(self.data)[int(self.offsets[0]) : int(self.offsets[-1])]

    def cut(self, start: int, stop: int) -> "PackedBodies":
        """Return the bodies from `start` up to `stop`, in the same memory."""
        return PackedBodies(self.data, self.offsets[start : max(start, stop) + 1])

    def to_list(self) -> list[bytes]:
        """Return each body by itself.

        >>> PackedBodies(b"onetwo", np.array([0, 3, 6])).to_list()
        [b'one', b'two']
        """
        data = self.data
        return [data[start:stop] for start, stop in pairwise(self.offsets.tolist())]
