"""Batcher: requests that wait are run together, by one thread.

While a batch runs, what comes in waits for the next one. So one request alone
waits for nobody, and many share the cost of a run.
"""

import asyncio
import concurrent.futures
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any


class OverloadedError(RuntimeError):
    """More waits than can be answered in time."""


class Batcher:
    """Runs jobs in batches; for use on one event loop.

    Args:
        run: jobs -> a result or an exception for each; called by a thread of
            its own.
        most: rows in a batch, a single larger job aside.
        waiting: rows that may wait; more are refused.
        name: of the thread.
        begin: called by the thread before anything else.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Any]], Sequence[Any]],
        most: int,
        waiting: int,
        name: str,
        begin: Callable[[], None] = lambda: None,
    ):
        self._run = run
        self._most = most
        self._waiting = waiting
        self._thread = concurrent.futures.ThreadPoolExecutor(
            1, name, initializer=begin
        )
        self._jobs: list[tuple[Any, int, asyncio.Future]] = []
        self._task: asyncio.Task | None = None
        self.rows = 0
        self.observe: Callable[[int], None] = lambda rows: None

    async def submit(self, job: Any, rows: int = 1) -> Any:
        """The result of a job; raises what it is if it is an exception."""
        if self.rows + rows > self._waiting and self._jobs:
            raise OverloadedError(
                f"There must be room to wait, and {self.rows} rows wait "
                "already. Try again in a second."
            )
        future = asyncio.get_running_loop().create_future()
        self._jobs.append((job, rows, future))
        self.rows += rows
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        return await future

    async def call(self, function: Callable, *args) -> Any:
        """Calls a function by the batcher's thread, between two batches."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, function, *args)

    async def close(self) -> None:
        """Ends when all that waits is done."""
        while self._task is not None:
            await asyncio.sleep(0.01)
        self._thread.shutdown()

    def _take(self):
        """The next jobs, as many as fit into a batch."""
        count, rows = 1, self._jobs[0][1]
        while count < len(self._jobs):
            rows += self._jobs[count][1]
            if rows > self._most:
                break
            count += 1
        taken, self._jobs = self._jobs[:count], self._jobs[count:]
        return taken

    async def _work(self):
        loop = asyncio.get_running_loop()
        try:
            while self._jobs:
                batch = self._take()
                rows = sum(job[1] for job in batch)
                jobs = [job[0] for job in batch]
                try:
                    results = await loop.run_in_executor(
                        self._thread, self._run, jobs
                    )
                except Exception as error:
                    results = [error] * len(batch)
                self.rows -= rows
                self.observe(rows)
                for (_, _, future), result in zip(batch, results, strict=True):
                    _settle(future, result)
        finally:
            self._task = None


def _settle(future, result):
    # Its request may have gone away.
    if future.done():
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
