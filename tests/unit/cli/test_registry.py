"""`headrace registry`: what it refuses before it asks a cluster."""

from pathlib import Path

from testkit.process.command_line import run_headrace


def test_a_user_without_rights_is_refused_and_not_written(tmp_path: Path) -> None:
    users = tmp_path / "users.txt"

    done = run_headrace("registry", "user", "add", "ann", "--users", str(users))

    assert done.code == 2
    assert "name subjects with --read or --write; --write '*' allows everything" in done.err
    assert not users.exists()


def test_a_user_who_may_do_everything_is_named_as_such(tmp_path: Path) -> None:
    users = tmp_path / "users.txt"

    done = run_headrace("registry", "user", "add", "ann", "--users", str(users), "--write", "*")

    assert done.code == 0
    assert done.out.startswith("ann:")
    assert "write:*" in users.read_text()


def test_a_session_that_no_broker_grants_is_wrong_usage() -> None:
    done = run_headrace("registry", "--session-timeout-ms", "5999")
    assert done.code == 2
    assert "6000" in done.err
