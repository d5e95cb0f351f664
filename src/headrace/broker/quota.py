"""Client quotas: byte rates a user or a client may use, enforced by making it wait.

Theory of operation
-------------------
A client that used more than its share gets its response at once, with the time it should wait
(`throttle_time_ms`), and the broker does not read from it for that long (KIP-219), so that a client
which ignores the figure is slowed down all the same. Nothing is refused and nothing is queued.

Rule 1: the limit is the one of the most specific match: user and client, user, client, each before
its default (Kafka's order, `_ORDER`).
Rule 2: a rate is what was used in the last `WINDOW_SECONDS`, in slots of one second, as Kafka's
`quota.window.num` of 11 counts it.
Rule 3: followers are not clients: their fetches are neither counted nor slowed down.
Rule 4: the wait brings the rate back to the limit, and is at most one window.
"""

from collections import Counter
from collections.abc import Mapping

from headrace.broker.call import Call
from headrace.model.clock import Clock

PRODUCER = "producer_byte_rate"
CONSUMER = "consumer_byte_rate"

WINDOW_SECONDS = 11
_MAX_RATES = 100_000

DEFAULT = None
"""The default entity of a kind; in a limit's name it stands where a user or client would."""

Entity = tuple[tuple[str, str | None], ...]
"""((kind, name), ...) sorted by kind; the kinds are `client-id` and `user`."""


class Rate:
    """Counts bytes in the last window, in slots of one second."""

    __slots__ = ("_slots", "_start")

    def __init__(self) -> None:
        self._slots = [0.0] * WINDOW_SECONDS
        self._start = -(10**9)

    def add(self, size: float, now_ms: int) -> float:
        """Count `size` and return the rate per second over the window."""
        second = now_ms // 1000
        if second - self._start >= WINDOW_SECONDS:
            passed = min(WINDOW_SECONDS, second - self._start - WINDOW_SECONDS + 1)
            self._slots = self._slots[passed:] + [0.0] * passed
            self._start = second - WINDOW_SECONDS + 1
        self._slots[second - self._start] += size
        return sum(self._slots) / WINDOW_SECONDS


class Quotas:
    """The limits in force and the rates measured against them. Lives on the event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._limits: Mapping[Entity, Mapping[str, float]] = {}
        self._rates: dict[tuple[str, Entity], Rate] = {}
        self.active = False
        self.throttled_requests: Counter[str] = Counter()
        self.throttled_ms: Counter[str] = Counter()

    @property
    def limits(self) -> Mapping[Entity, Mapping[str, float]]:
        """The limits in force."""
        return self._limits

    def set_limits(self, limits: Mapping[Entity, Mapping[str, float]]) -> None:
        self._limits = limits
        self.active = bool(limits)
        self._rates.clear()

    def throttle_produce(self, call: Call, size_bytes: int) -> int:
        return self._throttle(PRODUCER, call, size_bytes)

    def throttle_fetch(self, call: Call, size_bytes: int) -> int:
        return self._throttle(CONSUMER, call, size_bytes)

    def _throttle(self, kind: str, call: Call, size_bytes: int) -> int:
        if not self.active:
            return 0
        user = call.principal.removeprefix("User:")
        throttle_ms = self.record(kind, user, call.client_id or "", size_bytes)
        if throttle_ms:
            call.connection.mute(throttle_ms)
            self.throttled_requests[kind] += 1
            self.throttled_ms[kind] += throttle_ms
        return throttle_ms

    def record(self, kind: str, user: str, client: str, size_bytes: int) -> int:
        """Count the use and return for how many milliseconds the client should wait."""
        match = self._limit(kind, user, client)
        if match is None:
            return 0
        limit, entity = match
        if len(self._rates) >= _MAX_RATES and (kind, entity) not in self._rates:
            self._rates.clear()
        rate = self._rates.setdefault((kind, entity), Rate())
        used = rate.add(size_bytes, self._clock.monotonic_ms())
        if used <= limit:
            return 0
        return min(WINDOW_SECONDS * 1000, round((used - limit) / limit * WINDOW_SECONDS * 1000))

    def _limit(self, kind: str, user: str, client: str) -> tuple[float, Entity] | None:
        """Return the limit, and the entity whose use counts against it: a default limits each
        client by itself."""
        for pattern in _ORDER:
            entity = _entity(pattern, user, client)
            limit = self._limits.get(entity, {}).get(kind)
            if limit is not None:
                kinds = {name for name, _ in entity}
                return limit, _entity(tuple((name, True) for name in sorted(kinds)), user, client)
        return None


# (kind, by its own name) for every kind that must be named; True: this one, False: the default.
_ORDER: tuple[tuple[tuple[str, bool], ...], ...] = (
    (("client-id", True), ("user", True)),
    (("client-id", False), ("user", True)),
    (("user", True),),
    (("client-id", True), ("user", False)),
    (("client-id", False), ("user", False)),
    (("user", False),),
    (("client-id", True),),
    (("client-id", False),),
)


def _entity(pattern: tuple[tuple[str, bool], ...], user: str, client: str) -> Entity:
    names = {"user": user, "client-id": client}
    return tuple((kind, names[kind] if own else DEFAULT) for kind, own in pattern)
