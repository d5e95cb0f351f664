"""Client quotas: which limit counts, and how long a client waits."""

from typing import Any, cast

from headrace.broker.quota import CONSUMER, PRODUCER, WINDOW_SECONDS, Entity, Quotas
from headrace.model.clock import ManualClock

KIB = 1024


def quotas(limits: dict[Entity, dict[str, float]], clock: ManualClock | None = None) -> Quotas:
    made = Quotas(clock or ManualClock())
    made.set_limits(limits)
    return made


def user(name: str | None) -> tuple[str, str | None]:
    return ("user", name)


def client(name: str | None) -> tuple[str, str | None]:
    return ("client-id", name)


def limit_of(made: Quotas, user: str, client: str) -> float | None:
    """The limit that counts, found by using far more than any."""
    found = made._limit(PRODUCER, user, client)
    return None if found is None else found[0]


def test_without_limits_nobody_waits() -> None:
    made = quotas({})

    assert not made.active
    assert made.record(PRODUCER, "anna", "app", 10**12) == 0


def test_within_the_limit_nobody_waits() -> None:
    made = quotas({(user("anna"),): {PRODUCER: KIB}})

    assert made.record(PRODUCER, "anna", "app", WINDOW_SECONDS * KIB) == 0


def test_above_the_limit_the_wait_brings_the_rate_back() -> None:
    made = quotas({(user("anna"),): {PRODUCER: KIB}})

    wait_ms = made.record(PRODUCER, "anna", "app", (WINDOW_SECONDS + 2) * KIB)

    assert wait_ms == 2000


def test_a_wait_is_never_longer_than_the_window() -> None:
    made = quotas({(user("anna"),): {PRODUCER: KIB}})

    assert made.record(PRODUCER, "anna", "app", 10**9) == WINDOW_SECONDS * 1000


def test_use_is_forgotten_after_the_window() -> None:
    clock = ManualClock()
    made = quotas({(user("anna"),): {PRODUCER: KIB}}, clock)
    made.record(PRODUCER, "anna", "app", 10**9)

    clock.advance(WINDOW_SECONDS * 1000)

    assert made.record(PRODUCER, "anna", "app", KIB) == 0


def test_a_steady_client_gets_its_rate() -> None:
    clock = ManualClock()
    made = quotas({(user("anna"),): {PRODUCER: 10 * KIB}}, clock)
    sent, start = 0, clock.monotonic_ms()
    while clock.monotonic_ms() - start < 60_000:
        sent += 5 * KIB
        clock.advance(max(1, made.record(PRODUCER, "anna", "app", 5 * KIB)))

    rate = sent / 60
    assert 9 * KIB < rate < 13 * KIB


def test_producers_and_consumers_are_counted_apart() -> None:
    made = quotas({(user("anna"),): {PRODUCER: KIB, CONSUMER: KIB}})
    made.record(PRODUCER, "anna", "app", 10**9)

    assert made.record(CONSUMER, "anna", "app", 10) == 0


def test_a_limit_of_a_user_is_shared_by_its_clients() -> None:
    made = quotas({(user("anna"),): {PRODUCER: KIB}})
    made.record(PRODUCER, "anna", "one", WINDOW_SECONDS * KIB)

    assert made.record(PRODUCER, "anna", "two", KIB) > 0
    assert made.record(PRODUCER, "bob", "two", 10**9) == 0


def test_a_default_limits_each_user_by_itself() -> None:
    made = quotas({(user(None),): {PRODUCER: KIB}})
    made.record(PRODUCER, "anna", "app", WINDOW_SECONDS * KIB)

    assert made.record(PRODUCER, "anna", "app", KIB) > 0
    assert made.record(PRODUCER, "bob", "app", KIB) == 0


def test_the_most_specific_limit_counts() -> None:
    order: list[Entity] = [
        (client("app"), user("anna")),
        (client(None), user("anna")),
        (user("anna"),),
        (client("app"), user(None)),
        (client(None), user(None)),
        (user(None),),
        (client("app"),),
        (client(None),),
    ]
    for first in range(len(order)):
        made = quotas({entity: {PRODUCER: 100.0 + at} for at, entity in enumerate(order[first:])})
        assert limit_of(made, "anna", "app") == 100.0


def test_a_limit_of_another_kind_does_not_hide_a_general_one() -> None:
    made = quotas({(user("anna"),): {CONSUMER: 5.0}, (client("app"),): {PRODUCER: 7.0}})

    assert limit_of(made, "anna", "app") == 7.0


def test_new_limits_count_from_now_on() -> None:
    made = quotas({(user("anna"),): {PRODUCER: KIB}})
    made.record(PRODUCER, "anna", "app", 10**9)

    made.set_limits({(user("anna"),): {PRODUCER: 10.0**9}})

    assert made.record(PRODUCER, "anna", "app", KIB) == 0


def test_waits_are_counted_by_quota() -> None:
    class Muted:
        principal = "User:anna"
        client_id = "app"

        @property
        def connection(self) -> "Muted":
            return self

        def mute(self, duration_ms: int) -> None:
            self.muted_ms = duration_ms

    call = cast(Any, Muted())
    made = quotas({(user("anna"),): {PRODUCER: KIB}})

    assert made.throttle_produce(call, 1) == 0
    assert made.throttled_requests == {}
    waited_ms = made.throttle_produce(call, 2 * WINDOW_SECONDS * KIB)

    assert waited_ms == call.muted_ms > 0
    assert made.throttled_requests == {PRODUCER: 1}
    assert made.throttled_ms == {PRODUCER: waited_ms}
