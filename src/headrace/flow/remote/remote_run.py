"""A flow whose driver runs inside a cluster, as its records in the topic of runs describe it.

Rule 1: the key of a record is the flow's name and Spark's application. A second attempt of an
        application replaces the record of the first one; two applications have a record each.
Rule 2: a driver reports every few seconds. One that has not for `LOST_SECONDS` is lost: it was
        killed, or does not reach the brokers. A driver that ends says so in its last report, and
        writes a record without a value, which removes it from the list.
Rule 3: no setting of a client is in a record, no user or password of a URI, and no control
        character, which a terminal would obey.
Rule 4: a record has at most `MAX_BYTES`: without room, figures of components and the graph are left
        out.
"""

import json
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

from headrace.flow.monitoring.metrics import ComponentFigures, FlowFigures
from headrace.flow.monitoring.run_folder import Run

HEARTBEAT_SECONDS: Final = 5.0
LOST_SECONDS: Final = 30.0
MAX_BYTES: Final = 256 * 1024
LOST: Final = "lost"
_MAX_TEXT_LENGTH: Final = 1_000
_USER_IN_URI: Final = re.compile(r"(?<=://)[^/?#\s]*@")
_TEXTS: Final = ("name", "application", "instance", "host", "program", "master", "brokers")
_OPTIONAL_TEXTS: Final = ("checkpoint", "console", "deaf")
_NUMBERS: Final = ("pid", "started_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteRun:
    """One flow.

    Attributes:
        application: Spark's id of the application: YARN's `application_..._0001`, for example.
        instance: a unique id of the driver's process: its host, pid and start times.
        host, pid: where the driver runs.
        active: as of `Run`.
        deaf: why the driver receives no requests; None if it does.
        outcomes: as of `Run`, of requests that came through the topic.
        ended: whether this is the driver's last report.
        seen_ms: when its last record was appended; not part of the record.
    """

    name: str
    application: str
    instance: str
    host: str
    pid: int
    started_ms: int
    program: str
    master: str
    brokers: str
    checkpoint: str | None = None
    console: str | None = None
    active: bool = True
    deaf: str | None = None
    graph: Mapping[str, Any] = field(default_factory=dict)
    figures: FlowFigures | None = None
    outcomes: tuple[tuple[str, str | None], ...] = ()
    ended: bool = False
    seen_ms: int = 0

    @property
    def key(self) -> bytes:
        return run_key(self.name, self.application)

    def is_lost(self, now_ms: int) -> bool:
        return now_ms - self.seen_ms > LOST_SECONDS * 1_000

    def state(self, now_ms: int) -> str:
        if self.is_lost(now_ms):
            return LOST
        return "active" if self.active else "inactive"

    def to_value(self) -> bytes:
        """Return the record's value, of at most `MAX_BYTES`."""
        value = _value(self)
        if len(value) > MAX_BYTES and self.figures is not None:
            value = _value(replace(self, figures=replace(self.figures, components=())))
        if len(value) > MAX_BYTES:
            value = _value(replace(self, figures=None, graph={}))
        return value

    @classmethod
    def from_record(cls, key: bytes | None, value: bytes, seen_ms: int) -> "RemoteRun | None":
        """Return the run of a record; None if it is none of ours.

        Any client that may write to the topic can have written it, and commands print what is in
        it: a text with control characters, which a terminal would obey, makes it invalid.
        """
        if len(value) > MAX_BYTES:
            return None
        try:
            content = json.loads(value)
            _check_printable(content)
            run = cls(**_checked(content), seen_ms=seen_ms)
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        return run if run.key == key else None


def run_key(name: str, application: str) -> bytes:
    return printable(f"{application} {name}").encode()


def remote_run(
    run: Run, *, application: str, host: str, figures: FlowFigures | None = None
) -> RemoteRun:
    """Return what the driver of a run reports."""
    return RemoteRun(
        name=printable(run.name),
        application=application,
        instance=instance_of(run, host),
        host=host,
        pid=run.pid,
        started_ms=run.started_ms,
        program=public_text(run.program),
        master=public_text(run.master),
        brokers=run.brokers,
        checkpoint=None if run.checkpoint is None else public_text(run.checkpoint),
        console=None if run.console is None else public_text(run.console),
        active=run.active,
        graph=run.graph,
        figures=figures,
    )


def instance_of(run: Run, host: str) -> str:
    return f"{host}-{run.pid}-{run.started_ticks}-{run.started_ms}"


def runs_elsewhere(reported: Iterable[RemoteRun], here: Iterable[Run]) -> list[RemoteRun]:
    """Return the runs that are none of this machine's, which may report to the brokers, too."""
    known = {instance_of(each, socket.gethostname()) for each in here}
    return [each for each in reported if each.instance not in known]


def public_text(text: str) -> str:
    """Return a text as everyone may read it (rule 3), with a bounded length."""
    return _USER_IN_URI.sub("", text)[:_MAX_TEXT_LENGTH]


def printable(text: str) -> str:
    """Return a text with a space for each character that a terminal would obey, but line ends."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\n" else " " for each in text)


def _value(run: RemoteRun) -> bytes:
    content = asdict(run)
    del content["seen_ms"]
    return json.dumps(_printable(content), separators=(",", ":")).encode()


def _printable(content: Any) -> Any:
    """Return JSON whose texts are all printable."""
    if isinstance(content, str):
        return printable(content)
    if isinstance(content, Mapping):
        return {_printable(name): _printable(each) for name, each in content.items()}
    if isinstance(content, list | tuple):
        return [_printable(each) for each in content]
    return content


def _checked(content: Any) -> dict[str, Any]:
    """Return the attributes of a run.

    Raises:
        KeyError, TypeError, ValueError: one is missing or of another type.
    """
    attributes: dict[str, Any] = {name: _typed(content[name], str) for name in _TEXTS}
    attributes |= {name: _typed(content[name], int) for name in _NUMBERS}
    attributes |= {
        name: None if content[name] is None else _typed(content[name], str)
        for name in _OPTIONAL_TEXTS
    }
    figures = content["figures"]
    return attributes | {
        "active": _typed(content["active"], bool),
        "ended": _typed(content["ended"], bool),
        "graph": _typed(content["graph"], dict),
        "figures": None if figures is None else _figures(figures),
        "outcomes": tuple(
            (_typed(number, str), None if why is None else _typed(why, str))
            for number, why in content["outcomes"]
        ),
    }


def _figures(content: Any) -> FlowFigures:
    texts = {each.name: content[each.name] for each in fields(FlowFigures)}
    components = tuple(
        ComponentFigures(
            _typed(each["component"], str),
            *(_typed(each[name], int) for name in ("executed", "emitted", "failed")),
            *(_number(each[name]) for name in ("latency_ms", "capacity")),
        )
        for each in texts.pop("components")
    )
    _typed(texts["plan"], str)
    for name, number in texts.items():
        if name != "plan" and not (number is None and name in ("batch", "lag")):
            _number(number)
    return FlowFigures(**texts, components=components)


def _check_printable(content: Any) -> None:
    if isinstance(content, str):
        if not content.replace("\n", " ").isprintable():
            raise ValueError("a text has control characters")
    elif isinstance(content, dict):
        for name, each in content.items():
            _check_printable(name)
            _check_printable(each)
    elif isinstance(content, list):
        for each in content:
            _check_printable(each)


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError(f"{value!r} is no number")
    return value  # type: ignore[no-any-return]
