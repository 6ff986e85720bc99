"""From a file to shards, a run on them, and all tools that come after."""

import json
import os

import numpy as np
from absl.testing import absltest

from tests.support import shard_files
from tests.support import tool_runner
from tests.support.tool_runner import run_tool
from vdsh_tf.training import runs
from vdsh_tf.training import trainer

SMALL = ("--stages=2:1:1e-2,3:2:1e-2", "--width=8", "--bits=8", "--verbose=0")
SHARDS = ("--data=shards", "--path=shards", "--query_share=0.1")


class ShardTest(tool_runner.ToolTestCase):
    def setUp(self):
        super().setUp()
        x, y = shard_files.make_rows(900)
        np.savez("mine.npz", features=x, labels=y)
        self.work("shard", "--input=mine.npz", "--out=shards", "--rows=200")

    def work(self, name, *flags):
        code, out, err = tool_runner.run(name, *flags)
        self.assertEqual(code, 0, err)
        return out

    def test_from_training_to_queries(self):
        self.work(
            "train", *SMALL, *SHARDS, "--validation_share=0.1", "--run_dir=a"
        )
        with open("a/metrics.json") as f:
            want = json.load(f)
        self.assertEqual(want["queries"] + want["database"], 900)
        history = runs.RunDirectory.open("a").read_history()
        self.assertIn("val_map", history[-1])
        got = json.loads(self.work("evaluate", "--run_dir=a", "--json"))
        self.assertEqual(got, {key: want[key] for key in got})
        self.work("encode", "--run_dir=a")
        self.assertLen(np.load("a/codes.npy"), want["database"])
        self.work("index", "--run_dir=a")
        found = self.work("query", "--run_dir=a", "--k=1")
        self.assertLen(found.splitlines(), 1 + want["queries"])
        self.work("export", "--run_dir=a", "--onnx")
        self.assertIn("encoder.onnx", os.listdir("a/export"))

    def test_resumed_run_ends_with_the_same_weights(self):
        self.work("train", *SMALL, *SHARDS, "--run_dir=whole")
        original = trainer.EpochRecord

        class Record(original):
            def on_epoch_begin(self, number, logs=None):
                if number == 2:
                    raise RuntimeError("stopped")

        trainer.EpochRecord = Record
        try:
            _, error = run_tool("train", *SMALL, *SHARDS, "--run_dir=broken")
        finally:
            trainer.EpochRecord = original
        self.assertRegex(error, "stopped")
        self.work("train", "--resume", "--run_dir=broken", "--verbose=0")
        a, b = (
            runs.load_model(f"{name}/model.keras")
            for name in ("whole", "broken")
        )
        for one, other in zip(a.weights, b.weights, strict=True):
            self.assertEqual(one.numpy().tobytes(), other.numpy().tobytes())
        with open("whole/metrics.json") as f, open("broken/metrics.json") as g:
            self.assertEqual(json.load(f)["map"], json.load(g)["map"])

    def test_changed_shards_are_refused(self):
        self.work("train", *SMALL, *SHARDS, "--run_dir=a")
        # Moved, and read again: the same rows.
        os.rename("shards", "moved")
        self.work("evaluate", "--run_dir=a", "--path=moved")
        x, y = shard_files.make_rows(50, seed=1)
        shard_files.write("moved", x, y, parts=1, first=9)
        _, error = run_tool("evaluate", "--run_dir=a", "--path=moved")
        self.assertRegex(error, "^error: The data must be what a was trained")

    def test_file_that_is_gone_during_training(self):
        original = trainer.EpochRecord

        class Record(original):
            def on_epoch_begin(self, number, logs=None):
                if number == 2:
                    os.remove("shards/part-00001.npy")

        trainer.EpochRecord = Record
        try:
            _, error = run_tool(
                "train", *SMALL, *SHARDS, "--run_dir=a", "--batch_size=16"
            )
        finally:
            trainer.EpochRecord = original
        self.assertRegex(error, "^error: .*part-00001.npy must be there")
        # What was trained until then can be resumed from.
        self.assertNotIn("metrics.json", os.listdir("a"))
        self.assertIn("checkpoints", os.listdir("a"))

    def test_bad_flags(self):
        for name, flags, pattern in (
            ("shard", (), "Give --input and --out"),
            ("shard", ("--input=no.npz", "--out=b"), "no.npz"),
            ("train", ("--data=shards",), "`shards` needs `path`"),
            ("train", (*SHARDS, "--query_share=1"), "`query_share` must"),
            (
                "train",
                (*SHARDS, "--queries_per_class=3"),
                "held out by shares",
            ),
            ("train", (*SHARDS, "--schedule=full", *SMALL), "full.*on disk"),
        ):
            with self.subTest(flags):
                _, error = run_tool(name, *flags)
                self.assertRegex(error, f"^error: .*{pattern}")


if __name__ == "__main__":
    absltest.main()
