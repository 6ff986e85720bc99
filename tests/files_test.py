"""Files are complete, or as they were before."""

import json
import os
import tempfile

from absl.testing import absltest

from vdsh_tf import files


class FilesTest(absltest.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = self.enter_context(tempfile.TemporaryDirectory())
        self.path = os.path.join(self.folder, "a.json")

    def read(self):
        with open(self.path) as f:
            return f.read()

    def test_json_for_people(self):
        files.write_json(self.path, {"b": 1, "a": [0.5]})
        self.assertEqual(json.loads(self.read()), {"b": 1, "a": [0.5]})
        self.assertStartsWith(self.read(), '{\n  "b": 1,\n')
        self.assertEndsWith(self.read(), "}\n")

    def test_failure_leaves_the_old_file(self):
        files.write_json(self.path, {"a": 1})
        with self.assertRaises(TypeError):
            files.write_json(self.path, {"a": object()})
        with self.assertRaises(KeyError), files.replacing(self.path) as new:
            self.assertEndsWith(new, ".json")
            files.write_text(new, "half")
            raise KeyError
        self.assertEqual(json.loads(self.read()), {"a": 1})
        self.assertEqual(os.listdir(self.folder), ["a.json"])


if __name__ == "__main__":
    absltest.main()
