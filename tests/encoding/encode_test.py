"""Parquet in, Parquet out, in this process: every row once, and restartable."""

import json
import os
import pathlib

import numpy as np
import pytest
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import export_fixtures
from tests.support import tool_runner

pa = pytest.importorskip("pyarrow", reason="needs `pip install pyarrow`")

from tests.support import parquet_parts as support  # noqa: E402
from vdsh_tf.encoding import jobs  # noqa: E402
from vdsh_tf.encoding import onnx_encoder  # noqa: E402
from vdsh_tf.encoding import parts as parts_lib  # noqa: E402
from vdsh_tf.search.hamming import HammingIndex  # noqa: E402


class EncodeTest(tool_runner.ToolTestCase):
    def encode(self, *flags, input="data/*.parquet", out="codes"):
        return tool_runner.run_tool(
            "encode",
            f"--input={input}",
            f"--out={out}",
            f"--encoder={support.encoder()}",
            "--batch_size=256",
            *flags,
        )

    def encode_ok(self, *flags, **kwargs):
        out, error = self.encode(*flags, **kwargs)
        self.assertIsNone(error)
        return out

    def encode_bad(self, message, *flags, **kwargs):
        _, error = self.encode(*flags, **kwargs)
        self.assertRegex(error or "no error", f"(?s)^error: .*{message}")

    def report(self):
        with open("codes/report.json") as f:
            return json.load(f)

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
    def test_a_pipe_is_no_encoder(self):
        """It is refused, not waited for."""
        support.write_all("data", (3,))
        os.mkfifo("pipe.onnx")
        self.encode_bad("an exported encoder at", "--encoder=pipe.onnx")

    def test_every_row_once(self):
        x = support.write_all("data", (700, 1, 0, 512))
        out = self.encode_ok("--columns=label")
        self.assertRegex(out, "1213 codes in 4 parts; 1213 made now")
        table = support.read_all("codes")
        self.assertEqual(table.column_names, ["id", "code", "label"])
        self.assertEqual(table["code"].type, pa.binary(2))
        self.assert_equal(support.codes(table), export_fixtures.codes(x))
        ids = [
            np.arange(count)[::-1] + 10**6 * number
            for number, count in enumerate((700, 1, 0, 512))
        ]
        self.assert_equal(table["id"].to_numpy(), np.concatenate(ids))
        labels = [np.arange(count) % 7 for count in (700, 1, 512)]
        self.assert_equal(table["label"].to_numpy(), np.concatenate(labels))
        report = self.report()
        self.assertEqual((report["rows"], report["failures"]), (1213, []))
        self.assertGreater(report["rows_per_second"], 0)

    def test_row_numbers_without_an_id_column(self):
        support.write_all("data", (300, 20), with_ids=False)
        self.encode_ok()
        ids = support.read_all("codes")["id"].to_numpy()
        self.assert_equal(ids, np.arange(320))

    def test_folders_below(self):
        support.write_all("data/a", (30,))
        support.write_all("data/b", (20,))
        self.encode_ok(input="data/**/*.parquet")
        for name, count in (("a", 30), ("b", 20)):
            self.assertLen(support.read_all(f"codes/{name}"), count)

    def test_lists_of_any_length_that_are_of_one(self):
        x = support.rows(50)
        os.mkdir("data")
        table = pa.table({"v": pa.array(x.tolist(), pa.list_(pa.float64()))})
        support.pq.write_table(table, "data/a.parquet")
        self.encode_ok("--features=v")
        got = support.codes(support.read_all("codes"))
        self.assert_equal(got, export_fixtures.codes(x))
        short = pa.array([*x[:9].tolist(), [1.0] * 63], pa.list_(pa.float64()))
        support.pq.write_table(pa.table({"v": short}), "data/a.parquet")
        self.encode_bad("64 wide in every row. Received: 63 in row 9")

    def test_finished_parts_are_not_done_again(self):
        support.write_all("data", (90, 80, 70))
        self.encode_ok()
        old = {
            p: p.stat().st_mtime_ns for p in pathlib.Path("codes").glob("p*")
        }
        self.assertLen(old, 3)
        self.assertRegex(self.encode_ok(), "240 codes in 3 parts; 0 made now")
        os.remove("codes/part-001.parquet")
        out = self.encode_ok()
        self.assertRegex(out, "240 codes in 3 parts; 80 made now")
        for path, time in old.items():
            if path.name != "part-001.parquet":
                self.assertEqual(path.stat().st_mtime_ns, time)

    @parameterized.parameters("data", "codes")
    def test_what_changed_is_done_again(self, folder):
        support.write_all("data", (90, 80))
        self.encode_ok()
        if folder == "data":
            x = support.rows(85, seed=9)
            support.write("data/part-001.parquet", x, id=np.arange(85))
            want = "175 codes in 2 parts; 85 made now"
        else:
            path = pathlib.Path("codes/part-001.parquet")
            path.write_bytes(path.read_bytes()[:-20])
            want = "170 codes in 2 parts; 80 made now"
        self.assertRegex(self.encode_ok(), want)

    def test_other_columns_are_done_again(self):
        support.write_all("data", (90,))
        self.encode_ok()
        self.assertRegex(self.encode_ok("--columns=label"), "90 made now")
        self.assertIn("label", support.read_all("codes").column_names)

    def test_record_names_input_and_encoder(self):
        support.write_all("data", (90,))
        self.encode_ok()
        record = parts_lib.read_record("codes/part-000.parquet")
        self.assertEqual(
            record["fingerprint"], export_fixtures.model().encoder.fingerprint()
        )
        content = pathlib.Path("data/part-000.parquet").read_bytes()
        self.assertEqual(
            record["sha256"], parts_lib.hashlib.sha256(content).hexdigest()
        )

    def test_a_bad_part_does_not_stop_the_others(self):
        support.write_all("data", (90, 80, 70))
        path = pathlib.Path("data/part-001.parquet")
        data = bytearray(path.read_bytes())
        # Within the column chunks; the footer stays whole.
        data[4:2000] = bytes(1996)
        path.write_bytes(data)
        self.encode_bad("1 of 3 parts have no codes.*part-001.parquet")
        self.assertCountEqual(
            os.listdir("codes"),
            ["part-000.parquet", "part-002.parquet", "report.json"],
        )
        self.assertLen(self.report()["failures"], 1)
        x = support.rows(80)
        support.write(str(path), x, id=np.arange(80), label=np.arange(80))
        self.assertRegex(self.encode_ok(), "240 codes in 3 parts; 80 made now")

    @parameterized.parameters(np.nan, np.inf, 0)
    def test_row_without_a_code(self, value):
        x = support.rows(600)
        x[517] = value
        os.mkdir("data")
        support.write("data/a.parquet", x)
        self.encode_bad("Rows 512 to 599 cannot be encoded.*in row 5")
        self.assertEqual(os.listdir("codes"), ["report.json"])

    def test_refused_before_anything_is_written(self):
        support.write_all("data", (90, 80))
        for name, write, message in (
            (
                "width",
                lambda p: support.write(p, support.rows(9)[:, :60], id=[1] * 9),
                "64 wide.*Received: 60 in column 'features' of .*zz.parquet",
            ),
            (
                "damaged",
                lambda p: pathlib.Path(p).write_bytes(b"PAR1 and nothing"),
                "complete Parquet file.*",
            ),
            ("empty", lambda p: pathlib.Path(p).touch(), "zz.parquet must be"),
            (
                "no id",
                lambda p: support.write(p, support.rows(9)),
                "must have the column 'id'.*zz.parquet",
            ),
            (
                "other id",
                lambda p: support.write(p, support.rows(9), id=["a"] * 9),
                "'id' must be of one type.*string in .*zz.parquet",
            ),
        ):
            with self.subTest(name):
                write("data/zz.parquet")
                self.encode_bad(message)
                self.assertFalse(os.path.exists("codes"))

    def test_bad_flags(self):
        support.write_all("data", (9,))
        self.encode_bad("which names none", input="none/*.parquet")
        self.encode_bad("must have the column 'x'", "--columns=x")
        self.encode_bad("must have the column 'x'", "--features=x")
        self.encode_bad("must be a list of numbers", "--features=label")
        self.encode_bad("must be distinct", "--columns=id")
        self.encode_bad("must name a folder", out="a.npy")
        self.encode_bad("must not overwrite", out="data")
        self.encode_bad("an exported encoder at none", "--encoder=none")
        self.encode_bad("must be an encoder.onnx", f"--encoder={__file__}")
        _, error = tool_runner.run_tool("encode", "--input=x.npy", "--id=a")
        self.assertRegex(error, "--id is for Parquet files")

    def test_codes_of_no_input(self):
        support.write_all("data", (9, 8))
        self.encode_ok()
        os.remove("data/part-001.parquet")
        self.encode_bad("no other Parquet files.*part-001.parquet")

    def test_file_that_changes_meanwhile(self):
        support.write_all("data", (900,))
        content = onnx_encoder.read(support.encoder())
        job, (part,) = jobs.plan("data/*.parquet", "codes", content)
        encoder = onnx_encoder.OnnxEncoder(content)

        def changing(x):
            os.utime("data/part-000.parquet")
            with open("data/part-000.parquet", "ab") as f:
                f.write(b"x")
            return encoder(x)

        outcome = parts_lib.process(job, part, changing)
        self.assertIn("must not change", outcome.error)
        self.assertEmpty(os.listdir("codes"))

    def test_from_rows_to_hits(self):
        """Codes of a job go into an index; their ids come out of it."""
        x = support.write_all("data", (90, 80))
        self.encode_ok()
        for kind, more in (("hash", ()), ("flat", ("--mapped",))):
            _, error = tool_runner.run_tool(
                "index",
                "--codes=codes/*.parquet",
                f"--index=faiss:{kind}.index",
                f"--kind={kind}",
                *more,
            )
            self.assertIsNone(error)
            index = HammingIndex.load(
                f"{kind}.index", export_fixtures.model().encoder
            )
            self.assertLen(index, 170)
            ball = index.radius_search(export_fixtures.codes(x[90:91]), 0)
            self.assertIn(10**6 + 79, ball.ids)


if __name__ == "__main__":
    absltest.main()
