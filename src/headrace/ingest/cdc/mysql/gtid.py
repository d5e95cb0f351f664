"""Sets of global transaction ids, in MariaDB's form and in MySQL's.

MariaDB's `0-1-100` names a domain, the server that wrote the transaction, and its number; a set is
the last id of each domain, because the numbers of a domain grow: `0-1-100,1-2-5`. MySQL's
`UUID:100` names the server and the number; a set has all intervals: `UUID:1-99:101,UUID:1-7`.
Tags of MySQL 8.3 (`UUID:TAG:1-3`) are not followed: a set with them counts as not known.
"""

from collections.abc import Iterable


class GtidSet:
    """The transactions that were handed over.

    >>> found = GtidSet.parse("0-1-99")
    >>> found.add("0-2-100")
    >>> str(found)
    '0-2-100'
    """

    def __init__(self) -> None:
        # MariaDB: by domain. MySQL: by UUID, intervals with both ends, ordered and apart.
        self._domains: dict[int, str] = {}
        self._servers: dict[str, list[tuple[int, int]]] = {}

    @classmethod
    def parse(cls, text: str) -> "GtidSet":
        """Return the set of a text; empty for an empty one.

        Raises:
            ValueError: it is no set.
        """
        made = cls()
        for part in text.replace("\n", "").split(","):
            part = part.strip()
            if ":" in part:
                server, *intervals = part.split(":")
                for each in intervals:
                    low, _, high = each.partition("-")
                    made._add_interval(server.lower(), int(low), int(high or low))
            elif part:
                made.add(part)
        return made

    @classmethod
    def known(cls, text: str | None) -> "GtidSet | None":
        """Return the set of a text; None for one that cannot be followed.

        >>> GtidSet.known("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:tag:1-3") is None
        True
        """
        try:
            return None if text is None else cls.parse(text)
        except ValueError:
            return None

    def add(self, gtid: str) -> None:
        """Add a transaction.

        Raises:
            ValueError: it is no id of one.
        """
        if ":" in gtid:
            server, _, number = gtid.partition(":")
            self._add_interval(server.lower(), int(number), int(number))
            return
        domain, server, number = gtid.split("-")
        int(server), int(number)
        self._domains[int(domain)] = gtid

    def lacks(self, other: "GtidSet") -> str | None:
        """Return an id, or an interval of ids, of another set that is not in this one; None if all
        are.

        >>> GtidSet.parse("0-1-5").lacks(GtidSet.parse("0-1-7"))
        '0-1-7'
        """
        for domain, gtid in other._domains.items():
            own = self._domains.get(domain)
            if own is None or _number(own) < _number(gtid):
                return gtid
        for server, intervals in other._servers.items():
            own_intervals = self._servers.get(server, [])
            for low, high in intervals:
                if not any(first <= low and high <= last for first, last in own_intervals):
                    return f"{server}:{low}-{high}"
        return None

    def __str__(self) -> str:
        parts = [self._domains[domain] for domain in sorted(self._domains)]
        for server, intervals in sorted(self._servers.items()):
            parts.append(":".join((server, *map(_interval, intervals))))
        return ",".join(parts)

    def _add_interval(self, server: str, low: int, high: int) -> None:
        intervals = self._servers.setdefault(server, [])
        if intervals and intervals[-1][1] + 1 == low:  # nearly always
            intervals[-1] = (intervals[-1][0], high)
            return
        intervals[:] = _joined([*intervals, (low, high)])


def _joined(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for low, high in sorted(intervals):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return joined


def _interval(ends: tuple[int, int]) -> str:
    low, high = ends
    return str(low) if low == high else f"{low}-{high}"


def _number(gtid: str) -> int:
    return int(gtid.rpartition("-")[2])
