from headrace.demo.ledger import Ledger
from headrace.demo.page_view import PageView
from headrace.demo.rolling_window import RollingWindow


def ledger_of(*views: tuple[str, int]) -> Ledger:
    ledger = Ledger(RollingWindow(length_ms=10_000, slide_ms=5_000))
    ledger.add(PageView(page, "ada", at_ms, 200) for page, at_ms in views)
    return ledger


def test_right_counts_are_right() -> None:
    ledger = ledger_of(("/", 6_000), ("/", 11_000))

    verdict = ledger.verdict({("/", 0): 1, ("/", 5_000): 2, ("/", 10_000): 1})

    assert verdict.right
    assert (verdict.views, verdict.windows) == (2, 3)


def test_a_count_that_is_missing_is_wrong() -> None:
    verdict = ledger_of(("/", 6_000)).verdict({("/", 5_000): 1})

    assert verdict.wrong == {("/", 0): (0, 1)}


def test_a_count_that_is_too_high_is_wrong() -> None:
    verdict = ledger_of(("/", 6_000)).verdict({("/", 0): 2, ("/", 5_000): 1})

    assert verdict.wrong == {("/", 0): (2, 1)}


def test_a_count_of_a_page_nobody_saw_is_wrong() -> None:
    verdict = ledger_of(("/", 6_000)).verdict({("/", 0): 1, ("/", 5_000): 1, ("/x", 0): 1})

    assert verdict.wrong == {("/x", 0): (1, 0)}


def test_nothing_seen_is_not_right() -> None:
    assert not ledger_of().verdict({}).right
