"""Loading classes by their names, `module:Class`, also from beside the configuration."""

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from headrace.model.error import ConfigError


def load_class(key: str, written: str, folder: Path | None) -> type[Any]:
    """Return the class that a key names.

    Spark's workers cannot import a module beside the configuration, so its classes are pickled by
    value.

    Raises:
        ConfigError: there is no such module, or no such class in it.
    """
    module_name, _, class_name = written.partition(":")
    if not module_name or not class_name:
        raise ConfigError(f"{key} is {written!r}: write it as module:Class")
    try:
        module = _import(module_name, folder)
    except ImportError as error:
        where = "" if folder is None else f" and not in {folder}"
        raise ConfigError(f"{key} is {written}, which cannot be loaded{where}: {error}") from error
    loaded = getattr(module, class_name, None)
    if not isinstance(loaded, type):
        classes = [name for name, each in vars(module).items() if _is_own(each, module)]
        raise ConfigError(
            f"{key} is {written}, but {module_name} has no class {class_name}; it has"
            f" {', '.join(classes) or 'none'}"
        )
    return loaded


def _import(name: str, folder: Path | None) -> ModuleType:
    if folder is None:
        return importlib.import_module(name)
    beside = str(folder.resolve())
    sys.path.insert(0, beside)
    try:
        module = importlib.import_module(name)
    finally:
        sys.path.remove(beside)
    file = getattr(module, "__file__", None)
    if file is not None and Path(file).resolve().is_relative_to(beside):
        from pyspark import cloudpickle

        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return module


def _is_own(value: Any, module: ModuleType) -> bool:
    return isinstance(value, type) and value.__module__ == module.__name__
