"""The page in headless Chromium: of a service, as a site, without pictures."""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest
from absl.testing import absltest

from tests.support import case
from tests.support import export_fixtures
from tests.support import javascript
from tests.support import service_case
from vdsh_tf import codes as codes_lib
from vdsh_tf.export import graph
from vdsh_tf.export import parity
from vdsh_tf.service import bundle
from vdsh_tf.service import preparing
from vdsh_tf.service import running
from vdsh_tf.service import site
from vdsh_tf.service.pictures import png

pytest.importorskip("fastapi", reason="`pip install 'vdsh_tf[serve]'`")

COUNT = service_case.ITEMS
DRIVER = export_fixtures.ROOT / "tests" / "support" / "page_driver.mjs"


def visit(address, name, *files):
    """What a person sees who uses the page."""
    chromium, node = javascript.chromium(), javascript.node()
    folder = pathlib.Path(export_fixtures.folder())
    shots = pathlib.Path(os.environ.get("VDSH_SCREENSHOTS") or folder, name)
    command = [node, DRIVER, f"{address}/", chromium, folder / "out.json"]
    done = subprocess.run(
        [str(part) for part in (*command, shots, *files)],
        cwd=javascript.packages(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "out.json").read_text())


class PageTest(case.TestCase):
    def picture(self, number):
        """A file with an item's picture, dark on white, and larger."""
        pixels = service_case.rows()[number].reshape(8, 8, 1) * (255 / 16)
        large = np.kron(255 - pixels, np.ones((20, 20, 1))).astype(np.uint8)
        path = pathlib.Path(export_fixtures.folder(), "picture.png")
        path.write_bytes(
            png(
                np.pad(large, ((40, 40), (40, 40), (0, 0)), constant_values=255)
            )
        )
        return path

    def check(self, seen, label):
        """What holds of every page."""
        self.assertEmpty(seen["errors"])
        self.assertStartsWith(seen["summary"], f"{COUNT} items, codes of 12")
        self.assertEqual(seen["examples"], 16)
        codes = export_fixtures.codes(service_case.rows()[:COUNT])
        for name in ("near", "far", "neighbour", "mapped", "another", "phone"):
            with self.subTest(name):
                self.check_hits(seen[name], codes)
        for hit in seen["near"]["hits"]:
            self.assertEqual(hit["distance"], 0)
        self.assertIn("within 0 bits", seen["near"]["status"])
        self.assertLen(seen["far"]["hits"], 16)
        chosen = seen["far"]["hits"][1]["id"]
        self.assertEqual(
            seen["neighbour"]["code"], codes[chosen].tobytes().hex()
        )
        self.assertEqual(seen["phone"]["overflow"], 0)
        # Dark, as asked for.
        shade = [int(v) for v in seen["paper"][4:-1].split(",")]
        self.assertLess(max(shade), 60)
        if label:
            place = seen["another"]["place"]
            self.assertIn("falls among items with label", place)

    def check_filter(self, seen):
        """Only items that pass the filter, and as many as before."""
        self.assertLen(seen["filtered"]["hits"], 16)
        self.assertLess(max(hit["id"] for hit in seen["filtered"]["hits"]), 50)

    def check_hits(self, shown, codes):
        code = np.frombuffer(bytes.fromhex(shown["code"]), np.uint8)
        bits = codes_lib.unpack(code[None], export_fixtures.BITS)[0]
        self.assertEqual(
            shown["barcode"], "".join(str(int(bit)) for bit in bits)
        )
        for hit in shown["hits"]:
            want = np.bitwise_count(codes[hit["id"]] ^ code).sum()
            self.assertEqual(hit["distance"], want)

    def check_drawing(self, seen):
        """Drawings and pictures have neighbours; the item finds itself."""
        for name in ("drawn", "keys", "dropped", "opened"):
            self.assertLen(seen[name]["hits"], 16)
            self.assertTrue(all(hit["picture"] for hit in seen[name]["hits"]))
        self.assertEqual(seen["cleared"], 0)
        # A stroke and nothing else: 0.7 of a side, 0.15 wide, round ends.
        self.assertAlmostEqual(seen["ink"], 0.123, delta=0.015)
        self.assertEqual(seen["dropped"]["code"], seen["opened"]["code"])
        want = export_fixtures.codes(service_case.rows()[:1])[0]
        got = np.frombuffer(bytes.fromhex(seen["opened"]["code"]), np.uint8)
        # Its greys were stretched, as paper is never quite white.
        self.assertLessEqual(np.bitwise_count(want ^ got).sum(), 2)

    def test_at_the_service(self):
        javascript.chromium()
        parts = running.Parts.of(service_case.folder())
        with service_case.served(parts) as address:
            seen = visit(address, "service", self.picture(0))
        self.check(seen, label=True)
        self.check_filter(seen)
        self.check_drawing(seen)

    def test_as_a_site(self):
        javascript.chromium()
        dist = javascript.packages() / "node_modules/onnxruntime-web/dist"
        out = os.path.join(export_fixtures.folder(), "site")
        self.assertEqual(
            site.write(out, service_case.prepared(), ort=str(dist)), COUNT
        )
        real = service_case.rows()
        rows = np.concatenate([real, parity.hostile_rows(real[:50])])
        path = pathlib.Path(export_fixtures.folder(), "rows.f32")
        rows.astype("<f4").tofile(path)
        with javascript.served(out) as address:
            seen = visit(address, "site", self.picture(0), path)
        self.check(seen, label=True)
        self.check_drawing(seen)
        codes = np.frombuffer(bytes.fromhex(seen["codes"]), np.uint8)
        kernels = graph.kernels_of(export_fixtures.model())
        report = parity.compare(
            parity.responses(kernels, rows),
            codes.reshape(len(rows), -1),
            "browser",
            len(rows),
        )
        parity.require([report])

    def test_without_pictures(self):
        javascript.chromium()
        out = os.path.join(export_fixtures.folder(), "service")
        preparing.prepare(
            out,
            os.path.join(service_case.prepared(), bundle.ENCODER),
            service_case.rows()[:COUNT],
            [{"name": f"<b>item {i}</b>", "price": i} for i in range(COUNT)],
        )
        with service_case.served(running.Parts.of(out)) as address:
            seen = visit(address, "vectors")
        self.check(seen, label=False)
        self.check_filter(seen)
        hit = seen["chosen"]["hits"][0]
        # Payloads are text, whatever is in them.
        self.assertIn(f"name <b>item {hit['id']}</b>, price", hit["text"])
        self.assertFalse(hit["picture"])


