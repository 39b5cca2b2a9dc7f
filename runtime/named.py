"""What the user names on the command line: a hierarchy, an ordering, a configuration."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

from slackline.cell import Start
from slackline.errors import UserError
from slackline.hierarchy import Hierarchy
from slackline.initialise import Configuration
from slackline.policy import Ordering

__all__ = ["named_hierarchy", "named_ordering", "named_starts"]


def named_hierarchy(target: str) -> Hierarchy:
    """The hierarchy that MODULE:HIERARCHY names."""
    module_name, _, name = target.rpartition(":")
    if not module_name or not name:
        raise UserError(
            f"{target!r} names no hierarchy: give MODULE:HIERARCHY, such as detectors.py:hierarchy"
        )
    module = _users(f"cannot import {module_name}", lambda: _module(module_name))
    if not hasattr(module, name):
        there = [key for key, value in vars(module).items() if isinstance(value, Hierarchy)]
        raise UserError(f"{module_name} has no {name!r}; its hierarchies are {there or 'none'}")
    found = getattr(module, name)
    if callable(found) and not isinstance(found, Hierarchy):
        found = _users(f"{target}() failed", found)
    if not isinstance(found, Hierarchy):
        raise UserError(
            f"{target} is of type {type(found).__name__}; it must be a Hierarchy, or a "
            "function without arguments that returns one"
        )
    found.check()
    return found


def named_ordering(text: str | None) -> Ordering | None:
    """The policy that a text such as ``kslack:k=20,margin=0.5`` or ``KSlack(k=20)`` names."""
    if text is None:
        return None
    policies = {kind.__name__.lower(): kind for kind in get_args(Ordering)}
    form = re.fullmatch(r"\s*(\w+)\s*(?::(.*)|\((.*)\))?\s*", text)
    if form is None or form[1].lower() not in policies:
        raise UserError(f"--ordering {text}: expected one of {', '.join(policies)}")
    kind = policies[form[1].lower()]
    known = list(inspect.signature(kind).parameters)
    settings: dict[str, Any] = {}
    for part in filter(None, re.split(r"\s*,\s*", (form[2] or form[3] or "").strip())):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or name not in known:
            raise UserError(
                f"--ordering {text}: {part!r} is no setting of {form[1]}; write NAME=VALUE with "
                f"one of {', '.join(known) or 'none'}"
            )
        try:
            settings[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            settings[name] = value  # on-demand and the like; the policy says what it takes
    made: Ordering = kind(**settings)
    return made


def named_starts(path: str | None, hierarchy: Hierarchy) -> dict[str, Start] | None:
    """What a configuration file knows of the detectors."""
    if path is None:
        return None
    configuration = Configuration.load(path)
    configuration.check(hierarchy)
    return configuration.starts()


def _module(name: str) -> ModuleType:
    """Import a module by its import path, from this folder too, or by its file."""
    if not name.endswith(".py"):
        sys.path.insert(0, os.getcwd())
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            raise UserError(
                f"there is no module {error.name}; give an import path that works from this "
                "folder, or a path to a .py file"
            ) from None
    path = Path(name).resolve()
    if not path.is_file():
        raise UserError(f"no such file: {name}; give a path to a .py file or an import path")
    sys.path.insert(0, str(path.parent))
    known_as = path.stem if path.stem not in sys.modules else f"{path.stem} at {path.parent}"
    spec = importlib.util.spec_from_file_location(known_as, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[known_as] = module  # detectors are saved and restored by the name of their module
    spec.loader.exec_module(module)
    return module


def _users(what: str, call: Callable[[], Any]) -> Any:
    """Call the user's code; what it raises is the user's mistake, with the line it comes from."""
    try:
        return call()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        where = _line_of(error)
        if isinstance(error, UserError) and where is None:
            raise
        said = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        raise UserError(f"{what}: {where + ': ' if where else ''}{said}") from error


def _line_of(error: BaseException) -> str | None:
    """The last line of the user's own code that an exception went through."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    ours = str(Path(__file__).parent) + os.sep
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<frozen", ours))
    ]
    libraries = tuple(sysconfig.get_paths()[name] + os.sep for name in ("stdlib", "purelib"))
    own = [frame for frame in frames if not frame.filename.startswith(libraries)]
    if not frames:
        return None
    last = (own or frames)[-1]
    return f"{last.filename}, line {last.lineno}"
