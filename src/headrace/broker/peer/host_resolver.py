"""Looks up the addresses of hosts, in threads of its own.

A name server that does not answer holds the thread that asks it for up to half a minute. So nothing
else may wait for such a thread, and retries may not hold one each.

Rule 1: an IP address is its own answer: it takes no thread.
Rule 2: a name is looked up once at a time. All that ask meanwhile wait for the same look-up.
Rule 3: at most `MAX_LOOKUPS` names are looked up at a time; more are refused, and may be asked for
again. Whatever must not wait for the names of others has a resolver of its own.
Rule 4: the process ends without waiting for a look-up.
Rule 5: an address that came too late for one that asked is kept for `KEEP_SECONDS`. While the first
of two name servers is down each answer takes 5 seconds, and one that never waits longer would never
see it. Nothing else is kept: a host that has moved is found at once.
"""

import asyncio
import socket
from contextlib import suppress
from dataclasses import dataclass
from errno import EAGAIN
from threading import Thread
from typing import Any, NamedTuple

MAX_LOOKUPS = 16
KEEP_SECONDS = 30.0


class HostAddress(NamedTuple):
    """What a socket is made with, and connected to."""

    family: int
    address: tuple[Any, ...]


_Found = HostAddress | OSError


@dataclass(slots=True)
class _LookUp:
    """A name that is being looked up. `missed`: one that asked has stopped waiting (rule 5)."""

    found: asyncio.Future[_Found]
    missed: bool = False


class HostResolver:
    """Returns the addresses of hosts. Lives on the event loop."""

    def __init__(self) -> None:
        self._lookups: dict[tuple[str, int], _LookUp] = {}
        self._kept: dict[tuple[str, int], HostAddress] = {}

    async def address(self, host: str, port: int) -> HostAddress:
        """Return the first address of a host.

        Raises:
            OSError: there is none, or it cannot be found out now.
        """
        with suppress(socket.gaierror):
            return _look_up(host, port, socket.AI_NUMERICHOST)
        kept = self._kept.get((host, port))
        if kept is not None:
            return kept
        lookup = self._lookups.get((host, port)) or self._begin(host, port)
        try:
            found = await asyncio.shield(lookup.found)
        except asyncio.CancelledError:
            lookup.missed = True
            if lookup.found.done():  # in the same turn of the loop
                self._keep(host, port, lookup.found.result())
            raise
        if isinstance(found, OSError):
            raise found
        return found

    def _begin(self, host: str, port: int) -> _LookUp:
        if len(self._lookups) >= MAX_LOOKUPS:
            raise OSError(EAGAIN, f"{MAX_LOOKUPS} other names are being looked up")
        loop = asyncio.get_running_loop()
        lookup = _LookUp(loop.create_future())

        def finish(found: _Found) -> None:
            del self._lookups[host, port]
            if lookup.missed:
                self._keep(host, port, found)
            lookup.found.set_result(found)

        def look_up() -> None:
            try:
                found: _Found = _look_up(host, port)
            except OSError as error:
                found = error
            except Exception as error:  # noqa: BLE001 - or all that ask would wait for ever
                found = OSError(f"{host!r} cannot be looked up: {error!r}")
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(finish, found)

        try:
            # Not of a pool: at its end the process would wait for the threads of pools.
            Thread(target=look_up, name="host-lookup", daemon=True).start()
        except RuntimeError as error:
            raise OSError(EAGAIN, f"there is no thread to look up {host!r}") from error
        self._lookups[host, port] = lookup  # `finish` runs later, on this loop
        return lookup

    def _keep(self, host: str, port: int, found: _Found) -> None:
        if isinstance(found, HostAddress) and (host, port) not in self._kept:
            self._kept[host, port] = found
            loop = asyncio.get_running_loop()
            loop.call_later(KEEP_SECONDS, self._kept.pop, (host, port))


def _look_up(host: str, port: int, flags: int = 0) -> HostAddress:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    except UnicodeError as error:
        raise OSError(f"{host!r} cannot be the name of a host") from error
    family, _, _, _, address = found[0]
    return HostAddress(family, address)
