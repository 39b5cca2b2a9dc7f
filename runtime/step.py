"""A step: a stretch of arrivals on one host, and what cells exchange along it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slackline.events import IntArray
from slackline.tape import Rows

__all__ = ["Along", "Arrived", "Step"]


@dataclass(frozen=True, slots=True)
class Step:
    """The clock updates of a stretch: ``clk[j - 1]`` stands after update ``before + j``."""

    before: int
    clk_before: int
    clk: IntArray
    sure: IntArray | None = None
    """Before and after each update: the clock, but not ahead of the times really seen, nor of what
    the hosts where sources enter had seen when they last spoke. Finality rests on it. None: clk."""
    sure_now: int | None = None

    @property
    def last(self) -> int:
        return self.before + len(self.clk)

    @property
    def clk_now(self) -> int:
        return int(self.clk[-1]) if len(self.clk) else self.clk_before

    def clk_at(self, update: int) -> int:
        place = min(update, self.last) - self.before
        return int(self.clk[place - 1]) if place > 0 else self.clk_before

    @property
    def clocks(self) -> IntArray:
        """The clock before and after each update."""
        clocks = np.empty(len(self.clk) + 1, dtype=np.int64)
        clocks[0] = self.clk_before
        clocks[1:] = self.clk
        return clocks


@dataclass(frozen=True, slots=True)
class Along:
    """A value that changes along a step: before and after each update, and at its very end.

    From a cell of another host only the end is known: ``values`` is None.
    """

    values: IntArray | None
    now: int


@dataclass(frozen=True, slots=True)
class Arrived:
    """New rows of one source type in a step, and the delays measured in it.

    ``at`` (ascending, from 0) is the update that measured each of ``delays``; a row that
    arrives after the last update of a step is measured in the next one.
    """

    rows: Rows
    """In total order."""
    as_they_came: Rows
    index: IntArray
    """The place among all arrivals of each row as it came."""
    at: IntArray
    delays: IntArray
