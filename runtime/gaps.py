"""Which sequence numbers have come: tells a repeated event from a late one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from slackline.events import IntArray

__all__ = ["Gaps"]

GAPS_MAX = 1 << 16
"""Missing numbers remembered per publisher; older ones are taken for new when they come."""
JUMP = 1024
"""More numbers missing at once than this are not remembered one by one: numbering has jumped."""
EPOCHS_MAX = 256
"""Stretches of numbers between jumps that are remembered."""


class Gaps:
    """Per publisher: the highest number seen and the numbers below it still missing."""

    def __init__(self) -> None:
        self._high = np.zeros(0, dtype=np.int64)
        self._missing: dict[int, IntArray] = {}
        self._known_from: dict[int, int] = {}
        self._epochs: dict[int, list[tuple[int, int, set[int]]]] = {}

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
        split = int(np.searchsorted(numbers, int(self._high[code]), side="right"))
        below, above = numbers[:split], numbers[split:]
        mask = np.zeros(len(seq), dtype=bool)
        if len(below):
            missing = self._missing.get(code, below[:0])
            new = np.isin(below, missing)
            self._missing[code] = np.setdiff1d(missing, below, assume_unique=True)
            for i in np.flatnonzero(below < self._known_from.get(code, 0)).tolist():
                new[i] = self._is_new_before(code, int(below[i]))
            mask[first[:split][new]] = True
        mask[first[split:]] = True
        for run in np.split(above, np.flatnonzero(np.diff(above) > JUMP) + 1):
            if len(run):
                self._extend(code, run)
        return mask

    def _extend(self, code: int, run: IntArray) -> None:
        """Take new numbers above all others; a jump begins another epoch."""
        high, top = int(self._high[code]), int(run[-1])
        missing = self._missing.get(code, run[:0])
        if run[0] - high - 1 > JUMP:
            if high >= 0:
                epochs = self._epochs.setdefault(code, [])
                epochs.append((self._known_from.get(code, 0), high, set(missing.tolist())))
                del epochs[:-EPOCHS_MAX]
            self._known_from[code] = int(run[0])
            missing, high = run[:0], int(run[0]) - 1
        if top - high > len(run):
            holes = np.setdiff1d(np.arange(high + 1, top + 1), run, assume_unique=True)
            missing = np.concatenate([missing, holes])
        if len(missing) > GAPS_MAX:
            missing = missing[-GAPS_MAX:]
            self._known_from[code] = max(int(missing[0]), self._known_from.get(code, 0))
        self._missing[code] = missing
        self._high[code] = top

    def _is_new_before(self, code: int, number: int) -> bool:
        """Whether a number from before the last jump has not come yet; it counts as come now."""
        epochs = self._epochs.setdefault(code, [])
        for low, high, missing in epochs:
            if low <= number <= high:
                if number not in missing:
                    return False
                missing.discard(number)
                return True
        epochs.append((number, number, set()))
        del epochs[:-EPOCHS_MAX]
        return True
