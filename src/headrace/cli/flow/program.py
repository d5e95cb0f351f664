"""Loads a program for `headrace flow run`: Python, module:name, Flux or Samza properties."""

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from headrace.flow.error import FlowError
from headrace.flow.execution.failure import failure_of
from headrace.flow.plan.client_option import (
    is_security_key,
    with_login,
    with_settings_of_user,
)
from headrace.flow.plan.plan import Plan
from headrace.flow.plan.setting import is_setting, is_storms, nearest_setting
from headrace.model.error import ConfigError, HeadraceError

DEFAULT_NAME = "topology"
_INSTALLED = ("headrace", "pyspark_headrace", "pyspark_headrace_kinesis", "__main__")
_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(slots=True)
class ProgramArguments:
    """What the command line passes to a program: the brokers, and `-X key=value` pairs.

    A pair is a setting of the plan (`headrace.flow.plan.setting`), or an argument of the
    program: a parameter of its function, a `${name}` of its file.

    Attributes:
        used: the arguments that the program has; any other pair is a mistake.
        login: `kafka.*` settings of this user, where neither program nor pairs have any.
    """

    brokers: str
    pairs: Mapping[str, str]
    create_topics: bool = False
    login: Mapping[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    @property
    def settings(self) -> dict[str, str]:
        return {key: value for key, value in self.pairs.items() if is_setting(key)}

    def settings_over(self, own: Mapping[str, str]) -> dict[str, str]:
        """Return the settings of a program, with those of the command line over its own.

        A program that logs in by itself gets nothing of the user's login: it may be for another
        cluster, which must not be sent this password.
        """
        secured = any(is_security_key(key) for key in own)
        login = {
            key: text for key, text in self.login.items() if not (secured and is_security_key(key))
        }
        return {**login, **own, **self.settings}

    def check_used(self, program: str) -> None:
        for key in self.pairs:
            if not is_setting(key) and not is_storms(key) and key not in self.used:
                near = nearest_setting(key, self.used)
                instead = f"did you mean {near}?" if near else "it has no such argument"
                raise ConfigError(f"-X {key} means nothing to {program}: {instead}")


@dataclass(frozen=True, slots=True)
class LoadedProgram:
    """A program that can run.

    Attributes:
        begin: starts a program that starts itself, with a session, `checkpoint`, `trigger` and
            `metrics`.
        brokers: the brokers it writes to, if the program names them.
    """

    plan: Plan
    begin: Callable[..., Any] | None = None
    brokers: str | None = None


def load_program(target: str, given: ProgramArguments) -> LoadedProgram:
    """Load a program, and give it the settings of the command line.

    Raises:
        ConfigError: the program does not exist, or an argument is missing.
        FlowError: the program raised an error.
    """
    try:
        program = _load(target, given)
    except HeadraceError:
        raise
    except Exception as error:
        failure = failure_of("".join(traceback.format_exception(error)))
        raise FlowError(failure.sentence(target)) from error
    given.check_used(target)
    return replace(program, plan=with_login(_with_settings(program, given)))


def _with_settings(program: LoadedProgram, given: ProgramArguments) -> Plan:
    """Return the plan with the settings of the command line and of this user."""
    own = program.plan.settings
    if program.brokers is not None:  # it has the user's login already, where it may
        return replace(program.plan, settings={**own, **given.settings})
    settings = given.settings_over(own)
    nearer = {key: text for key, text in settings.items() if key in own or key in given.settings}
    return with_settings_of_user(replace(program.plan, settings=nearer), settings, given.brokers)


def _load(target: str, given: ProgramArguments) -> LoadedProgram:
    path = Path(target)
    if path.suffix in (".yaml", ".yml"):
        program = LoadedProgram(_flux(path, given))
    elif path.suffix == ".properties":
        program = _samza(path, given)
    else:
        where, name = _split(target)
        path = Path(where)
        module = _module_of_file(path) if path.suffix == ".py" else _module(where)
        program = LoadedProgram(_plan(_named(module, name, target), target, given))
    _pickle_by_value(path.resolve().parent)
    return program


def _split(target: str) -> tuple[str, str | None]:
    where, colon, name = target.rpartition(":")
    if not colon:
        if not target.endswith(".py"):
            raise ConfigError(
                f"{target!r} cannot be run: write FILE.py, FILE.yaml, FILE.properties or"
                " module:name"
            )
        return target, None
    return where, name


def _flux(path: Path, given: ProgramArguments) -> Plan:
    from headrace.flow.flux.document import ENVIRONMENT
    from headrace.flow.flux.topology_file import read_topology

    _import_from(path.resolve().parent)
    values = {f"{ENVIRONMENT}{name}": value for name, value in os.environ.items()}
    values |= {"brokers": given.brokers, **given.pairs}
    return read_topology(path, values, given.used).plan()


def _samza(path: Path, given: ProgramArguments) -> LoadedProgram:
    from headrace.flow.samza.job import SamzaJob, load

    _import_from(path.resolve().parent)
    config = load(path).config
    job = SamzaJob(replace(config, settings={**config.settings, **given.settings}))
    if given.create_topics:
        # Before the plan: the number of tasks follows from the partitions of the inputs.
        job.create_inputs()
    return LoadedProgram(job.plan(), job.start, job.brokers)


def _module_of_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"there is no file {path}")
    _import_from(path.resolve().parent)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _module(name: str) -> ModuleType:
    _import_from(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise ConfigError(
            f"there is no module {name}, neither installed nor in {Path.cwd()}"
        ) from None


def _import_from(folder: Path) -> None:
    """Let a program import modules of its folder, here and in Spark's workers on this machine."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(folder) not in known:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), *known]))


def _pickle_by_value(folder: Path) -> None:
    """Send the modules of the program's folder to workers by value: other machines do not have
    these files. Installed packages are sent by name."""
    from pyspark import cloudpickle

    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not file or "site-packages" in file or name.partition(".")[0] in _INSTALLED:
            continue
        if Path(file).is_relative_to(folder):
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _named(module: ModuleType, name: str | None, target: str) -> Any:
    if name is not None:
        value: Any = module
        for each in name.split("."):
            if not hasattr(value, each):
                raise ConfigError(f"{target}: {module.__name__} has no {name}")
            value = getattr(value, each)
        return value
    if hasattr(module, DEFAULT_NAME):
        return getattr(module, DEFAULT_NAME)
    names = [key for key, each in vars(module).items() if _has_plan(each)]
    if len(names) == 1:
        return getattr(module, names[0])
    there = f"it has {', '.join(names)}" if names else "it has none"
    raise ConfigError(
        f"{target} does not say which topology to run ({there}): call it {DEFAULT_NAME}, or write"
        f" {target}:name"
    )


def _has_plan(value: Any) -> bool:
    return isinstance(value, Plan) or (
        not isinstance(value, type) and callable(getattr(value, "plan", None))
    )


def _plan(value: Any, target: str, given: ProgramArguments) -> Plan:
    if not _has_plan(value) and callable(value):
        value = value(**_arguments(value, target, given))
    if isinstance(value, Plan):
        return value
    if not _has_plan(value):
        raise ConfigError(
            f"{target} is a {type(value).__name__}: give a topology, or a function that returns one"
        )
    plan: Plan = value.plan()
    return plan


def _arguments(
    function: Callable[..., Any], target: str, given: ProgramArguments
) -> dict[str, Any]:
    """Return the arguments of a function, by the names of its parameters."""
    texts = {"brokers": given.brokers, **given.pairs}
    arguments = {}
    for name, parameter in inspect.signature(function).parameters.items():
        keys = (name, name.replace("_", "-"), name.replace("_", "."))
        given.used.update(keys[:1])
        key = next((each for each in keys if each in texts), None)
        if key is not None:
            given.used.add(key)
            arguments[name] = _typed(texts[key], parameter.annotation, key)
        elif parameter.default is inspect.Parameter.empty:
            raise ConfigError(f"{target} needs {name}: give it with -X {name}=...")
    return arguments


def _typed(text: str, annotation: Any, key: str) -> Any:
    kind = {"int": int, "float": float, "bool": bool, "Path": Path}.get(annotation, annotation)
    try:
        if kind is bool:
            return _BOOLEANS[text.lower()]
        return kind(text) if kind in (int, float, Path) else text
    except (ValueError, KeyError):
        raise ConfigError(f"-X {key} cannot be {text!r}: it is a {kind.__name__}") from None
