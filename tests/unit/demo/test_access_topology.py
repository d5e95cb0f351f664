import pytest

from headrace.demo.access_topology import ALERT_FAILURES, access_plan, parse
from headrace.demo.page_view import PageView
from headrace.demo.topic import ALERTS, MINUTES
from headrace.flow.plan.check import check
from headrace.testing.flow_run import FlowRun


def test_a_line_that_the_site_writes_is_understood() -> None:
    view = PageView("/checkout", "ada", 1_794_735_791_234, 500)

    assert parse(view.to_log_line()) == ("/checkout", 1_794_735_780_000, 1_794_735_790_000, 500)


def test_what_is_no_line_of_the_log_raises() -> None:
    with pytest.raises(ValueError, match="not a line"):
        parse("GET /")


def test_the_plan_has_no_mistake() -> None:
    check(access_plan("127.0.0.1:9092"))


def lines(*views: PageView) -> list[str]:
    return [view.to_log_line() for view in views]


def test_views_are_counted_by_page_and_minute() -> None:
    run = FlowRun(access_plan("127.0.0.1:9092"))

    run.feed(lines(PageView("/", "ada", 1_000, 200), PageView("/", "bob", 61_000, 200)))
    run.feed(lines(PageView("/", "ada", 2_000, 200)))

    assert run.values(MINUTES) == [
        '{"page":"/","minute_ms":0,"views":1}',
        '{"page":"/","minute_ms":60000,"views":1}',
        '{"page":"/","minute_ms":0,"views":2}',
    ]


def test_a_page_that_keeps_failing_gets_one_alert() -> None:
    run = FlowRun(access_plan("127.0.0.1:9092"))
    failed = [PageView("/checkout", "ada", 1_000 + n, 500) for n in range(ALERT_FAILURES - 1)]

    run.feed(lines(*failed))
    assert run.values(ALERTS) == []
    run.restart()
    run.feed(lines(*failed))

    assert run.values(ALERTS) == ['{"page":"/checkout","start_ms":0,"failures":10}']


def test_failures_of_different_intervals_do_not_add_up() -> None:
    run = FlowRun(access_plan("127.0.0.1:9092"))

    run.feed(lines(*(PageView("/", "ada", 1_000 * n, 500) for n in range(1, 19))))

    assert run.values(ALERTS) == []
