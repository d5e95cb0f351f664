"""Values as structs: the seam between formats of values and the rows that are made of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from headrace.serde.error import Undecodable


@dataclass(frozen=True, slots=True)
class ValueGroup:
    """Values that were read alike.

    Attributes:
        at: their places in the column, rising.
        values: structs, as many.
    """

    at: pa.Int64Array
    values: pa.StructArray


@dataclass(frozen=True, slots=True)
class ReadValues:
    """What was read of a column without nulls.

    Attributes:
        bad: the places of values that could not be read, and why.
    """

    groups: Sequence[ValueGroup]
    bad: list[tuple[int, str]] = field(default_factory=list)


class ValueReader(Protocol):
    """Reads columns of values. One thread uses it."""

    def read(self, values: pa.BinaryArray) -> ReadValues:
        """Read values, none of which is null."""


def read_with_halving(
    values: pa.Array, decode: Callable[[pa.Array], pa.Array]
) -> tuple[pa.Int64Array, pa.Array | None, list[tuple[int, str]]]:
    """Decode a column in one step; only if that fails cut it in halves until bad values are found.

    Returns:
        The places of good values, their column (None without any), and bad places with reasons.
    """
    good: list[pa.Array] = []
    places: list[pa.Array] = []
    bad: list[tuple[int, str]] = []
    work = [(0, len(values))]
    while work:
        first, past = work.pop()
        if first == past:
            continue
        try:
            good.append(decode(values.slice(first, past - first)))
            places.append(pa.array(np.arange(first, past)))
        except Undecodable as error:
            if past - first == 1:
                bad.append((first, str(error)))
            else:
                middle = (first + past) // 2
                work += [(middle, past), (first, middle)]
    if not good:
        return pa.array([], pa.int64()), None, bad
    return pa.concat_arrays(places), pa.concat_arrays(good), bad
