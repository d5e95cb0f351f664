"""Keys that are added to the file or taken out of it hold at once, without a restart."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from headrace.gateway.kinesis.access.access_keys import add_access_key
from headrace.gateway.kinesis.access.watched_keys import KeySet, WatchedKeys
from headrace.gateway.kinesis.error import ServiceError
from testkit.simulation.kinesis_memory import memory_service

BOB = "arn:aws:iam::111122223333:user/bob"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "keys.txt"
    add_access_key(path, "AKIDADA")
    add_access_key(path, "AKIDBOB", BOB)
    return path


@pytest.fixture
def keys(path: Path) -> WatchedKeys:
    made = WatchedKeys(KeySet({}, {}), path)
    made.look()
    return made


def write(path: Path, text: str) -> None:
    """Replace the file, as `key add` does."""
    scratch = path.with_suffix(".tmp")
    scratch.touch(mode=0o600)
    scratch.write_text(text)
    scratch.replace(path)


def test_a_key_that_is_added_or_removed_is_so_at_the_next_look(
    keys: WatchedKeys, path: Path
) -> None:
    assert set(keys.current.secrets or ()) == {"AKIDADA", "AKIDBOB"}
    secret = add_access_key(path, "AKIDEVE")
    keys.look()
    assert keys.current.secrets is not None and keys.current.secrets["AKIDEVE"] == secret
    assert keys.current.principals == {"AKIDBOB": BOB}

    write(path, f"AKIDEVE {secret}\n")
    keys.look()
    assert keys.current == KeySet({"AKIDEVE": secret}, {})


def test_a_change_in_place_is_seen_as_well(keys: WatchedKeys, path: Path) -> None:
    path.write_text("AKIDADA another-secret\n")
    keys.look()

    assert keys.current.secrets == {"AKIDADA": "another-secret"}


@pytest.mark.parametrize("fault", ["gone", "mode", "line", "size"])
def test_a_file_that_cannot_be_read_changes_nothing_and_is_reported_once(
    keys: WatchedKeys, path: Path, fault: str
) -> None:
    before = keys.current
    match fault:
        case "gone":
            path.unlink()
        case "mode":
            path.chmod(0o644)
        case "line":
            write(path, "AKIDADA\n")
        case _:
            write(path, "#" * (2 << 20))

    with capture_logs() as lines:
        keys.look()
        keys.look()

    assert keys.current is before
    assert [each["event"] for each in lines] == ["kinesis_keys_not_read"]
    write(path, "AKIDADA another-secret\n")
    keys.look()
    assert keys.current.secrets == {"AKIDADA": "another-secret"}


def test_a_file_without_keys_lets_no_one_in(keys: WatchedKeys, path: Path) -> None:
    write(path, "# all keys were stolen\n")
    keys.look()

    assert keys.current.secrets == {}, "not None: that would accept every signature"


def test_a_key_that_was_removed_meanwhile_is_not_the_owners(path: Path) -> None:
    service = memory_service(keys={"AKIDBOB": "secret-of-bob"}, principals={"AKIDBOB": BOB})
    assert service.principal("AKIDBOB").arn == BOB

    service.keys.current = KeySet({"AKIDADA": "secret-of-ada"}, {})

    with pytest.raises(ServiceError, match="UnrecognizedClientException"):
        service.principal("AKIDBOB")
