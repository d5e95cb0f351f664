"""`headrace up --with kinesis,console`: services beside a broker, and their end with it."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

from headrace.process.die_with_parent import die_with_parent
from headrace.testing.readiness import wait_until
from testkit.process.kinesis_client import create_stream, kinesis_client, read_stream

_KINESIS = re.compile(r"kinesis \| The Kinesis API is at (http://\S+)")
_CONSOLE = re.compile(r"console \| The console is at (http://\S+)")


def is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def children_of(pid: int) -> list[int]:
    text = subprocess.run(
        ["ps", "--ppid", str(pid), "-o", "pid="], capture_output=True, text=True, check=False
    ).stdout
    return [int(each) for each in text.split()]


def test_services_start_with_the_broker_start_again_and_stop_with_it(tmp_path: Path) -> None:
    output = tmp_path / "output"
    with output.open("wb") as out:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "headrace.cli.main", "up", "--with", "kinesis,console"),
                *("--listen", "127.0.0.1:0", "--data", str(tmp_path / "data")),
                *("-X", "kinesis.listeners=127.0.0.1:0", "-X", "console.listeners=127.0.0.1:0"),
                *("-X", "offsets.topic.replication.factor=1"),
            ],
            stdout=out,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent,
        )

    def wait_for(pattern: re.Pattern[str], count: int = 1) -> str:
        wait_until(
            lambda: len(pattern.findall(output.read_text())) >= count or process.poll() is not None,
            what=pattern.pattern,
            timeout_seconds=120,
        )
        text: str = pattern.findall(output.read_text())[count - 1]
        return text

    try:
        client = kinesis_client(wait_for(_KINESIS))
        create_stream(client, "clicks")
        client.put_record(StreamName="clicks", Data=b"x", PartitionKey="k")
        with urlopen(wait_for(_CONSOLE), timeout=60) as page:
            assert page.status == 200

        [gateway] = [
            each
            for each in children_of(process.pid)
            if b"kinesis" in Path(f"/proc/{each}/cmdline").read_bytes()
        ]
        os.kill(gateway, signal.SIGKILL)
        again = kinesis_client(wait_for(_KINESIS, 2))
        assert [each["Data"] for each in read_stream(again, "clicks")] == [b"x"]

        children = children_of(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(90) == 0, output.read_text()
    finally:
        process.kill()
        process.wait()

    text = output.read_text()
    assert "kinesis ended with -9" in text
    assert "kinesis | Stopped." in text and "console | Stopped." in text
    assert text.rstrip().endswith("Stopped.")
    assert "Traceback" not in text
    assert children and not any(map(is_alive, children))
