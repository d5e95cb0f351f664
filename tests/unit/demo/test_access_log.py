from pathlib import Path

from headrace.demo.access_log import AccessLog
from headrace.demo.page_view import PageView

VIEW = PageView("/home", "ada", 1_000, 200)


def test_every_view_is_a_line(tmp_path: Path) -> None:
    with AccessLog(tmp_path / "site") as log:
        log.write([VIEW, VIEW])

        lines = log.path.read_text().splitlines()

    assert lines == [VIEW.to_log_line()] * 2


def test_a_full_file_is_renamed_and_a_new_one_begun(tmp_path: Path) -> None:
    with AccessLog(tmp_path, rotate_bytes=100) as log:
        log.write([VIEW, VIEW])
        log.write([VIEW])

    assert log.path.with_suffix(".log.1").read_text().count("\n") == 2
    assert log.path.read_text().count("\n") == 1
