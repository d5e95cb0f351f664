"""What clients are asked to push, how a push is read, and what is kept of it."""

from contextlib import suppress
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from headrace.broker.client_metrics.client_metrics import ClientMetrics
from headrace.broker.client_metrics.otlp import MAX_FIELDS, BadTelemetry, Sample, read_samples
from headrace.broker.client_metrics.pushed_metrics import render_page
from headrace.broker.client_metrics.subscription import Demand, Subscription
from headrace.model.client_metrics_config import check_client_metrics
from headrace.model.clock import ManualClock
from headrace.model.error import ConfigError
from testkit.sample.otlp import metrics_data

ONE, TWO = UUID(int=1), UUID(int=2)
ORDERS = {"client_id": "orders-1", "client_software_name": "apache-kafka-java"}


def subscription(**texts: str) -> Subscription:
    return Subscription.of({key.replace("_", "."): text for key, text in texts.items()})


class TestDemand:
    def test_without_a_subscription_nothing_is_asked_for(self) -> None:
        demand = Demand.of([], ORDERS)

        assert (demand.metrics, demand.subscription_id, demand.interval_ms) == ((), 0, 300_000)

    def test_all_that_match_count_together_at_the_shortest_interval(self) -> None:
        subscriptions = [
            subscription(metrics="a.,b.", interval_ms="5000"),
            subscription(metrics="c.", interval_ms="1000", match="client_id=orders-.*"),
            subscription(metrics="d.", interval_ms="100", match="client_id=other"),
        ]

        demand = Demand.of(subscriptions, ORDERS)

        assert (demand.metrics, demand.interval_ms) == (("a.", "b.", "c."), 1000)
        assert demand.wants("a.rate")
        assert not demand.wants("d.rate")

    def test_every_pattern_must_fit_the_whole_text(self) -> None:
        both = "client_id=orders-.*,client_software_name=apache-kafka-java"

        assert subscription(metrics="*", match=both).matches(ORDERS)
        assert not subscription(metrics="*", match="client_id=orders").matches(ORDERS)

    def test_all_metrics_are_one_star(self) -> None:
        assert Demand.of([subscription(metrics="a.,*")], ORDERS).metrics == ("*",)

    def test_the_id_changes_with_what_is_asked_for(self) -> None:
        ids = {
            Demand.of([subscription(metrics=metrics, interval_ms=interval)], ORDERS).subscription_id
            for metrics in ("a", "b")
            for interval in ("100", "200")
        }

        assert len(ids) == 4
        assert all(-(2**31) <= each < 2**31 for each in ids)

    @pytest.mark.parametrize("match", ["client_id", "colour=red", "client_id=("])
    def test_a_pattern_that_cannot_be_is_refused(self, match: str) -> None:
        with pytest.raises(ConfigError):
            check_client_metrics({"match": (match,)})


class TestReading:
    def test_gauges_and_sums_with_their_attributes(self) -> None:
        gauge = metrics_data({"a.rate": 1.5}, attributes={"node": "1"})
        total = metrics_data({"a.total": 7}, monotonic=True)

        assert read_samples(memoryview(gauge + total), 10) == [
            Sample("a.rate", False, (("node", "1"),), 1.5),
            Sample("a.total", True, (), 7.0),
        ]

    def test_no_more_than_the_limit(self) -> None:
        data = metrics_data({f"a.{number}": 1 for number in range(50)})

        assert len(read_samples(memoryview(data), 10)) == 10

    def test_a_message_that_is_cut_off_is_refused(self) -> None:
        data = metrics_data({"a.rate": 1.5})

        with pytest.raises(BadTelemetry):
            read_samples(memoryview(data[:-1]), 10)

    @pytest.mark.parametrize("field", [b"\x18\x00", b"\x0a\x00"])
    def test_a_bomb_of_empty_fields_is_refused(self, field: bytes) -> None:
        with pytest.raises(BadTelemetry, match="more than"):
            read_samples(memoryview(field * (MAX_FIELDS + 1)), 10)

    def test_a_full_push_is_read(self) -> None:
        attributes = {f"attribute-{number}": "text" for number in range(10)}
        data = metrics_data({f"a.{number}": 1 for number in range(1000)}, attributes=attributes)

        assert len(read_samples(memoryview(data), 1000)) == 1000

    @given(st.binary(max_size=300))
    def test_whatever_comes_is_read_or_refused(self, data: bytes) -> None:
        with suppress(BadTelemetry):
            assert len(read_samples(memoryview(data), 5)) <= 5


