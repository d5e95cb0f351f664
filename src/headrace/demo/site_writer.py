"""Writes the site's activity twice: with a stock Kafka client, and as an access log."""

import threading
import time
from collections.abc import Callable, Iterable

from confluent_kafka import KafkaError, Message

from headrace.audit.confluent import AuditedProducer
from headrace.audit.reconciliation import SOURCE_TIER
from headrace.audit.reporter import Reporter
from headrace.audit.tally import Tally
from headrace.client.settings import ClientSettings
from headrace.demo.access_log import AccessLog
from headrace.demo.activity import Activity
from headrace.demo.demo_audit import BUCKET_MS
from headrace.demo.expected_answers import ExpectedAnswers
from headrace.demo.site import Site
from headrace.demo.topic import VIEWS

_ROUND_SECONDS = 0.05
_FLUSH_SECONDS = 30.0
_REPORT_SECONDS = 2.0


class SiteWriter:
    """Writes in a thread of its own until it is stopped. Records are keyed by user.

    The producer is idempotent: every acknowledged record is in its topic once, so the expected
    answers match the topics when `stop` returns. Acknowledged records are counted for the audit.
    """

    def __init__(
        self,
        *,
        address: str,
        site: Site,
        expected: ExpectedAnswers,
        log: AccessLog,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._site = site
        self._expected = expected
        self._log = log
        self._now_ms = now_ms
        self._stopping = threading.Event()
        self._problem: KafkaError | BaseException | None = None
        tally = Tally(SOURCE_TIER, bucket_ms=BUCKET_MS)
        self._reporter = Reporter(
            tally,
            ClientSettings.of({"bootstrap.servers": address}),
            interval_seconds=_REPORT_SECONDS,
        )
        self._producer = AuditedProducer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "linger.ms": 5,
                # `problem` reports errors; librdkafka's log would be printed into the live table.
                "log_level": 0,
            },
            tally,
        )
        self._thread = threading.Thread(target=self._run, name="site-writer", daemon=True)

    @property
    def problem(self) -> KafkaError | BaseException | None:
        """Why writing failed, if it did."""
        return self._problem

    def start(self) -> None:
        self._reporter.start()
        self._thread.start()

    def stop(self) -> None:
        """Return when everything written has been acknowledged."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        left = self._producer.flush(_FLUSH_SECONDS)
        if left and self._problem is None:
            self._problem = TimeoutError(f"{left} records were never acknowledged")
        self._reporter.close()

    def _run(self) -> None:
        written_ms = self._now_ms()
        try:
            self._produce_all(self._site.members(written_ms))
            while not self._stopping.wait(_ROUND_SECONDS):
                now_ms = max(self._now_ms(), written_ms)
                views = list(self._site.views(from_ms=written_ms, to_ms=now_ms))
                for view in views:
                    self._produce(VIEWS, view.user, view.to_json(), view.at_ms)
                    self._produce_all(self._site.besides(view))
                self._log.write(views)
                self._expected.add(views)
                written_ms = now_ms
                self._producer.poll(0)
        except Exception as error:  # noqa: BLE001 - the main thread reports it
            self._problem = error

    def _produce_all(self, activities: Iterable[Activity]) -> None:
        for each in activities:
            self._produce(each.topic, each.user, each.to_json(), each.at_ms)

    def _produce(self, topic: str, user: str, value: bytes, at_ms: int) -> None:
        self._producer.produce(
            topic, key=user.encode(), value=value, timestamp=at_ms, on_delivery=self._delivered
        )

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._problem = error
