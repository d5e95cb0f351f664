"""A Singer tap and a Singer target as small programs, for tests that run them as processes.

As a tap: `python singer_program.py tap --config FILE [--state FILE]`. The configuration is JSON:
`rows` says how many records, `state_every` after how many of them a STATE comes; `die_at`,
`hang_at` and `garbage_at` say at which record it misbehaves, once if `marker` names a file that
then exists; `shuffled` lets every run have other records after the state.

As a target: `python singer_program.py target --config FILE`. It appends records to `output` and
echoes a STATE at once, or at its end with `late`; `die_at` ends it after so many records, once.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=("tap", "target"))
    parser.add_argument("--config", required=True)
    parser.add_argument("--state")
    parser.add_argument("--catalog")
    arguments = parser.parse_args()
    config = json.loads(Path(arguments.config).read_text())
    if arguments.kind == "target":
        return target(config)
    return tap(config, json.loads(Path(arguments.state).read_text()) if arguments.state else {})


def write(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def misbehaves(config: dict[str, Any], what: str, number: int) -> bool:
    if config.get(what) != number:
        return False
    marker = config.get("marker")
    if marker is None:
        return True
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def tap(config: dict[str, Any], state: dict[str, Any]) -> int:
    print("the tap begins", file=sys.stderr)
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    write({"type": "SCHEMA", "stream": "orders", "schema": schema, "key_properties": ["id"]})
    for number in range(state.get("next", 0), config["rows"]):
        if misbehaves(config, "die_at", number):
            print("out of luck", file=sys.stderr)
            return 3
        if misbehaves(config, "hang_at", number):
            time.sleep(3600)
        if misbehaves(config, "garbage_at", number):
            sys.stdout.write("not a message\n")
        record: dict[str, Any] = {"id": number, "name": "ä"}
        if config.get("shuffled"):
            record["run"] = time.time_ns()
        write(
            {
                "type": "RECORD",
                "stream": "orders",
                "record": record,
                "time_extracted": "2026-01-02T03:04:05Z",
                "version": 7,
            }
        )
        if (number + 1) % config.get("state_every", 10) == 0:
            write({"type": "STATE", "value": {"next": number + 1}})
        time.sleep(config.get("pause", 0))
    if config.get("state_at_end", True):
        write({"type": "STATE", "value": {"next": config["rows"]}})
    return 0


def target(config: dict[str, Any]) -> int:
    count, last = 0, None
    with Path(config["output"]).open("a") as output:
        for line in sys.stdin:
            message = json.loads(line)
            if message["type"] == "STATE":
                last = message["value"]
                output.flush()
                if not config.get("late"):
                    print(json.dumps(last), flush=True)
                continue
            output.write(line)
            count += message["type"] == "RECORD"
            if count and misbehaves(config, "die_at", count):
                print("the disk is full", file=sys.stderr)
                return 4
    if config.get("late") and not config.get("silent"):
        print(json.dumps(last), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