class TestKeeping:
    def push(
        self, metrics: ClientMetrics, instance: UUID, value: float, *, last: bool = False
    ) -> None:
        metrics.set_subscriptions([subscription(metrics="a.", interval_ms="1000")])
        samples = [Sample("a.rate", False, (), value), Sample("b.rate", False, (), value)]
        metrics.pushed(instance, 'or"ders', metrics.demand(ORDERS), samples, terminating=last)

    def test_the_newest_push_of_each_client_is_on_the_page(self) -> None:
        metrics = ClientMetrics(ManualClock())
        self.push(metrics, ONE, 1)
        self.push(metrics, TWO, 2)
        self.push(metrics, ONE, 3)

        page = render_page(metrics.newest()).decode()

        assert page.splitlines() == [
            "# TYPE a_rate gauge",
            f'a_rate{{client_id="or\\"ders",client_instance_id="{TWO}"}} 2',
            f'a_rate{{client_id="or\\"ders",client_instance_id="{ONE}"}} 3',
        ]

    def test_a_client_cannot_spoil_the_page_by_its_names(self) -> None:
        metrics = ClientMetrics(ManualClock())
        metrics.set_subscriptions([subscription(metrics="*")])
        names = (("client.id", "x"), ("a.b", "1"), ("a-b", "2"), ("__name__", "n"), ("", "e"))
        samples = [
            Sample("1m.rate", False, names, 1.0),
            Sample("", False, (), 2.0),
            Sample("a.b", False, (), 3.0),
            Sample("a-b", True, (("9", ""),), 4.0),
            Sample("a-b", True, (), 5.0),
        ]
        metrics.pushed(ONE, "me", metrics.demand(ORDERS), samples, terminating=False)

        page = render_page(metrics.newest()).decode()

        mine = {"client_id": "me", "client_instance_id": str(ONE)}
        read = [
            (each.name, each.labels, each.value)
            for family in text_string_to_metric_families(page)
            for each in family.samples
        ]
        assert read == [
            ("_1m_rate", {"_name__": "n", "a_b": "2;1", **mine}, 1.0),
            ("a_b", mine, 5.0),
            ("a_b", {"_9": "", **mine}, 4.0),
        ]

    def test_who_is_silent_is_dropped(self) -> None:
        clock = ManualClock()
        metrics = ClientMetrics(clock)
        self.push(metrics, ONE, 1)
        clock.advance(119_000)
        self.push(metrics, TWO, 2)
        clock.advance(2_000)

        assert [each.instance_id for each in metrics.newest()] == [TWO]

    def test_all_clients_together_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        module = "headrace.broker.client_metrics.client_metrics"
        monkeypatch.setattr(f"{module}._MAX_SAMPLES_OF_ALL", 3)
        metrics = ClientMetrics(ManualClock())
        for number in range(10):
            self.push(metrics, UUID(int=number + 1), 1)

        assert [each.instance_id.int for each in metrics.newest()] == [8, 9, 10]

    def test_a_push_too_soon_is_told_so_but_never_the_last(self) -> None:
        clock = ManualClock()
        metrics = ClientMetrics(clock)
        self.push(metrics, ONE, 1)
        demand = metrics.demand(ORDERS)

        def too_early(instance: UUID, *, last: bool = False) -> bool:
            # Each over a connection of its own.
            return metrics.too_early(instance, Peer(), demand, terminating=last)

        assert too_early(ONE)
        assert not too_early(ONE, last=True)
        assert not too_early(TWO)
        clock.advance(600)
        assert not too_early(ONE)

    def test_a_connection_pushes_no_more_often_under_many_ids(self) -> None:
        clock = ManualClock()
        metrics = ClientMetrics(clock)
        metrics.set_subscriptions([subscription(metrics="a.", interval_ms="1000")])
        demand, connection = metrics.demand(ORDERS), Peer()

        def refused(*, last: bool = False) -> bool:
            return metrics.too_early(uuid4(), connection, demand, terminating=last)

        assert [refused(), refused(), refused()] == [False, True, True]
        assert [refused(last=True), refused(last=True), refused()] == [False, True, True]
        clock.advance(600)
        assert not refused()


class Peer:
    """A connection as far as pushes go."""