class DrawingTest(case.TestCase):
    """`strokesToRow` in Node, on pictures as they are in the data."""

    def rows(self, pictures, fill, zoom):
        """What becomes of pictures that are drawn `zoom` times as large."""
        node = javascript.node()
        height, width = pictures.shape[1:]
        large = np.kron(pictures, np.ones((1, zoom, zoom)))
        shape = [height, width, 1]
        facts = {"image_shape": shape, "peak": 16, "fill": fill}
        folder = pathlib.Path(export_fixtures.folder())
        module = pathlib.Path(bundle.page_file("drawing.mjs")).as_uri()
        (folder / "in.f32").write_bytes(large.astype("<f4").tobytes())
        code = f"""
            import {{ readFileSync, writeFileSync }} from "node:fs";
            import {{ onBlack, strokesToRow }} from "{module}";
            const all = new Float32Array(
              new Uint8Array(readFileSync("in.f32")).buffer);
            const size = {large[0].size}, rows = [];
            for (let start = 0; start < all.length; start += size) {{
              const data = all.subarray(start, start + size);
              const gray = {{ data, width: {width * zoom},
                height: {height * zoom} }};
              const facts = {json.dumps(facts)};
              const white = {{ ...gray, data: data.map((v) => 1 - v) }};
              const [a, b] = [strokesToRow(onBlack(gray), facts),
                strokesToRow(onBlack(white), facts)];
              if (a.some((v, i) => Math.abs(v - b[i]) > 1e-4)) throw 1;
              rows.push([...a]);
            }}
            writeFileSync("out.json", JSON.stringify(rows));
        """
        subprocess.run(
            [node, "--input-type=module", "-e", code], cwd=folder, check=True
        )
        found = json.loads((folder / "out.json").read_text())
        return np.reshape(found, pictures.shape)

    def test_a_picture_of_the_data_stays_as_it_is(self):
        """Strokes that fill the picture: the box is the whole of it."""
        pictures = service_case.rows()[:40].reshape(-1, 8, 8) / 16
        full = (pictures[:, [0, -1]] > 0.2).any(axis=2).all(axis=1)
        full &= (pictures[:, :, [0, -1]] < 0.1).all(axis=(1, 2))
        pictures = pictures[full]
        self.assertGreater(len(pictures), 5)
        got = self.rows(pictures, fill=1.0, zoom=10)
        want = pictures / pictures.max(axis=(1, 2), keepdims=True) * 16
        for mine, theirs in zip(got, want, strict=True):
            # Empty columns at the sides may be shared out otherwise.
            shifts = [np.roll(theirs, s, axis=1) for s in (-2, -1, 0, 1, 2)]
            near = min(np.abs(mine - shifted).max() for shifted in shifts)
            self.assertLess(near, 2.0)

    def test_centre_of_mass(self):
        rng = np.random.default_rng(0)
        pictures = np.zeros((6, 28, 28))
        for picture in pictures:
            top, left = rng.integers(0, 18, 2)
            picture[top : top + 10, left : left + 5] = 1
            picture[top : top + 3, left : left + 9] = 1
        got = self.rows(pictures, fill=20 / 28, zoom=10)
        places = np.arange(28) + 0.5
        for row in got:
            self.assertEqual(np.flatnonzero(row.any(axis=1)).size, 20)
            mass = row.sum()
            for axis in (0, 1):
                centre = (row.sum(axis=axis) * places).sum() / mass
                self.assertAlmostEqual(centre, 14, delta=0.5)
            self.assertAlmostEqual(row.max(), 16, places=3)


class SiteTest(case.TestCase):
    def test_what_npm_must_bring(self):
        out = os.path.join(export_fixtures.folder(), "site")
        before = os.environ["PATH"]
        self.addCleanup(os.environ.__setitem__, "PATH", before)
        os.environ["PATH"] = ""
        with self.assertRaisesRegex(RuntimeError, "Install Node.js"):
            site.write(out, service_case.prepared())
        with self.assertRaisesRegex(FileNotFoundError, "`dist` folder of"):
            site.write(out, service_case.prepared(), ort=before.split(":")[0])
        with self.assertRaisesRegex(FileNotFoundError, "Prepare a run first"):
            site.write(out, os.path.dirname(out))
        self.assertEmpty(os.listdir(os.path.dirname(out)))


if __name__ == "__main__":
    absltest.main()
