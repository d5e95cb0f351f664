"""What a column of bytes was decoded to, and which of its values were bad."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# Not the alias of the kernels: processes that plan load this file, and need no compiler.
RowNumbers: TypeAlias = npt.NDArray[np.int64]


def no_rows() -> RowNumbers:
    return np.empty(0, np.int64)


class DecodedColumn(NamedTuple):
    """A column of the same length as the bytes.

    Attributes:
        values: null where there was no value, where the value is bad, and where a schema says so.
        bad_rows: the rows whose value could not be decoded, rising.
    """

    values: pa.Array
    bad_rows: RowNumbers


class PartlyDecoded(NamedTuple):
    """What a decoder returns that finds the bad values itself.

    Attributes:
        values: null where the value is bad.
        bad_rows: the rows of those, rising; at least one.
        problem: returns why a row is bad, as the end of a sentence.
    """

    values: pa.Array
    bad_rows: RowNumbers
    problem: Callable[[int], str]


class ValueDecoder(Protocol):
    """Decodes whole columns of keys or values."""

    def decode(self, values: pa.Array) -> DecodedColumn:
        """Decode a column of bytes, in which nulls stay null.

        Raises:
            BadValue: a value that cannot be decoded, if that is to fail the read.
        """
