"""The files of channels in S3, by a server that speaks it."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.fs
import pytest

from headrace.gateway.kinesis.landing.destination import Destination
from testkit.peer.peer import require_peer


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The parameters of a URI."""
    try:
        from moto.server import ThreadedMotoServer
    except ImportError:
        require_peer("moto is not installed: pip install 'headrace[dev]'")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ACCESS_KEY_ID", "any-user")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "anything")
        environment.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield f"endpoint_override={host}:{port}&scheme=http&region=us-east-1"
    server.stop()


@pytest.mark.parametrize("place", ["s3://", "s3://store", "s3://store/landing"])
def test_objects_are_complete_under_their_names(s3: str, place: str) -> None:
    files, _ = pa.fs.FileSystem.from_uri(f"s3://?{s3}&allow_bucket_creation=true")
    for bucket in ("lake", "store"):
        files.create_dir(bucket)
    destination = Destination(f"{place}?{s3}")
    path = "lake/a=1/one.parquet"

    destination.check("lake")
    destination.remove_partial(path, 1)
    assert not destination.has(path)
    for content in (b"first", b"second"):
        destination.write(path, pa.py_buffer(content), 2)

    assert destination.has(path)
    root = place.removeprefix("s3://")
    found = f"{root}/{path}" if root else path
    with files.open_input_stream(found) as stream:
        assert stream.read() == b"first"  # what has the name is complete
    selector = pa.fs.FileSelector(root or "lake", recursive=True)
    names = [each.path for each in files.get_file_info(selector)]
    assert not any(each.endswith(".tmp") for each in names)


def test_a_bucket_that_does_not_exist_is_refused(s3: str) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        Destination(f"s3://?{s3}").check("missing")
