"""Unit tests run without Ray."""

import importlib
import importlib.util
from functools import cache
from typing import Any, NoReturn

import pytest


@cache
def ray_is_installed() -> bool:
    return importlib.util.find_spec("ray") is not None


def refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError("A unit test must not start Ray: move it to tests/integration.")


@pytest.fixture(autouse=True)
def ray_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    if ray_is_installed():
        monkeypatch.setattr(importlib.import_module("ray"), "init", refuse)
