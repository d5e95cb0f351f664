from headrace.demo.expected_answers import LANDED, ExpectedAnswers, landed_answer
from headrace.demo.page_view import PageView
from headrace.demo.profile import country_of
from headrace.demo.rolling_window import RollingWindow
from headrace.demo.topic import ALERTS, COUNTRIES, COUNTS, MINUTES

HOME = country_of("ada")


def expected_from(*views: tuple[str, int], status: int = 200) -> ExpectedAnswers:
    window = RollingWindow(length_ms=10_000, slide_ms=5_000)
    expected = ExpectedAnswers(window, alert_ms=10_000, alert_failures=2)
    expected.add(PageView(page, "ada", at_ms, status) for page, at_ms in views)
    return expected


def test_right_answers_are_right() -> None:
    expected = expected_from(("/", 6_000), ("/", 61_000))

    result = expected.compare(
        {
            COUNTS: {("/", 0): 1, ("/", 5_000): 1, ("/", 55_000): 1, ("/", 60_000): 1},
            MINUTES: {("/", 0): 1, ("/", 60_000): 1},
            COUNTRIES: {(HOME,): 2},
            LANDED: landed_answer(2),
        }
    )

    assert result.right
    assert (result.views, result.checks[COUNTS].answers) == (2, 4)


def test_an_answer_that_is_missing_is_wrong() -> None:
    result = expected_from(("/", 6_000)).compare({COUNTS: {("/", 5_000): 1}})

    assert result.checks[COUNTS].wrong == {("/", 0): (0, 1)}
    assert result.checks[MINUTES].wrong == {("/", 0): (0, 1)}
    assert not result.right


def test_an_answer_that_is_too_high_is_wrong() -> None:
    result = expected_from(("/", 6_000)).compare({COUNTRIES: {(HOME,): 2}})

    assert result.checks[COUNTRIES].wrong == {(HOME,): (2, 1)}


def test_an_answer_about_an_unknown_page_is_wrong() -> None:
    result = expected_from(("/", 6_000)).compare({MINUTES: {("/", 0): 1, ("/x", 0): 1}})

    assert result.checks[MINUTES].wrong == {("/x", 0): (1, 0)}


def test_a_page_that_keeps_failing_gets_one_alert() -> None:
    expected = expected_from(
        ("/a", 1_000), ("/a", 9_000), ("/a", 11_000), ("/b", 1_000), status=500
    )

    assert expected.compare({}).checks[ALERTS].wrong == {("/a", 0): (0, 1)}
    assert expected.compare({ALERTS: {("/a", 0): 2}}).checks[ALERTS].wrong == {("/a", 0): (2, 1)}


def test_nothing_seen_is_not_right() -> None:
    assert not expected_from().compare({}).right
