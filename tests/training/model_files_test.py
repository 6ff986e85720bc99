"""Model files that would take more than they hold are refused at once."""

import json
import os
import tempfile
import zipfile

from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf import VDSH
from vdsh_tf.training import runs


class ModelFilesTest(case.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        model = VDSH(layers=3, width=8, bits=8, num_classes=3)
        model.compile()
        model.build((None, 5))
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        path = os.path.join(folder, "model.keras")
        runs.save_model(model, path)
        with zipfile.ZipFile(path) as archive:
            cls.members = {n: archive.read(n) for n in archive.namelist()}

    def load(self, members):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.keras")
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, data in members.items():
                    archive.writestr(name, data)
            return runs.load_model(path)

    def changed(self, **settings):
        config = json.loads(self.members["config.json"])
        config["config"].update(settings)
        return {**self.members, "config.json": json.dumps(config)}

    def test_good(self):
        self.assertEqual(self.load(self.members).encoder.num_layers, 3)

    @parameterized.parameters(
        {"layers": 100_000},
        {"layers": 10**30},
        {"width": 10**9},
        {"bits": 10**12},
    )
    def test_sizes_without_weights(self, **settings):
        with self.assertRaisesRegex(ValueError, "bytes of weights"):
            self.load(self.changed(**settings))

    @parameterized.parameters(
        {"layers": "many"}, {"bits": None}, {"solver": 3}, {"schedule": []}
    )
    def test_settings_of_other_types(self, **settings):
        with self.assertRaisesRegex(ValueError, "whole .keras file"):
            self.load(self.changed(**settings))

    def test_bomb(self):
        bomb = {**self.members, "other.bin": bytes(50_000_000)}
        with self.assertRaisesRegex(ValueError, "would unpack to 50,"):
            self.load(bomb)

    @parameterized.parameters("config.json", "model.weights.h5")
    def test_missing_member(self, name):
        rest = {n: d for n, d in self.members.items() if n != name}
        with self.assertRaisesRegex(ValueError, "it lacks"):
            self.load(rest)


if __name__ == "__main__":
    absltest.main()
