"""Which sequence numbers have come: tells a repeated event from a late one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from slackline.events import IntArray

__all__ = ["Gaps"]

GAPS_MAX = 1 << 16
"""Numbers remembered per publisher, missing or after a jump come; older ones are taken for new."""


class Gaps:
    """Per publisher: the highest number seen and the numbers below it still missing."""

    def __init__(self) -> None:
        self._high = np.zeros(0, dtype=np.int64)
        self._missing: dict[int, IntArray] = {}
        self._known_from: dict[int, int] = {}
        self._lately: dict[int, IntArray] = {}

    def fresh(self, codes: npt.NDArray[np.int32], seq: IntArray) -> npt.NDArray[np.bool_] | None:
        """Mark the rows that were not seen before, and remember them; None when all are new."""
        top = int(codes.max()) + 1
        if top > len(self._high):
            grown = np.full(top - len(self._high), -1, dtype=np.int64)
            self._high = np.concatenate([self._high, grown])
        single = not (codes != codes[0]).any()
        order = None if single else np.argsort(codes, kind="stable")
        numbers, owners = (seq, codes) if order is None else (seq[order], codes[order])
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        before = np.empty_like(numbers)
        before[1:] = numbers[:-1]
        before[starts] = self._high[owners[starts]]
        if (numbers == before + 1).all():
            ends = np.append(starts[1:], len(numbers)) - 1
            self._high[owners[ends]] = numbers[ends]
            return None
        mask = np.empty(len(seq), dtype=bool)
        for begin, end in zip(starts, np.append(starts[1:], len(numbers)), strict=True):
            mask[begin:end] = self._fresh_of(int(owners[begin]), numbers[begin:end])
        if mask.all():
            return None
        if order is None:
            return mask
        result = np.empty_like(mask)
        result[order] = mask
        return result

    def missing(self, code: int) -> int:
        """How many numbers from 1 to the highest have not come."""
        return int(np.count_nonzero(self._missing.get(code, np.zeros(0)) > 0))

    def _fresh_of(self, code: int, seq: IntArray) -> npt.NDArray[np.bool_]:
        numbers, first = np.unique(seq, return_index=True)
        high = int(self._high[code])
        missing = self._missing.get(code, np.zeros(0, dtype=np.int64))
        split = int(np.searchsorted(numbers, high, side="right"))
        below, above = numbers[:split], numbers[split:]
        known_from = self._known_from.get(code, 0)
        new_below = np.isin(below, missing)
        unclear = below < known_from
        if unclear.any():
            new_below |= unclear & ~np.isin(below, self._lately.get(code, missing[:0]))
        if len(below):
            missing = np.setdiff1d(missing, below, assume_unique=True)
        if len(above):
            top = int(above[-1])
            base = max(high + 1, top - GAPS_MAX)
            if base > high + 1 and high >= 0:
                came = np.setdiff1d(np.arange(max(known_from, high - GAPS_MAX), high + 1), missing)
                self._remember(code, came)
                self._known_from[code] = base
                missing = missing[:0]
            if base > high + 1:
                self._remember(code, above[above < base])
                self._known_from[code] = base
            if top - base + 1 > np.count_nonzero(above >= base):
                holes = np.setdiff1d(np.arange(base, top + 1), above, assume_unique=True)
                missing = np.concatenate([missing, holes])
            self._high[code] = top
        if len(missing) > GAPS_MAX:
            missing = missing[-GAPS_MAX:]
            self._known_from[code] = max(int(missing[0]), self._known_from.get(code, 0))
        self._missing[code] = missing
        self._remember(code, below[unclear])
        mask = np.zeros(len(seq), dtype=bool)
        mask[first[:split][new_below]] = True
        mask[first[split:]] = True
        return mask

    def _remember(self, code: int, numbers: IntArray) -> None:
        """Numbers that came, but lie below what is known in full."""
        if len(numbers):
            known = self._lately.get(code, numbers[:0])
            self._lately[code] = np.concatenate([known, numbers])[-GAPS_MAX:]
