"""Finds the route of a path. Pure.

Rule 1: a path is divided at `/` before its segments are decoded, so `%2F` stays inside a segment,
and `.` and `..` are names like any other. Nothing is normalised.
Rule 2: a fixed segment goes before a parameter: `topics/-/configs` before `topics/{name}/configs`.
Rule 3: what answers GET answers HEAD, but for the paths that are excepted.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar
from urllib.parse import unquote_to_bytes

from headrace.gateway.rest.error import MethodNotAllowed, RestError, bad_request, not_found

MOST_PATH_BYTES: Final = 8192
_MOST_SEGMENTS: Final = 16

R = TypeVar("R")


@dataclass(slots=True)
class _Node(Generic[R]):
    fixed: "dict[str, _Node[R]]" = field(default_factory=dict)
    parameter: "_Node[R] | None" = None
    methods: dict[str, tuple[R, tuple[str, ...]]] = field(default_factory=dict)


class Router(Generic[R]):
    """Routes by method and path.

    >>> router = Router([("GET", "/topics/{topic}", "describe")])
    >>> router.find("GET", b"/topics/a%20b")
    ('describe', {'topic': 'a b'})
    """

    def __init__(
        self, routes: Iterable[tuple[str, str, R]], without_head: Container[str] = ()
    ) -> None:
        self._root: _Node[R] = _Node()
        for method, path, route in routes:
            node = self._root
            names: list[str] = []
            for segment in path.split("/")[1:]:
                if segment.startswith("{"):
                    names.append(segment.strip("{}"))
                    node.parameter = node.parameter or _Node()
                    node = node.parameter
                else:
                    node = node.fixed.setdefault(segment, _Node())
            node.methods[method] = (route, tuple(names))
            if method == "GET" and path not in without_head:
                node.methods["HEAD"] = (route, tuple(names))

    def find(self, method: str, raw_path: bytes) -> tuple[R, dict[str, str]]:
        """Return the route and the parameters of a path.

        Args:
            raw_path: as it was sent, without its query.

        Raises:
            RestError: there is none, or not for this method.
        """
        if len(raw_path) > MOST_PATH_BYTES:
            raise RestError(414, "The path is too long.")
        segments = [_decoded(each) for each in raw_path.split(b"/")[1:]]
        if len(segments) > 1 and not segments[-1]:
            segments.pop()
        if len(segments) > _MOST_SEGMENTS:
            raise not_found()
        others: set[str] = set()
        for node, values in _walk(self._root, segments, ()):
            found = node.methods.get(method)
            if found is not None:
                route, names = found
                return route, dict(zip(names, values, strict=True))
            others |= node.methods.keys()
        if others:
            raise MethodNotAllowed(others)
        raise not_found()


def _walk(
    node: _Node[R], segments: list[str], values: tuple[str, ...]
) -> Iterable[tuple[_Node[R], tuple[str, ...]]]:
    if not segments:
        if node.methods:
            yield node, values
        return
    first, rest = segments[0], segments[1:]
    if first in node.fixed:
        yield from _walk(node.fixed[first], rest, values)
    if node.parameter is not None and first:
        yield from _walk(node.parameter, rest, (*values, first))


def _decoded(segment: bytes) -> str:
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise bad_request("The path is not valid UTF-8.") from None
