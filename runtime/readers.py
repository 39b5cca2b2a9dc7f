"""Reads recordings, csv, JSON lines or parquet, as arrivals in the order of their rows.

A row has a ``ts`` (int) and a ``type``, and may have a ``publisher`` and a ``seq``; everything
else in it is data. In JSON lines an object called ``data`` is the data and the keys beside it
are left out. An empty number is NaN among floats and None among ints.

A row that cannot be used is neither dropped nor does it stop the reading: it becomes an event
with the bad value in its place and its file and line as data, which every run rejects.
"""

from __future__ import annotations

import gzip
import json
import os
import stat
import zlib
from collections import Counter
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from slackline.errors import SourceError, UserError
from slackline.events import Event, EventBatch, is_int, make_event, time_fault

if TYPE_CHECKING:
    from slackline.tables import Origin

__all__ = ["read", "rows_in"]
