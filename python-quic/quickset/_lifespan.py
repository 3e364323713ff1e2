"""The start and the end of an ASGI application (its scope `lifespan`)."""

from __future__ import annotations

import asyncio
from typing import Any, Optional

from quickset._errors import LifespanError


class Lifespan:
    """What an application is told of its start and its end."""

    def __init__(self, app: Any) -> None:
        self.state: dict[str, Any] = {}
        """What the application has put there for its requests."""
        self.is_known = False
        """Whether the application has started so."""
        self._app = app
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._task: Optional[asyncio.Task[None]] = None
        self._answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def begin(self, *, needed: bool) -> None:
        """Waits until the application has started. One that does not know the scope is as it was, unless
        it is needed.

        It raises `LifespanError` when the application says that it cannot start.
        """
        scope = {
            "type": "lifespan",
            "asgi": {"version": "3.0", "spec_version": "2.0"},
            "state": self.state,
        }
        self._task = asyncio.ensure_future(self._app(scope, self._events.get, self._answers.put))
        self._events.put_nowait({"type": "lifespan.startup"})
        try:
            answer = await self._answer()
        except BaseException:
            self._task.cancel()
            raise
        if answer is None:
            error = None if self._task.cancelled() else self._task.exception()
            self._task = None
            if needed:
                raise LifespanError("the ASGI application does not know the scope lifespan") from error
            return
        if answer["type"] != "lifespan.startup.complete":
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
            raise LifespanError(f"the ASGI application did not start: {answer.get('message', '')}")
        self.is_known = True

    async def end(self) -> None:
        """Waits until the application has ended. What goes wrong goes to the event loop's exception
        handler: the server is closed by then."""
        if self._task is None or not self.is_known:
            return
        self._events.put_nowait({"type": "lifespan.shutdown"})
        task, answer = self._task, await self._answer()
        if answer is not None:
            # It returns now, or has no more to say.
            await asyncio.wait([task], timeout=1.0)
            task.cancel()
            await asyncio.wait([task])
        self._task = None
        error = None if task.cancelled() else task.exception()
        if error is not None or (answer and answer["type"] == "lifespan.shutdown.failed"):
            message = "the end of the ASGI application failed"
            if answer and answer.get("message"):
                message += f": {answer['message']}"
            told = {"message": message, **({"exception": error} if error else {})}
            asyncio.get_running_loop().call_exception_handler(told)

    async def _answer(self) -> Optional[dict[str, Any]]:
        """What the application says next; `None` when it has returned or raised instead."""
        assert self._task is not None
        answer = asyncio.ensure_future(self._answers.get())
        try:
            await asyncio.wait([answer, self._task], return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            # It may have said something and returned in one step.
            return None if self._answers.empty() else self._answers.get_nowait()
        finally:
            answer.cancel()
