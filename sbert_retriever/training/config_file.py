"""A training run as a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from sbert_retriever.errors import InputError, ReadError, SbertError
from sbert_retriever.training.config import TrainConfig, TrainStep
from sbert_retriever.training.data import TrainData
from sbert_retriever.training.dev import TrainDev
from sbert_retriever.training.objectives.registry import read_objective


def read_config(path: str | Path) -> TrainConfig:
    """Read a training run from a TOML file.

    Raises:
        ReadError: There is no such file.
        InputError: It is no TOML, or a setting is unknown or out of range.
    """
    file = Path(path).expanduser()
    try:
        given = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ReadError(f"{file} cannot be read ({error.strerror}): name a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{file} is no TOML: {error}") from error
    try:
        return config_from(given)
    except (InputError, TypeError) as error:
        raise InputError(f"{file}: {error}") from error


def config_from(given: Mapping[str, Any]) -> TrainConfig:
    """A training run from what a TOML file holds.

    Raises:
        InputError: A setting is unknown, missing or out of range.

    Examples:
        >>> data = {"kind": "sts", "files": ["train.csv"]}
        >>> step = {"objective": "regression", "data": [data]}
        >>> config_from({"model": "all-MiniLM-L6-v2", "steps": [step]}).steps[0].objective
        Regression()
    """
    settings = dict(given)
    steps = tuple(_step(step) for step in _tables(settings.pop("steps", ()), "steps"))
    if "dev" in settings:
        settings["dev"] = _dev(settings["dev"])
    made: TrainConfig = _made(TrainConfig, {**settings, "steps": steps}, "the configuration")
    return made


def _dev(given: Any) -> TrainDev:
    """The development set: the settings of its data stand beside its own."""
    if not isinstance(given, Mapping):
        raise InputError(f"dev is {given!r:.60}, expected a table: write [dev]")
    own = {field.name for field in fields(TrainDev)} - {"data"}
    data = _made(TrainData, {k: v for k, v in given.items() if k not in own}, "dev")
    settings = {key: value for key, value in given.items() if key in own}
    made: TrainDev = _made(TrainDev, {**settings, "data": data}, "dev")
    return made


def _step(given: Mapping[str, Any]) -> TrainStep:
    settings = dict(given)
    name = settings.get("name", "train")
    data = tuple(
        _made(TrainData, table, f"the data of step {name!r}")
        for table in _tables(settings.pop("data", ()), f"the data of step {name!r}")
    )
    if "objective" not in settings:
        raise InputError(f"step {name!r} has no objective: name one")
    objective = read_objective(settings.pop("objective"))
    settings |= {"objective": objective, "data": data}
    made: TrainStep = _made(TrainStep, settings, f"step {name!r}")
    return made


def _tables(given: Any, what: str) -> list[Mapping[str, Any]]:
    tables = [given] if isinstance(given, Mapping) else list(given)
    if not all(isinstance(table, Mapping) for table in tables):
        raise InputError(f"{what} is {given!r:.60}, expected tables")
    return tables


def _made(kind: Any, settings: Mapping[str, Any], what: str) -> Any:
    """A dataclass from settings, its lists as tuples."""
    known = {field.name: field for field in fields(kind)}
    if unknown := [key for key in settings if key not in known]:
        raise InputError(f"{what} has a setting {unknown[0]!r}, expected {', '.join(known)}")
    values = {key: tuple(v) if isinstance(v, list) else v for key, v in settings.items()}
    try:
        return kind(**values)
    except SbertError:
        raise
    except TypeError as error:
        missing = [n for n in ("model", "kind") if n in known and n not in settings]
        reason = f"no {missing[0]}" if missing else f"a value of another type ({error})"
        raise InputError(f"{what} has {reason}") from error
