"""The bells of event loops."""

from __future__ import annotations

import asyncio
import atexit
import os
import weakref

from quickset import _native

_bells: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _native.EventBell] = weakref.WeakKeyDictionary()


def bell() -> _native.EventBell:
    """The bell of the loop that runs in this thread."""
    loop = asyncio.get_running_loop()
    try:
        return _bells[loop]
    except KeyError:
        made = _bells[loop] = _native.EventBell(loop)
        return made


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_native.forked)
atexit.register(_native.farewell)
