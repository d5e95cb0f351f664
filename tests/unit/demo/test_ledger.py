from headrace.demo.ledger import LANDED, Ledger, landed
from headrace.demo.page_view import PageView
from headrace.demo.profile import country_of
from headrace.demo.rolling_window import RollingWindow
from headrace.demo.topic import ALERTS, COUNTRIES, COUNTS, MINUTES

HOME = country_of("ada")


def ledger_of(*views: tuple[str, int], status: int = 200) -> Ledger:
    window = RollingWindow(length_ms=10_000, slide_ms=5_000)
    ledger = Ledger(window, alert_ms=10_000, alert_failures=2)
    ledger.add(PageView(page, "ada", at_ms, status) for page, at_ms in views)
    return ledger


def test_right_answers_are_right() -> None:
    ledger = ledger_of(("/", 6_000), ("/", 61_000))

    verdict = ledger.verdict(
        {
            COUNTS: {("/", 0): 1, ("/", 5_000): 1, ("/", 55_000): 1, ("/", 60_000): 1},
            MINUTES: {("/", 0): 1, ("/", 60_000): 1},
            COUNTRIES: {(HOME,): 2},
            LANDED: landed(2),
        }
    )

    assert verdict.right
    assert (verdict.views, verdict.checks[COUNTS].answers) == (2, 4)


def test_an_answer_that_is_missing_is_wrong() -> None:
    verdict = ledger_of(("/", 6_000)).verdict({COUNTS: {("/", 5_000): 1}})

    assert verdict.checks[COUNTS].wrong == {("/", 0): (0, 1)}
    assert verdict.checks[MINUTES].wrong == {("/", 0): (0, 1)}
    assert not verdict.right


def test_an_answer_that_is_too_high_is_wrong() -> None:
    verdict = ledger_of(("/", 6_000)).verdict({COUNTRIES: {(HOME,): 2}})

    assert verdict.checks[COUNTRIES].wrong == {(HOME,): (2, 1)}


def test_an_answer_about_a_page_nobody_saw_is_wrong() -> None:
    verdict = ledger_of(("/", 6_000)).verdict({MINUTES: {("/", 0): 1, ("/x", 0): 1}})

    assert verdict.checks[MINUTES].wrong == {("/x", 0): (1, 0)}


def test_a_page_that_keeps_failing_is_to_be_told_once() -> None:
    ledger = ledger_of(("/a", 1_000), ("/a", 9_000), ("/a", 11_000), ("/b", 1_000), status=500)

    assert ledger.verdict({}).checks[ALERTS].wrong == {("/a", 0): (0, 1)}
    assert ledger.verdict({ALERTS: {("/a", 0): 2}}).checks[ALERTS].wrong == {("/a", 0): (2, 1)}


def test_nothing_seen_is_not_right() -> None:
    assert not ledger_of().verdict({}).right
