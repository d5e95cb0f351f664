"""Reads lines of a file from a position on, many at a time."""

import os
from collections.abc import Iterator
from typing import NamedTuple

SMALLEST_READ = 256 * 1024
LARGEST_READ = 4 * 1024 * 1024
_USUAL_LINE = 256


class Lines(NamedTuple):
    """Lines without their line feeds, and the position after them.

    Attributes:
        end: where the next line begins.
        returns: whether a carriage return may be in them.
        data: the bytes before `end` that were read, as they are in the file.
    """

    bodies: list[bytes]
    end: int
    returns: bool = False
    data: bytes = b""

    def without_returns(self) -> list[bytes]:
        """Return the lines without the carriage return of a DOS line end."""
        if not self.returns:
            return self.bodies
        return [body.removesuffix(b"\r") for body in self.bodies]


def read_bytes_for(lines: int) -> int:
    """Return how many bytes to read at once for batches of so many lines."""
    return max(SMALLEST_READ, min(LARGEST_READ, lines * _USUAL_LINE))


def read_lines(
    descriptor: int,
    position: int,
    *,
    read_bytes: int,
    longest: int,
    unfinished: bool = False,
) -> Lines:
    """Return the lines in the next `read_bytes`, or none if no line ends there.

    A line longer than `longest` is split into pieces of that size.

    Args:
        unfinished: also return a last line without a line feed, because the file is complete.
    """
    data = os.pread(descriptor, read_bytes, position)
    if not data:
        return Lines([], position)
    cut = data.rfind(b"\n")
    if cut < 0:
        return _without_end(descriptor, position, data, longest, unfinished)
    bodies = data[:cut].split(b"\n")
    end = position + cut + 1
    if len(data) > longest and max(map(len, bodies)) > longest:
        return _long_lines(data, bodies, position, longest)
    return Lines(bodies, end, b"\r" in data, data[: cut + 1])


def _without_end(
    descriptor: int, position: int, data: bytes, longest: int, unfinished: bool
) -> Lines:
    """Return a line that is larger than a read, or the last one of the file."""
    if len(data) <= longest:
        data = os.pread(descriptor, longest + 1, position)
        cut = data.find(b"\n")
        if cut >= 0:
            return Lines([data[:cut]], position + cut + 1, True, data[: cut + 1])
    if len(data) > longest:
        piece = data[:longest]
        return Lines([piece], position + longest, data=piece)
    if not unfinished:
        return Lines([], position)
    return Lines([data], position + len(data), data=data)


def _long_lines(data: bytes, bodies: list[bytes], position: int, longest: int) -> Lines:
    """Return the lines before the first one that is too long, or the first piece of that one."""
    first = next(row for row, body in enumerate(bodies) if len(body) > longest)
    if first:
        fitting = bodies[:first]
        size = sum(map(len, fitting)) + first
        return Lines(fitting, position + size, True, data[:size])
    piece = bodies[0][:longest]
    return Lines([piece], position + longest, data=piece)


def pieces(lines: Lines, start: int, limit: int) -> Iterator[Lines]:
    """Yield batches of at most `limit` lines, each with the position after it."""
    bodies = lines.bodies
    if len(bodies) <= limit:
        yield lines
        return
    position = start
    for first in range(0, len(bodies), limit):
        some = bodies[first : first + limit]
        begin = position - start
        position += sum(map(len, some)) + len(some)
        data = lines.data[begin : position - start]
        yield Lines(some, min(position, lines.end), lines.returns, data)
