"""The service over HTTP: answers, refusals, bounds, token, many at once."""

import base64
import concurrent.futures
import io
import json
import re
import urllib.parse

import numpy as np
import pytest
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from tests.support import export_fixtures
from tests.support import plain_hamming
from tests.support import service_case
from vdsh_tf.service import bodies
from vdsh_tf.service import running

pytest.importorskip("fastapi", reason="`pip install 'vdsh_tf[serve]'`")

COUNT = service_case.ITEMS
BYTES = "application/octet-stream"


class AppTest(case.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        parts = running.Parts.of(service_case.folder())
        cls.shared = cls.enterClassContext(service_case.served(parts))

    def setUp(self):
        super().setUp()
        self.address = self.shared
        self.client = service_case.Client(self.address)
        self.addCleanup(self.client.close)
        self.rows = service_case.rows()[COUNT : COUNT + 8]

    def start(self, folder=None, **options):
        parts = running.Parts.of(folder or service_case.folder())
        address = self.enter_context(service_case.served(parts, **options))
        client = service_case.Client(address, options.get("token"))
        self.address = address
        self.addCleanup(client.close)
        return client

    def refused(self, status, message, *request, **options):
        got, answer = self.client.ask(*request, **options)
        self.assertEqual(got, status, answer)
        self.assertRegex(answer["error"], f"(?s){message}")

    def test_codes(self):
        want = export_fixtures.codes(self.rows)
        for body, kind in (
            ({"rows": self.rows.tolist()}, "application/json"),
            (self.rows.astype("<f4").tobytes(), BYTES),
        ):
            status, answer = self.client.ask(
                "POST", "/v1/encode", body, kind=kind
            )
            self.assertEqual(status, 200, answer)
            self.assertEqual(
                answer["codes"], [code.tobytes().hex() for code in want]
            )
            self.assertEqual(answer["bits"], export_fixtures.BITS)
        body = {"rows": self.rows.tolist(), "embeddings": True}
        _, answer = self.client.ask("POST", "/v1/encode", body)
        np.testing.assert_array_equal(
            np.packbits(np.array(answer["embeddings"]) > 0, axis=1), want
        )

    def test_search(self):
        results = self.client.search(rows=self.rows.tolist(), k=9)
        items = export_fixtures.codes(service_case.rows()[:COUNT])
        queries = export_fixtures.codes(self.rows)
        distance = plain_hamming.all_distances(queries, items)
        for i, result in enumerate(results):
            self.assertEqual(result["code"], queries[i].tobytes().hex())
            self.assertNotIn("total", result)
            got = [hit["distance"] for hit in result["hits"]]
            self.assertEqual(got, np.sort(distance[i])[:9].tolist())
            for hit in result["hits"]:
                self.assertEqual(hit["distance"], distance[i, hit["id"]])
                self.assertEqual(
                    hit["payload"], service_case.payload(hit["id"])
                )
        (ball,) = self.client.search(
            rows=self.rows[0].tolist(), radius=2, payloads=False
        )
        inside = np.flatnonzero(distance[0] <= 2)
        self.assertEqual(ball["total"], len(inside))
        self.assertEqual([*map(set, ball["hits"][:1])], [{"id", "distance"}])
        self.assertContainsSubset({h["id"] for h in ball["hits"]}, set(inside))
        # The same by bytes, with options in the address.
        options = {"k": 4, "filter": "label = 3", "payloads": "false"}
        path = f"/v1/search?{urllib.parse.urlencode(options)}"
        body = self.rows[:2].astype("<f4").tobytes()
        _, answer = self.client.ask("POST", path, body, kind=BYTES)
        options = {"k": 4, "filter": "label = 3", "payloads": False}
        same = self.client.search(rows=self.rows[:2].tolist(), **options)
        self.assertEqual(answer["results"], same)

    def test_more_than_there_is(self):
        (result,) = self.client.search(
            ids=[3], k=200, filter="number >= 297", rerank=100
        )
        self.assertSameElements(
            [hit["id"] for hit in result["hits"]], [297, 298, 299]
        )

    def test_pictures(self):
        import matplotlib.image

        status, data = self.client.ask("GET", "/v1/items/5/picture")
        self.assertEqual(status, 200)
        shown = matplotlib.image.imread(io.BytesIO(data), format="png")
        want = service_case.rows()[5].reshape(8, 8) / 16
        np.testing.assert_allclose(shown, want, atol=1 / 255)
        text = base64.b64encode(data).decode()
        (result,) = self.client.search(images=[text], k=1, rerank=20)
        self.assertEqual(result["hits"][0]["id"], 5)
        self.assertGreater(result["hits"][0]["similarity"], 0.999)
        self.assertEqual(
            self.client.ask("GET", "/v1/items/999/picture")[0], 404
        )
        bad = base64.b64encode(b"no picture").decode()
        for images, message in (
            ([bad], "PNG, JPEG"),
            (["?"], "as base64"),
            ([3], "as base64"),
        ):
            self.refused(400, message, "POST", "/v1/search", {"images": images})

    def test_items(self):
        self.client = self.start()
        row = self.rows[0].tolist()
        body = {
            "items": [
                {"row": row, "payload": {"name": "é", "deep": {"x": [1]}}},
                {"row": self.rows[1].tolist(), "id": 1000},
            ]
        }
        status, answer = self.client.ask("POST", "/v1/items", body)
        self.assertEqual((status, answer["ids"]), (201, [1001, 1000]))
        status, answer = self.client.ask("GET", "/v1/items/1001")
        self.assertEqual(answer["payload"], body["items"][0]["payload"])
        (result,) = self.client.search(rows=row, k=1, filter="name = 'é'")
        self.assertEqual(result["hits"][0]["id"], 1001)
        _, answer = self.client.ask("GET", "/v1/items?after=298&limit=2")
        listed = [item["id"] for item in answer["items"]]
        self.assertEqual(listed, [299, 1000])
        self.assertEqual(self.client.ask("DELETE", "/v1/items/1001")[0], 204)
        self.refused(404, "an item 1001", "DELETE", "/v1/items/1001")
        self.refused(404, "an item 1001", "GET", "/v1/items/1001")
        self.refused(409, "1000 is taken", "POST", "/v1/items", body)
        self.refused(404, "an item 1001", "GET", "/v1/items/1001")

    @parameterized.parameters(
        (b"{", "must be JSON"),
        (b"\xff\xff", "must be JSON"),
        (b"[" * 100_000, "must be JSON"),
        ([], "a JSON object"),
        ({}, "one of rows, images, ids"),
        ({"rows": [[1.0]], "ids": [1]}, "Received: rows, ids"),
        ({"rows": []}, "not empty"),
        ({"rows": 3}, "must be a list"),
        ({"rows": [[1.0] * 63]}, "64 numbers. Received: 63 in row 0"),
        ({"rows": [[1.0] * 64, [1.0] * 65]}, "Received: 65 in row 1"),
        ({"rows": [["1"] * 64]}, "64 numbers"),
        ({"rows": [[None] * 64]}, "64 numbers"),
        ({"rows": [[[1]] * 64]}, "64 numbers"),
        ({"rows": [[0] * 64]}, "must not be all zero"),
        ({"rows": [[1e300] * 64]}, "must be finite"),
        ({"rows": [[1] * 64], "k": 0}, "`k` must be"),
        ({"rows": [[1] * 64], "k": 201}, "from 1 to 200"),
        ({"rows": [[1] * 64], "k": True}, "`k` must be"),
        ({"rows": [[1] * 64], "radius": -1}, "`radius` must be"),
        ({"rows": [[1] * 64], "rerank": 1e3}, "`rerank` must be"),
        ({"rows": [[1] * 64], "filter": "label ="}, "at character 8"),
        ({"rows": [[1] * 64], "filter": 3}, "must be text"),
        ({"rows": [[1] * 64], "payloads": 1}, "true or false"),
        ({"rows": [[1] * 64], "limit": 1}, "Received: 'limit'"),
        ({"ids": [-1]}, "from 0 to"),
        ({"ids": [2**64]}, "from 0 to"),
        ({"ids": ["5"]}, "from 0 to"),
    )
    def test_bad_searches(self, body, message):
        self.refused(400, message, "POST", "/v1/search", body)
        self.assertLen(self.client.search(ids=[1], k=2)[0]["hits"], 2)

    @parameterized.parameters(
        ({}, "must be a list"),
        ({"items": [3]}, "Item 0 must be an object"),
        ({"items": [{}]}, "`row` or `image`"),
        ({"items": [{"row": [1]}]}, "64 numbers"),
        ({"items": [{"row": [1] * 64, "id": 1.5}]}, "An id must be"),
        ({"items": [{"row": [1] * 64, "id": 9}] * 2}, "not come twice"),
        ({"items": [{"row": [1] * 64, "payload": [1]}]}, "must be an object"),
        ({"items": [{"row": [1] * 64, "pay": 1}]}, "Received: 'pay'"),
    )
    def test_bad_items(self, body, message):
        self.refused(400, message, "POST", "/v1/items", body)
        self.assertEqual(self.client.ask("GET", "/readyz")[1]["items"], COUNT)

    def test_bounds(self):
        many = {"rows": [[1] * 64] * 65}
        self.refused(413, "64 rows at most", "POST", "/v1/search", many)
        client = self.start(limits=bodies.Limits())
        status, answer = client.ask("POST", "/v1/search", {"images": [""] * 65})
        self.assertEqual(status, 413)
        self.assertIn("64 images at most", answer["error"])
        # A large body is read elsewhere, with the same outcome.
        rows = np.ones((1000, 64)).tolist()
        body = {"rows": rows, "k": 1, "payloads": False}
        self.assertLen(client.search(**body), 1000)
        body = np.ones((65, 64), "<f4").tobytes()
        self.refused(
            413, "64 rows at most", "POST", "/v1/search", body, kind=BYTES
        )
        self.refused(
            400, "256 bytes each", "POST", "/v1/search", b"123", kind=BYTES
        )
        large = {"items": [{"row": [1] * 64, "payload": {"x": "y" * 70_000}}]}
        self.refused(413, "65536 bytes", "POST", "/v1/items", large)
        huge = b" " * (1 << 20) + b"{}"
        self.refused(413, "1048576 bytes", "POST", "/v1/search", huge)

    def test_other_requests(self):
        body = {"ids": [1]}
        self.refused(415, "must say so", "POST", "/v1/search", body, kind=None)
        self.refused(
            415, "text/plain", "POST", "/v1/search", body, kind="text/plain"
        )
        self.refused(404, "at /docs", "GET", "/v1/nothing")
        self.refused(405, "at /docs", "GET", "/v1/search")
        self.refused(400, "integer", "GET", "/v1/items/abc")
        self.refused(400, "from 1 to 500", "GET", "/v1/items?limit=0")
        self.refused(421, "own name", "GET", "/v1/about", Host="evil.example")

    def test_signs_and_documents(self):
        self.client = self.start()
        self.client.search(ids=[1])
        self.assertEqual(self.client.ask("GET", "/healthz")[0], 200)
        _, ready = self.client.ask("GET", "/readyz")
        self.assertEqual(ready, {"status": "ready", "items": COUNT})
        _, text = self.client.ask("GET", "/metrics")
        self.assertRegex(
            text.decode(),
            r'vdsh_requests_total{route="/v1/search",status="200"} 1.0',
        )
        self.assertRegex(text.decode(), rf"vdsh_items {COUNT}\.0")
        _, schema = self.client.ask("GET", "/openapi.json")
        self.assertContainsSubset(
            {"/v1/search", "/v1/encode", "/v1/items", "/v1/items/{number}"},
            schema["paths"],
        )
        status, page = self.client.ask("GET", "/")
        self.assertEqual(status, 200)
        for name in re.findall(rb'(?:src|href)="([\w.]+)"', page):
            path = f"/{name.decode()}"
            self.assertEqual(self.client.ask("GET", path)[0], 200, path)
        _, drawn = self.client.ask("GET", "/v1/map")
        self.assertLen(drawn["codes"], COUNT)

    def test_token(self):
        self.start(token=service_case.TOKEN)
        stranger = service_case.Client(self.address)
        friend = service_case.Client(self.address, service_case.TOKEN)
        thief = service_case.Client(self.address, service_case.TOKEN + "x")
        for path in ("/v1/about", "/metrics", "/v1/items/1", "/openapi.json"):
            self.assertEqual(stranger.ask("GET", path)[0], 401)
            self.assertEqual(thief.ask("GET", path)[0], 401)
            self.assertEqual(friend.ask("GET", path)[0], 200)
        for path in ("/healthz", "/readyz", "/"):
            self.assertEqual(stranger.ask("GET", path)[0], 200)
        for client in (stranger, friend, thief):
            client.close()

    def test_many_at_once(self):
        """Each gets its own answer, and they are encoded together."""
        self.client = self.start()
        rows = service_case.rows()[:200]
        want = [c.tobytes().hex() for c in export_fixtures.codes(rows)]

        def ask(part):
            client = service_case.Client(self.address)
            found = []
            for i in part:
                (result,) = client.search(
                    rows=rows[i].tolist(), k=1 + i % 3, rerank=i % 2
                )
                self.assertLen(result["hits"], 1 + i % 3)
                found.append(result["code"])
            client.close()
            return found

        parts = [range(i, 200, 8) for i in range(8)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for part, found in zip(parts, pool.map(ask, parts), strict=True):
                self.assertEqual(found, [want[i] for i in part])
        _, text = self.client.ask("GET", "/metrics")
        batches = re.search(r"batch_rows_count (\d+)", text.decode())
        self.assertLessEqual(int(batches[1]), 200)

    def test_two_services_of_the_same_items(self):
        folder = service_case.folder()
        self.start(folder)
        parts = running.Parts.of(folder)

        def open_again():
            with running.opened(parts):
                pass

        with (
            concurrent.futures.ThreadPoolExecutor(1) as pool,
            self.assertRaisesRegex(RuntimeError, "Only one process"),
        ):
            pool.submit(open_again).result()

    def test_items_stay(self):
        folder = service_case.folder()
        parts = running.Parts.of(folder)
        row = json.loads(json.dumps(self.rows[0].tolist()))
        with service_case.served(parts) as address:
            client = service_case.Client(address)
            body = {"items": [{"row": row, "payload": {"a": 1}}]}
            client.ask("POST", "/v1/items", body)
            client.ask("DELETE", "/v1/items/0")
            client.close()
        with service_case.served(parts) as address:
            client = service_case.Client(address)
            (result,) = client.search(rows=row, k=1, filter="a = 1")
            self.assertEqual(result["hits"][0]["id"], COUNT)
            self.assertEqual(client.ask("GET", "/v1/items/0")[0], 404)
            client.close()


if __name__ == "__main__":
    absltest.main()
