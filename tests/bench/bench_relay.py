"""What the relay adds to a call on loopback, in the same run: latency, lag of chunks, memory, throughput.

Three processes: a provider with canned answers (`relay_provider.py`), a real relay with one lane, and this
one as the client (`relay_load.py`). Every round does the same work straight to the provider and through the
relay, back to back; what is reported is the median over the rounds, of the difference or of the ratio, so
that other work on the machine disturbs least. A wrong answer, or a call that the relay did not meter
exactly, fails the bench.

With `ASSIZE_BENCH_LITELLM` naming a virtual environment that holds `litellm[proxy]`, its proxy (one worker,
no database, the same provider) takes part in the rounds of 16 at a time; without it that line says `skipped`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from workers.relay.config import LaneOrder, Pin, Provider, RelayConfig
from workers.relay.process import OpenLane, RelayProcess

if TYPE_CHECKING:
    from tests.bench.relay_load import Measured, Target, Work, drive
    from tests.bench.relay_provider import MODEL
else:  # a script's neighbours, see `make bench`
    from relay_load import Measured, Target, Work, drive
    from relay_provider import MODEL

HERE: Final = Path(__file__).resolve().parent
WARM_UP = (Work(100, 4), Work(6, 2, stream=True))
CALLS, CALL_ROUNDS, CALL_BAR_MS = Work(200), 9, 1.0
STREAMS, STREAM_ROUNDS, STREAM_BAR_MS = Work(25, stream=True), 9, 4.0
PACED, PACED_ROUNDS, LAG_BAR_MS = Work(1, stream=True, paced=True), 5, 0.3
MANY, MANY_ROUNDS, LITELLM_BAR = Work(480, 16), 7, 20.0
MEMORY_BAR_MB = 60.0
