"""The rows of a put record that are not taken yet."""


class RowRange:
    """The rows from 0 to `count`, without those that were taken, as ranges."""

    __slots__ = ("_ranges",)

    def __init__(self, count: int) -> None:
        self._ranges = [(0, count)] if count else []

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __len__(self) -> int:
        return sum(stop - start for start, stop in self._ranges)

    @property
    def ranges(self) -> list[tuple[int, int]]:
        return list(self._ranges)

    def remove(self, first: int, count: int) -> int:
        """Remove rows, and return how many of them were still there.

        >>> rows = RowRange(10)
        >>> rows.remove(2, 3), rows.ranges
        (3, [(0, 2), (5, 10)])
        """
        past = first + count
        kept: list[tuple[int, int]] = []
        removed = 0
        for start, stop in self._ranges:
            low, high = max(start, first), min(stop, past)
            if low >= high:
                kept.append((start, stop))
                continue
            removed += high - low
            if start < low:
                kept.append((start, low))
            if high < stop:
                kept.append((high, stop))
        self._ranges = kept
        return removed
