from headrace.demo.scoreboard import ANSWERS, Scoreboard
from headrace.demo.topic import ALERTS, COUNTRIES, COUNTS

NOWHERE = "127.0.0.1:1"


def test_the_newest_answer_wins() -> None:
    board = Scoreboard(address=NOWHERE)

    board._take(COUNTRIES, {"country": "FR", "views": 3})
    board._take(COUNTRIES, {"country": "FR", "views": 5})

    assert board.totals(COUNTRIES) == {"FR": 5}
    board.stop()


def test_what_is_told_once_is_counted() -> None:
    board = Scoreboard(address=NOWHERE)

    for _ in range(2):
        board._take(ALERTS, {"page": "/", "start_ms": 10, "failures": 10})

    assert board.answers()[ALERTS] == {("/", 10): 2}
    board.stop()


def test_one_window_alone_can_be_asked_for() -> None:
    board = Scoreboard(address=NOWHERE)
    for start, views in ((0, 1), (5, 2)):
        board._take(COUNTS, {"page": "/", "window_start_ms": start, "views": views})

    assert board.totals(COUNTS, 5) == {"/": 2}
    assert board.starts(COUNTS) == {0, 5}
    assert set(board.answers()) == set(ANSWERS)
    board.stop()
