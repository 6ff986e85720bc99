"""A server under load that is killed and started again.

Each row is answered once, with its own code, or reported by a ServingError.
"""

import concurrent.futures
import pathlib
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from absl.testing import absltest
from absl.testing import parameterized

from tests.campaigns import killed_encoder
from tests.support import bad_servers
from tests.support import small_server
from vdsh_tf import serving
from vdsh_tf.research.benchmarks import model_server

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = 4000
THREADS = 8


class Killed:
    """A server process that comes and goes on one port."""

    def __init__(self):
        self.port = 0
        self.start()

    def start(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", small_server.__name__, str(self.port)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self.port = int(self._process.stdout.readline())

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


def rows_of(start, stop):
    """Rows that say which they are."""
    numbers = np.arange(start, stop, dtype=np.float32)
    return np.stack([numbers, np.ones_like(numbers)], axis=1)


def codes_of(start, stop):
    numbers = (np.arange(start, stop) * 16).astype(">u2")
    return numbers.view(np.uint8).reshape(-1, 2)


class RestartTest(parameterized.TestCase):
    def load(self, server, client, batch, kills):
        """Sends all rows while the server dies; what came of each batch."""
        starts = range(1, ROWS, batch)
        done = threading.Semaphore(0)

        def one(start):
            stop = min(start + batch, ROWS)
            try:
                return start, stop, client.encode(rows_of(start, stop))
            except serving.ServingError as error:
                return start, stop, error
            finally:
                done.release()

        def disturb():
            for _ in range(kills):
                for _ in range(len(starts) // (kills + 1)):
                    done.acquire()
                server.kill()
                server.start()

        killer = threading.Thread(target=disturb)
        killer.start()
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            found = list(pool.map(one, starts))
        killer.join()
        return found

    def check(self, found):
        """Every row once: its own code, or an error; returns both counts."""
        answered, reported, place = 0, 0, 1
        for start, stop, result in found:
            assert start == place
            place = stop
            if isinstance(result, serving.ServingError):
                reported += stop - start
                continue
            np.testing.assert_array_equal(result, codes_of(start, stop))
            answered += stop - start
        assert place == ROWS
        assert answered + reported == ROWS - 1
        return answered, reported

    @parameterized.parameters(1, 7)
    def test_comes_through(self, batch):
        """Time enough to wait for the server: nothing is lost."""
        server = Killed()
        self.addCleanup(server.kill)
        with serving.Client(
            f"http://127.0.0.1:{server.port}",
            batch_size=batch,
            timeout=20,
            retries=50,
            backoff=0.05,
        ) as client:
            found = self.load(server, client, batch, kills=3)
        assert self.check(found) == (ROWS - 1, 0)

    def test_reports_what_is_lost(self):
        """No second attempt: rows under way at a kill are reported."""
        server = Killed()
        self.addCleanup(server.kill)
        with serving.Client(
            f"http://127.0.0.1:{server.port}", timeout=5, retries=0
        ) as client:
            client.signatures()
            found = self.load(server, client, 5, kills=2)
        answered, reported = self.check(found)
        assert answered
        assert reported

    @pytest.mark.slow
    @pytest.mark.skipif(not model_server.HAS_GRPC, reason=model_server.NO_GRPC)
    def test_exported_encoder(self):
        """TensorFlow behind it; the campaign does it more often."""
        counts = killed_encoder.campaign(kills=1, transport="rest")
        self.assertContainsSubset(counts, {"answered", "reported"})
        self.assertGreater(counts["answered"], 0)

    @pytest.mark.skipif(not model_server.HAS_GRPC, reason=model_server.NO_GRPC)
    def test_finds_a_restarted_server_by_grpc(self):
        from tests.campaigns import grpc_cases

        cases = {"case-0": grpc_cases.Case("good").replies}
        x = np.ones((3, 2))
        server = bad_servers.GrpcServer(cases)
        url = f"grpc://127.0.0.1:{server.port}"
        with serving.Client(
            url, "case-0", timeout=20, retries=100, backoff=0.05
        ) as client:
            want = client.encode(x)
            for _ in range(3):
                server.close()
                with concurrent.futures.ThreadPoolExecutor(1) as pool:
                    found = pool.submit(client.encode, x)
                    time.sleep(0.5)
                    server = bad_servers.GrpcServer(cases, server.port)
                    np.testing.assert_array_equal(found.result(), want)
        server.close()


if __name__ == "__main__":
    absltest.main()
