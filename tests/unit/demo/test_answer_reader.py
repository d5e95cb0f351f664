from headrace.demo.answer_reader import ANSWERS, AnswerReader
from headrace.demo.topic import ALERTS, COUNTRIES, COUNTS

NOWHERE = "127.0.0.1:1"


def test_the_newest_answer_wins() -> None:
    reader = AnswerReader(address=NOWHERE)

    reader._add(COUNTRIES, {"country": "FR", "views": 3})
    reader._add(COUNTRIES, {"country": "FR", "views": 5})

    assert reader.totals(COUNTRIES) == {"FR": 5}
    reader.stop()


def test_records_without_a_number_are_counted() -> None:
    reader = AnswerReader(address=NOWHERE)

    for _ in range(2):
        reader._add(ALERTS, {"page": "/", "start_ms": 10, "failures": 10})

    assert reader.answers()[ALERTS] == {("/", 10): 2}
    reader.stop()


def test_one_window_alone_can_be_asked_for() -> None:
    reader = AnswerReader(address=NOWHERE)
    for start, views in ((0, 1), (5, 2)):
        reader._add(COUNTS, {"page": "/", "window_start_ms": start, "views": views})

    assert reader.totals(COUNTS, 5) == {"/": 2}
    assert reader.starts(COUNTS) == {0, 5}
    assert set(reader.answers()) == set(ANSWERS)
    reader.stop()
