"""Runs on disk: results, resuming, and damage that must not spread."""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from unittest import mock

import keras
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf import files
from vdsh_tf.recipes import Stages
from vdsh_tf.training import presets
from vdsh_tf.training import runs
from vdsh_tf.training import trainer
from vdsh_tf.training.config import TrainingConfig


def _config(**kwargs):
    settings = {
        "stages": Stages.parse("2:2:1e-2,4:2:5e-3"),
        "width": 16,
        "bits": 8,
        "noise": 0.1,
        "weight_decay": 0.1,
    }
    return TrainingConfig().replace(**{**settings, **kwargs})


class TrainTest(case.TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        self.split = trainer.load_data(_config())

    def _train(self, name, config):
        path = os.path.join(self.root, name)
        directory = runs.RunDirectory.create(path, config)
        return directory, trainer.train(directory, self.split, verbose=0)

    def _weights(self, directory):
        model = runs.load_model(directory.file("model.keras"))
        return [v.numpy() for v in model.weights]

    def test_run_directory_holds_what_it_says(self):
        directory, result = self._train("a", _config())
        self.assertTrue(directory.finished)
        self.assertContainsSubset(
            [
                "map",
                "precision_r2",
                "recall_r2",
                "empty_r2",
                "train_seconds",
                "bits",
                "layers",
                "width",
            ],
            result,
        )
        with open(directory.file("metrics.json")) as f:
            self.assertEqual(json.load(f), result)
        self.assertEqual(directory.config, _config())
        rows = directory.read_history()
        self.assertLen(rows, 4)
        self.assertEqual([r["layers"] for r in rows], ["2", "2", "4", "4"])
        self.assertGreater(float(rows[-1]["dual_3"]), 0)
        with open(directory.file("convergence.png"), "rb") as f:
            self.assertEqual(f.read(4), b"\x89PNG")
        self.assertNotEmpty(os.listdir(directory.file("tensorboard")))
        self.assertSameElements(
            os.listdir(directory.path),
            [
                "config.json",
                "data.json",
                "model.keras",
                "history.csv",
                "metrics.json",
                "convergence.png",
                "tensorboard",
            ],
        )
        self.assertEqual(directory.image_shape, (8, 8, 1))
        model = runs.load_model(directory.file("model.keras"))
        again = trainer.evaluate(model, self.split)
        self.assertEqual(again, {key: result[key] for key in again})

    # A large share makes each checkpoint worth it, a small one none.
    @parameterized.parameters(
        ("online", 0, 1e9, 0),
        ("online", 1, 1e9, 1),
        ("online", 2, 1e9, 2),
        ("online", 3, 1e-9, 1),
        ("full", 2, 1e-9, 2),
    )
    def test_interrupted_run_resumes_to_the_same_weights(
        self, schedule, epoch, share, kept
    ):
        stages = "2:2:1e-2,4:2:5e-3" if schedule == "online" else "3:4:1"
        config = _config(schedule=schedule, stages=Stages.parse(stages))
        whole, want = self._train("whole", config)
        path = os.path.join(self.root, "broken")
        broken = runs.RunDirectory.create(path, config)
        original = trainer.EpochRecord

        class Record(original):
            def on_epoch_begin(self, number, logs=None):
                if number == epoch:
                    raise KeyboardInterrupt

        with (
            mock.patch.object(trainer, "EpochRecord", Record),
            mock.patch.object(trainer, "CHECKPOINT_SHARE", share),
            self.assertRaises(KeyboardInterrupt),
        ):
            trainer.train(broken, self.split, verbose=0)
        self.assertFalse(broken.finished)
        self.assertEqual((broken.last_checkpoint() or (None, 0))[1], kept)
        self.assertLen(broken.read_history(), epoch)
        got = trainer.train(broken, self.split, verbose=0)
        for a, b in zip(
            self._weights(whole), self._weights(broken), strict=True
        ):
            self.assertEqual(a.tobytes(), b.tobytes())
        self.assertEqual(got["map"], want["map"])
        self.assertLen(broken.read_history(), 4)

    def test_run_that_another_process_trains(self):
        path = os.path.join(self.root, "a")
        directory = runs.RunDirectory.create(path, _config())
        code = (
            "import sys; from vdsh_tf import files\n"
            "with files.locked(sys.argv[1]): print('locked'); input()"
        )
        other = subprocess.Popen(
            [sys.executable, "-uc", code, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.assertEqual(other.stdout.readline(), "locked\n")
        with self.assertRaisesRegex(RuntimeError, "Only one process .* /.*/a "):
            trainer.train(directory, self.split, verbose=0)
        self.assertEqual(os.listdir(path), ["config.json"])
        other.communicate("\n")
        result = trainer.train(directory, self.split, verbose=0)
        # What another process has finished meanwhile is not trained again.
        seen = os.stat(directory.file("model.keras")).st_mtime_ns
        again = trainer.train(directory, self.split, verbose=0)
        self.assertEqual(again, result)
        self.assertEqual(
            os.stat(directory.file("model.keras")).st_mtime_ns, seen
        )

    def test_validation_is_logged_and_queries_are_not_used(self):
        config = _config(validation_per_class=10)
        split = trainer.load_data(config)
        path = os.path.join(self.root, "v")
        directory = runs.RunDirectory.create(path, config)
        trainer.train(directory, split, verbose=0)
        self.assertIn("val_map", directory.read_history()[-1])
        self.assertLen(split.validation, 100)

    def test_existing_run_directory_is_never_touched(self):
        path = os.path.join(self.root, "old")
        os.makedirs(path)
        with open(os.path.join(path, "model.keras"), "w") as f:
            f.write("precious")
        with self.assertRaisesRegex(FileExistsError, "old.*--resume"):
            runs.RunDirectory.create(path, _config())
        self.assertEqual(os.listdir(path), ["model.keras"])

    def test_damaged_model(self):
        directory, _ = self._train("a", _config())
        path = directory.file("model.keras")
        with open(path, "r+b") as f:
            f.truncate(os.path.getsize(path) // 2)
        with self.assertRaisesRegex(ValueError, "model.keras must be a whole"):
            runs.load_model(path)

    def test_missing_model(self):
        with self.assertRaisesRegex(FileNotFoundError, "Train first"):
            runs.load_model(os.path.join(self.root, "model.keras"))

    def test_foreign_model(self):
        path = os.path.join(self.root, "other.keras")
        keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]).save(path)
        with self.assertRaisesRegex(ValueError, "VDSH model.*Sequential"):
            runs.load_model(path)

    def test_damaged_config(self):
        directory = runs.RunDirectory.create(
            os.path.join(self.root, "a"), _config()
        )
        for text, pattern in (
            (b"{", "config.json must be JSON"),
            (b"\xff", "config.json must be JSON"),
            (b"[" * 100_000, "config.json must be JSON"),
            (b"[1]", "config.json must be a JSON object.*list"),
        ):
            with open(directory.file("config.json"), "wb") as f:
                f.write(text)
            with self.assertRaisesRegex(ValueError, pattern):
                _ = directory.config


class RunsTest(case.TestCase):
    def test_newest_and_next_names(self):
        with tempfile.TemporaryDirectory() as root:
            with self.assertRaisesRegex(FileNotFoundError, "finished run"):
                runs.newest(root)
            self.assertEqual(runs.new_path(root, "a"), f"{root}/a-001")
            for number, name in enumerate(("a-001", "b-001", "a-002")):
                made = runs.RunDirectory.create(f"{root}/{name}", _config())
                os.utime(made.file("config.json"), (number, number))
                if name != "a-002":
                    made.write_json("metrics.json", {})
            self.assertEqual(runs.new_path(root, "a"), f"{root}/a-003")
            self.assertEqual(runs.newest(root).path, f"{root}/b-001")
            self.assertEqual(
                runs.newest(root, finished=False).path, f"{root}/a-002"
            )

    def test_settings_round_trip(self):
        config = _config(gamma=2.0, schedule="full")
        text = json.dumps(config.to_json())
        self.assertEqual(TrainingConfig.from_json(json.loads(text)), config)
        with self.assertRaisesRegex(ValueError, "none named 'speed'"):
            TrainingConfig.from_json({**config.to_json(), "speed": 1})

    def test_reads_settings_of_0_1(self):
        flat = {
            "data": "mnist",
            "stages": [{"layers": 4, "epochs": 2, "learning_rate": 1e-3}],
            "bits": 32,
            "seed": 3,
            "margin": 0.1,
            "keep_error": True,
            "input_metric": 0.3,
            "jacobi": None,
        }
        want = TrainingConfig().replace(
            noise=0.0,
            weight_decay=0.0,
            normalization="unit",
            data="mnist",
            stages=Stages.parse("4:2:1e-3"),
            bits=32,
            seed=3,
            margin=0.1,
            preserve_error_norm=True,
            mean_damping=0.3,
            goal="class",
        )
        self.assertEqual(TrainingConfig.from_json(flat), want)

    @parameterized.parameters(
        {"batch_size": 0},
        {"noise": -1.0},
        {"dropout": 1.0},
        {"seed": -1},
        {"width": 2.5},
        {"queries_per_class": -1},
        {"queries_per_class": 0},
        {"seed": 2**32},
        {"warmup": 1.0},
    )
    def test_bad_settings_name_the_value(self, **settings):
        ((name, value),) = settings.items()
        with self.assertRaisesRegex(ValueError, f"`{name}` must.*{value}"):
            _config(**settings)

    def test_weights_must_fit_in_memory(self):
        # 4 layers: from an input of 1, twice 16 x 16, and to 8 bits.
        config = _config()
        self.assertEqual(config.weight_bytes, 16 * (16 + 2 * 256 + 128))
        config.check_memory(config.weight_bytes)
        with self.assertRaisesRegex(ValueError, "must make a network that fit"):
            config.check_memory(config.weight_bytes - 1)
        one = _config(stages=Stages.parse("1:1:1e-3"))
        self.assertEqual(one.weight_bytes, 16 * 8)

    @parameterized.parameters(
        ({"source": 3, "optimization": {}}, "source is 3"),
        ({"optimization": []}, "optimization is"),
        ({"optimization": {"stages": 3}}, "stages as text"),
        ({"optimization": {}}, "stages"),
        (
            {"schedule": ["x"], "optimization": {"stages": None}},
            "online or full",
        ),
        ({"source": {"path": 3}, "optimization": {"stages": None}}, "text"),
        ({"stages": 5}, "stages as text"),
    )
    def test_config_of_other_types(self, data, message):
        with self.assertRaisesRegex(ValueError, message):
            TrainingConfig.from_json(data)

    def test_depth_and_epochs_adapt_the_stages(self):
        stages = Stages.parse("4:3:1e-3,16:3:1e-3,48:2:1e-4")
        config = _config(stages=stages).with_layers(8).with_epochs(9)
        got = config.optimization.stages
        self.assertEqual([s.layers for s in got], [4, 8, 8])
        self.assertEqual([s.epochs for s in got], [3, 3, 9])

    @parameterized.parameters("", "4:4", "4:4:fast", "4:0:1e-3", "4:4:1e-3,")
    def test_bad_stages(self, text):
        with self.assertRaisesRegex(ValueError, "layers:epochs:learning_rate"):
            Stages.parse(text)

    def test_every_setting_is_documented(self):
        config = TrainingConfig()
        for group in (
            config.source,
            config.network,
            config.optimization,
            config.solver,
        ):
            for field in dataclasses.fields(group):
                if field.name in ("layers", "epochs"):
                    continue  # Tools have flags of their own for these.
                text = field.metadata["custom_args"]["help"]
                self.assertGreater(len(text), 10, field.name)

    def test_unknown_preset(self):
        with self.assertRaisesRegex(ValueError, "digits, .*'imagenet'"):
            presets.get("imagenet")

    def test_every_preset_makes_a_model(self):
        for name, config in presets.PRESETS.items():
            with self.subTest(name):
                model = trainer.build_model(config, num_classes=10)
                self.assertEqual(model.encoder.num_layers, config.layers)


class FilesTest(case.TestCase):
    def test_error_leaves_the_old_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.txt")
            files.write_text(path, "old")
            with (
                self.assertRaises(ZeroDivisionError),
                files.replacing(path) as partial,
            ):
                files.write_text(partial, "half")
                raise ZeroDivisionError
            with open(path) as f:
                self.assertEqual(f.read(), "old")
            self.assertEqual(os.listdir(folder), ["a.txt"])


class ImportTest(case.TestCase):
    def test_import_is_light(self):
        heavy = "tensorflow_datasets onnx tf2onnx faiss onnxruntime"
        code = (
            "import sys, vdsh_tf.data.datasets, vdsh_tf.training.trainer;"
            f"print([m for m in '{heavy}'.split() if m in sys.modules])"
        )
        out = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
        )
        self.assertEqual(out.stdout.strip(), "[]")


if __name__ == "__main__":
    absltest.main()
