"""Single values of a recording: what a cell says, and cells as an array."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["as_array", "objects", "told", "whole"]


def whole(value: Any) -> Any:
    """A float without a fraction as the int it stands for; anything else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def told(value: Any) -> Any:
    """What the cell of a time or a number says: an int if it is one, None if it is empty."""
    if not isinstance(value, str):
        return whole(value)
    text = value.strip()
    if "_" in text:
        return text
    try:
        return int(text, 16 if text[:2].lower() == "0x" else 10)  # arrow takes hex for an int too
    except ValueError:
        pass
    try:
        number = Decimal(text)  # a float would lose digits
        return int(number) if abs(number) < 10**30 and number == int(number) else text
    except (InvalidOperation, ValueError):
        return text or None


def as_array(values: list[Any]) -> npt.NDArray[Any]:
    """Values as an array that gives equal values back: of numbers if it can, else of objects."""
    kinds = set(map(type, values))
    if kinds == {bool}:
        return np.array(values, dtype=np.bool_)
    if kinds == {int} and max(values) < 2**63 and min(values) >= -(2**63):
        return np.array(values, dtype=np.int64)
    if kinds <= {int, float} and all(type(v) is float or abs(v) <= 2**53 for v in values):
        return np.array(values, dtype=np.float64)
    return objects(values)


def objects(values: list[Any]) -> npt.NDArray[Any]:
    return np.fromiter(values, dtype=object, count=len(values))
