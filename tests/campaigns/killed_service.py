"""Kills a service at random moments under writes; nothing may be lost.

    python -m tests.campaigns.killed_service --kills=20

Four clients add and remove items as fast as they are answered. The process is
killed (SIGKILL), the service started again on the same files, and asked for
every item: one whose adding was acknowledged must be there with its code and
payload, one whose removal was acknowledged must not, and one in flight must be
there whole or not at all. About three seconds per kill.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import threading
import time

from tests.support import export_fixtures
from tests.support import service_case
from vdsh_tf.service import bundle

CLIENTS = 4
START = """
import sys
sys.modules.update(dict.fromkeys(("keras", "tensorflow")))
from vdsh_tf.tools import serve
sys.exit(serve.main(sys.argv[1:]))
"""


class Process:
    """A service in a process of its own."""

    def __init__(self, folder: str):
        place = f"{folder}/{{}}".format
        flags = [
            f"--encoder={place(bundle.ENCODER)}",
            f"--index=faiss:{place(bundle.INDEX)}",
            f"--items={place(bundle.ITEMS)}",
            f"--embeddings={place(bundle.EMBEDDINGS)}",
            "--port=0",
        ]
        self._process = subprocess.Popen(
            [sys.executable, "-c", START, *flags],
            stdout=subprocess.PIPE,
            text=True,
            env=export_fixtures.environment(),
        )
        for line in self._process.stdout:
            if line.startswith("listening at "):
                self.address = line.split()[2]
                return
        raise RuntimeError("the service did not start")

    def end(self, number=signal.SIGKILL) -> int:
        self._process.send_signal(number)
        code = self._process.wait(60)
        self._process.stdout.close()
        return code


class Ledger:
    """What was asked, and what was acknowledged."""

    def __init__(self):
        self.lock = threading.Lock()
        # id -> (row number, whether its adding was acknowledged)
        self.added = {}
        # id -> whether its removal was acknowledged
        self.removed = {}


def write(address, ledger, seed, stop):
    """Adds and removes items until the service is gone."""
    rng = random.Random(seed)
    rows = service_case.rows()
    client = service_case.Client(address)
    mine = []
    try:
        while not stop.is_set():
            if mine and rng.random() < 0.25:
                number = mine.pop(rng.randrange(len(mine)))
                ledger.removed[number] = False
                status, _ = client.ask("DELETE", f"/v1/items/{number}")
                ledger.removed[number] = status == 204
                continue
            items = []
            for _ in range(rng.randint(1, 4)):
                with ledger.lock:
                    number = 10_000 + len(ledger.added)
                    row = rng.randrange(len(rows))
                    ledger.added[number] = (row, False)
                payload = {"row": row, "text": "x" * rng.randrange(2000)}
                payload["check"] = len(payload["text"])
                items.append(
                    {
                        "id": number,
                        "row": rows[row].tolist(),
                        "payload": payload,
                    }
                )
            status, _ = client.ask("POST", "/v1/items", {"items": items})
            if status == 201:
                for item in items:
                    row, _ = ledger.added[item["id"]]
                    ledger.added[item["id"]] = (row, True)
                    mine.append(item["id"])
    except (OSError, ValueError, AssertionError) as error:
        del error  # The service was killed.
    finally:
        client.close()


def listed(client):
    """All items that the service has, by id."""
    found, after = {}, 9_999
    while True:
        path = f"/v1/items?after={after}&limit=500"
        _, answer = client.ask("GET", path)
        if not answer["items"]:
            return found
        found.update({i["id"]: i["payload"] for i in answer["items"]})
        after = answer["items"][-1]["id"]


def check(address, ledger, codes, since):
    """Compares the service with the ledger; returns counts.

    Args:
        address: of the service.
        ledger: what was asked of it.
        codes: by row, in hexadecimal digits.
        since: id of the first item that was not looked at before, and whose
            code is asked for, too.
    """
    client = service_case.Client(address)
    counts = {"acknowledged": 0, "in flight, there": 0, "in flight, not": 0}
    try:
        items = listed(client)
        assert not items.keys() - ledger.added.keys()
        for number, (row, sure) in ledger.added.items():
            there = number in items
            if there:
                payload = items[number]
                assert payload["row"] == row, (number, payload)
                assert payload["check"] == len(payload["text"]), number
            if number in ledger.removed:
                assert not (ledger.removed[number] and there), number
            elif sure:
                assert there, f"item {number} was acknowledged, and is lost"
                counts["acknowledged"] += 1
            else:
                counts[f"in flight, {'there' if there else 'not'}"] += 1
        new = [number for number in items if number >= since]
        for start in range(0, len(new), 500):
            part = new[start : start + 500]
            results = client.search(ids=part, k=1, payloads=False)
            for number, result in zip(part, results, strict=True):
                assert result["code"] == codes[ledger.added[number][0]], number
                assert result["hits"][0]["distance"] == 0, number
    finally:
        client.close()
    return counts


def campaign(kills: int, seed: int = 0, most: float = 1.5) -> list[dict]:
    """Kills a service so often; returns counts of each time."""
    folder = service_case.folder()
    rng = random.Random(seed)
    encoded = export_fixtures.codes(service_case.rows())
    codes = [code.tobytes().hex() for code in encoded]
    ledger, found = Ledger(), []
    process = Process(folder)
    for round_number in range(kills):
        since = 10_000 + len(ledger.added)
        stop = threading.Event()
        threads = [
            threading.Thread(
                target=write,
                args=(process.address, ledger, 100 * round_number + i, stop),
            )
            for i in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        time.sleep(rng.uniform(0.1, most))
        process.end()
        stop.set()
        for thread in threads:
            thread.join()
        process = Process(folder)
        try:
            found.append(check(process.address, ledger, codes, since))
        except BaseException:
            process.end()
            raise
    assert process.end(signal.SIGTERM) == 0
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    start = time.monotonic()
    for number, counts in enumerate(campaign(args.kills, args.seed), 1):
        print(f"kill {number}: {json.dumps(counts)}")
    print(f"nothing lost, {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
