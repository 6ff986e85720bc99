"""Batches: who waits for whom, errors, bounds, the end."""

import asyncio
import threading

from absl.testing import absltest

from vdsh_tf.service.batching import Batcher
from vdsh_tf.service.batching import OverloadedError


class BatcherTest(absltest.TestCase):
    def test_what_waits_is_run_together(self):
        started, go_on = threading.Event(), threading.Event()
        batches = []

        def run(jobs):
            batches.append(list(jobs))
            started.set()
            go_on.wait(60)
            return [ValueError(job) if job < 0 else 2 * job for job in jobs]

        async def main():
            batcher = Batcher(run, most=3, waiting=6, name="test")
            first = asyncio.create_task(batcher.submit(1))
            await asyncio.to_thread(started.wait, 60)
            rest = [
                asyncio.create_task(batcher.submit(job))
                for job in (2, -3, 4, 5, 6)
            ]
            await asyncio.sleep(0)
            with self.assertRaises(OverloadedError):
                await batcher.submit(7)
            rest[1].cancel()
            rest.append(asyncio.create_task(batcher.call(lambda: "between")))
            go_on.set()
            found = await asyncio.gather(first, *rest, return_exceptions=True)
            await batcher.close()
            return found

        first, two, cancelled, *others = asyncio.run(main())
        self.assertEqual([first, two, *others], [2, 4, 8, 10, 12, "between"])
        self.assertIsInstance(cancelled, asyncio.CancelledError)
        self.assertEqual(batches, [[1], [2, -3, 4], [5, 6]])

    def test_errors(self):
        def run(jobs):
            if "spoils all" in jobs:
                raise OSError("disk")
            return [KeyError(job) if job == "bad" else job for job in jobs]

        async def main():
            batcher = Batcher(run, most=9, waiting=9, name="test")
            for job, error in (("bad", KeyError), ("spoils all", OSError)):
                with self.assertRaises(error):
                    await batcher.submit(job)
            self.assertEqual(await batcher.submit("good"), "good")
            # One job may be larger than a batch.
            self.assertEqual(await batcher.submit("large", 99), "large")
            self.assertEqual(batcher.rows, 0)
            await batcher.close()

        asyncio.run(main())


if __name__ == "__main__":
    absltest.main()
