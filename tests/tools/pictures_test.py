"""The tool that draws the documents' pictures, where it needs no data."""

import os

from absl.testing import absltest

from tests.support import tool_runner


class PicturesTest(tool_runner.ToolTestCase):
    def test_training_is_drawn_from_committed_numbers(self):
        raw = tool_runner.ROOT / "docs" / "results" / "raw"
        done = tool_runner.run(
            "pictures", "--what=training", f"--raw={raw}", "--out=made"
        )
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(os.listdir("made"), ["training.png"])
        kept = tool_runner.ROOT / "docs" / "pictures" / "training.png"
        size = os.path.getsize("made/training.png")
        self.assertBetween(size / kept.stat().st_size, 0.5, 2)

    def test_unknown_pictures_are_refused_before_work(self):
        done = tool_runner.run("pictures", "--what=training,sunset")
        self.assertEqual(done.code, 1)
        self.assertIn("Received: sunset", done.err)
        self.assertEmpty(os.listdir("."))


if __name__ == "__main__":
    absltest.main()
