"""VDSH: a Keras model whose `fit` is Algorithm 1, without back-propagation."""

import dataclasses
import functools

import keras
import numpy as np
import tensorflow as tf

from vdsh_tf import codes
from vdsh_tf import config as config_lib
from vdsh_tf import network
from vdsh_tf import optimizers
from vdsh_tf import recipes
from vdsh_tf.callbacks import planning
from vdsh_tf.callbacks.step_metrics import StepMetrics
from vdsh_tf.data import batches
from vdsh_tf.data import entries
from vdsh_tf.data import inputs
from vdsh_tf.data import mixing
from vdsh_tf.data import normalization
from vdsh_tf.data import tensors
from vdsh_tf.data import training_data
from vdsh_tf.data.shards.rows import StoredRows
from vdsh_tf.data.training_data import TrainingData
from vdsh_tf.distribution.replicated import Replicated
from vdsh_tf.encoder import HashEncoder
from vdsh_tf.recipes import Recipe
from vdsh_tf.solver import preservation
from vdsh_tf.solver import schedules

# In memory at a time, of rows that stay on disk.
_NUMBERS = 1 << 24


@keras.saving.register_keras_serializable("vdsh_tf")
class VDSH(entries.CheckedModel, StepMetrics, Replicated):
    """Very Deep Supervised Hashing.

    ```python
    model = VDSH(layers=8, width=256, bits=64, num_classes=10)
    model.compile()
    model.fit(x, y, epochs=10)
    codes = model.encode(x)  # uint8, 8 bits per byte
    ```

    Args:
        layers, width, bits, initializer, grow_from, seed, normalization: see
            `HashEncoder`. `layers` counts the code layer, as M does in the
            paper.
        num_classes: C, number of labels.
        schedule: "online" (batches, the default) or "full" (Algorithm 1 to
            the letter; memory 5 N sum_m D_m).
        solver: `config.Solver` (or its fields as a dictionary); what it
            leaves open gets the schedule's usual value. As an attribute, all
            values are set.

    Made and compiled in the `scope()` of a `tf.distribute` strategy
    (`MirroredStrategy`, `MultiWorkerMirroredStrategy`), it is trained by all of
    its devices: see docs/scaling.md.
    """

    def __init__(
        self,
        layers: int = 8,
        width: int = 256,
        bits: int = 64,
        num_classes: int = 10,
        schedule: str = "online",
        solver: config_lib.Solver | dict | None = None,
        initializer: str = "looks_linear",
        grow_from: int | None = None,
        seed: int = 0,
        normalization: str = "auto",
        **kwargs,
    ):
        config_lib.require(
            config_lib.is_count(num_classes, 2),
            "num_classes",
            num_classes,
            "an integer >= 2",
            "or there is nothing to tell apart",
        )
        solver = config_lib.Solver.make(solver)
        algorithm = schedules.make(schedule)
        solver = solver.resolved(schedule)
        super().__init__(**kwargs)
        self._check_precision()
        self.num_classes = int(num_classes)
        self.schedule = schedule
        self.solver = solver
        self.algorithm = algorithm
        self.encoder = HashEncoder(
            layers,
            width,
            bits,
            initializer,
            grow_from,
            seed,
            normalization,
            dtype=self.dtype_policy,
            name="encoder",
        )
        self.encoder._distribute_strategy = None
        self._add_metrics(self.encoder.num_layers)

    def _check_precision(self):
        policy = self.dtype_policy
        if (
            policy.compute_dtype != policy.variable_dtype
            or policy.compute_dtype not in ("float32", "float64")
        ):
            raise ValueError(
                "`dtype` must be float32 or float64: the solver's linear "
                "systems cannot be solved in half precision, and moves of "
                f"front layers can be 1e-12. Received: {policy.name}. Use "
                'VDSH(..., dtype="float32"), whatever the global policy is; '
                "for speed, compile with jit_compile=True."
            )

    def build(self, input_shape):
        if self.built:
            return
        with self.scope():
            self._build(input_shape)
        self.built = True

    def _build(self, input_shape):
        self.encoder.build(input_shape)
        # Small and random: an exact ridge fit on random codes learns noise.
        others = preservation.columns(self.solver)
        self.classifier = self.add_weight(
            name="classifier",
            shape=(self.encoder.bits, self.num_classes + others),
            initializer=keras.initializers.RandomNormal(
                stddev=0.1, seed=self.encoder.seed
            ),
        )
        # Of the targets beside the labels; zeros until data was seen.
        self.projection = self._add_fixed((input_shape[-1], others))
        self.offset = self._add_fixed((others,))

    def _add_fixed(self, shape):
        if not shape[-1]:
            return None
        return self.add_weight(
            shape=shape, initializer="zeros", trainable=False
        )

    def compute_output_shape(self, input_shape):
        return self.encoder.compute_output_shape(input_shape)

    def call(self, inputs):
        return self.encoder(inputs)

    def compile(
        self,
        optimizer="auto",
        recipe="auto",
        steps_per_execution: int = 1,
        jit_compile="auto",
        run_eagerly: bool = False,
        **others,
    ):
        """Chooses how the moves of a batch are applied, and how `fit` trains.

        Args:
            optimizer: a Keras optimizer, which gets the consensus move
                `theta - theta+` as its gradient; None for line 12 as it
                stands; "auto" for Adam (None for the full schedule).
            recipe: "auto" plans depth growth, rates, warm-up, noise and
                weight decay from the network and the number of epochs; a
                `Recipe` states some or all of them; None trains all layers
                at the optimizer's own rate. With an optimizer of yours, its
                rate is that of the first stage, and its weight decay counts.
            steps_per_execution, jit_compile, run_eagerly: as in Keras.
            **others: refused: Algorithm 1 has its own objective, and metrics
                are those of retrieval.
        """
        entries.refuse_losses(others)
        self._compile_args = {
            "optimizer": optimizer,
            "steps_per_execution": steps_per_execution,
            "jit_compile": jit_compile,
            "run_eagerly": run_eagerly,
        }
        recipe = Recipe.make(recipe)
        with self.scope():
            made = optimizers.for_schedule(optimizer, self.algorithm, recipe)
        if self.replicas is not None:
            made = optimizers.for_replicas(made, self.scope())
        # What was asked for; `recipe` gets the stages that `fit` plans.
        self._recipe = recipe
        if not isinstance(optimizer, str):
            self._recipe = optimizers.with_rate_of(made, recipe)
        self.recipe = self._recipe
        super().compile(
            optimizer=made,
            steps_per_execution=steps_per_execution,
            jit_compile=jit_compile,
            run_eagerly=run_eagerly,
        )

    @tensors.explained()
    def fit(
        self,
        x=None,
        y=None,
        batch_size=None,
        epochs=1,
        verbose="auto",
        callbacks=None,
        validation_split=0.0,
        validation_data=None,
        shuffle=True,
        class_weight=None,
        sample_weight=None,
        initial_epoch=0,
        **kwargs,
    ):
        """Trains; takes what `keras.Model.fit` takes.

        Features and labels are checked before, or for batches while, they
        are used. A sample of weight w counts as w equal samples. With
        validation data, the logs have `val_map`, retrieval among at most
        10,000 of its rows. `loss` is another name of the objective. The full
        schedule needs all data at hand: pass arrays or a finite dataset, in a
        fixed order. Of several workers, each gives all data: it takes its
        slice of every batch.
        """
        self.require_compiled()
        self.check_scope()
        data = TrainingData(x, y, sample_weight, batch_size, shuffle)
        scale_free = self.encoder.scale_free
        data, held_out = data.checked(
            self.input_width, self.num_classes, self.encoder.seed, scale_free
        ).split(validation_split)
        data = data.weighted(class_weight, self.num_classes)
        validation_data, seen = training_data.validation(
            held_out or validation_data,
            data.width,
            self.num_classes,
            scale_free,
        )
        self.build((None, data.width))
        if not self.encoder.adapted:
            self.encoder.adapt(data.look())
        self._adapt_targets(data)
        if self.optimizer is not None and not self.optimizer.built:
            with self.scope():
                self.optimizer.build(self.trainable_variables)
        self.recipe, planned = planning.plan(
            self,
            self._recipe,
            data,
            seen,
            callbacks,
            epochs,
            initial_epoch,
        )
        clock = planning.EpochClock(initial_epoch)
        with data.explained():
            return super().fit(
                **{**self._arguments(data, clock.epoch), **kwargs},
                epochs=epochs,
                verbose=verbose,
                initial_epoch=initial_epoch,
                callbacks=[clock, *planned],
                validation_data=validation_data,
            )

    def _adapt_targets(self, data):
        """Learns what codes predict beside the labels, once."""
        if self.projection is None or np.any(self.projection):
            return
        rows, weight = data.sample(normalization.MOST_ROWS)
        rows = np.asarray(self.encoder.normalize(rows))
        found = preservation.projection(rows, self.solver, weight)
        self.projection.assign(found[0])
        self.offset.assign(found[1])

    def _labels(self, y):
        return tensors.label_vectors(y, self.num_classes, self.compute_dtype)

    def _targets(self, labels, x):
        """Label vectors, and what is predicted beside them."""
        if self.projection is None:
            return labels
        fixed = map(tf.convert_to_tensor, (self.projection, self.offset))
        return preservation.targets(labels, x, *fixed)

    def _step_seed(self):
        """A function of the step, so that resumed training is the same."""
        step = tf.cast(self.optimizer.iterations.value, tf.int64)
        return tf.stack([tf.constant(self.encoder.seed, tf.int64), step])

    def _arguments(self, data, epoch):
        """What Keras trains on, as keywords of its `fit`."""
        if not self.algorithm.takes_optimizer:
            dataset = self.prepare(data).batch(data.full_batch)
            return {"x": dataset, "shuffle": False}
        perturbation = batches.Perturbation()
        if self.recipe is not None:
            perturbation = batches.Perturbation(
                self.recipe.noise,
                self.recipe.dropout,
                *self.encoder.normalization_arrays(),
            )
        return data.arguments(self.encoder.seed, epoch, perturbation)

    def prepare(self, data):
        """Rows with their places in the store of the full schedule."""
        if data.stored:
            raise ValueError(
                'schedule="full" keeps state for every sample in memory, and '
                'must have the data there, too. Use schedule="online" for '
                "rows that stay on disk."
            )
        shards = None
        if self.replicas is not None:
            shards = functools.partial(
                self.replicas.shards, batch_size=data.full_batch
            )
        store = self.store
        prepared = self.algorithm.prepare(
            self.weights_as_tensors(),
            data.x if data.streamed else data.arrays,
            self.solver,
            self.encoder.normalize,
            shards,
        )
        if self.store is not store:
            # A traced step would go on with the old one.
            self.train_function = None
        return prepared

    @property
    def takes_row_before(self):
        """Mixtures and chimeras take something of the row before."""
        if self.recipe is None or self.optimizer is None:
            return False
        return self.recipe.takes_row_before

    def train_part(self, data, place):
        x, y, weight = keras.utils.unpack_x_y_sample_weight(data)
        x, *index = x if isinstance(x, tuple) else (x,)
        x = self.encoder.normalize(x)
        labels, counted = self._labels(y), weight
        if self.takes_row_before:
            x, labels, weight, counted = mixing.blended(
                x, labels, weight, self.recipe, self._step_seed(), place
            )
        y = self._targets(labels, x)
        theta, classifier = self.weights_as_tensors()
        group = None
        if place is not None:
            group = self.group(
                lambda rows: self._sums(rows, y, classifier, counted)
            )
        update = self.algorithm.step(
            theta,
            classifier,
            (x, *index) if index else x,
            y,
            self.solver,
            self.optimizer is None,
            weight,
            group,
        )
        self.apply_moves(
            [*self.encoder.active_kernels, self.classifier],
            [*update.theta, update.classifier],
        )
        residual = self._update_layer_metrics(update.trace)
        if group is None:
            logs = self._update_metrics(
                update.trace.embedding, y, theta, classifier, counted
            )
        else:
            logs = self._update_from_sums(
                *update.trace.measured, theta, classifier
            )
        return {**logs, **residual, "loss": logs["objective"]}

    def test_step(self, data):
        x, y, weight = keras.utils.unpack_x_y_sample_weight(data)
        theta, classifier = self.weights_as_tensors()
        x = self.encoder.normalize(x)
        embedding = network.embed(x, theta)
        return self._update_metrics(
            embedding,
            self._targets(self._labels(y), x),
            theta,
            classifier,
            weight,
        )

    def encode(self, x, batch_size: int = 1024) -> np.ndarray:
        """Packed codes of raw features: [n, d] -> [n, ceil(K/8)] uint8.

        StoredRows are encoded piece by piece.
        """
        self.require_weights()
        self._require_size(batch_size)
        if isinstance(x, StoredRows):
            pieces = x.batches(max(batch_size, _NUMBERS // x.shape[1]))
            return np.concatenate([self.encode(p, batch_size) for p in pieces])
        # Batches would give codes in an order that nobody knows.
        x = inputs.check_features(x, self.input_width, self.encoder.scale_free)
        embedding = keras.Model.predict(self, x, batch_size, verbose=0)
        if not np.isfinite(embedding).all():
            self.encoder.check_finite()
            raise ValueError(
                "Embeddings must be finite, but leave the range of float32: "
                "the weights are far too large. Train anew, at a smaller rate."
            )
        return codes.pack(codes.binarize(embedding))

    def set_depth(self, depth: int) -> None:
        """Activates layers (see `HashEncoder.set_depth`), and retraces."""
        if depth == self.encoder.depth:
            return
        if self.store is not None:
            raise ValueError(
                "The full schedule keeps state for a fixed set of layers; "
                'grow depth with schedule="online".'
            )
        self.encoder.set_depth(depth)
        self.train_function = self.test_function = None
        self.predict_function = None

    @property
    def store(self):
        """State per sample of the full schedule, or None."""
        return self.algorithm.store

    def weights_as_tensors(self):
        """Active kernels, and the classifier."""
        kernels = self.encoder.active_kernels
        theta = tuple(tf.convert_to_tensor(k.value) for k in kernels)
        return theta, tf.convert_to_tensor(self.classifier.value)

    def get_config(self):
        encoder = self.encoder
        return {
            **super().get_config(),
            "layers": encoder.num_layers,
            "width": encoder.width,
            "bits": encoder.bits,
            "num_classes": self.num_classes,
            "schedule": self.schedule,
            "initializer": encoder.initializer,
            "grow_from": encoder.grow_from,
            "seed": encoder.seed,
            "normalization": encoder.normalization,
            "solver": dataclasses.asdict(self.solver),
        }

    @classmethod
    def from_config(cls, config):
        """Also reads what version 0.1.0 wrote, with a flat solver."""
        if "solver" not in config:
            solver, config = config_lib.solver_from_0_1(config)
            config["solver"] = solver
            centred = config.pop("center", False)
            config["normalization"] = "center" if centred else "unit"
            config["grow_from"] = config["grow_from"] or config["layers"]
        return super().from_config(config)

    def get_compile_config(self):
        if not self.compiled:
            return None
        recipe = None
        if self._recipe is not None:
            # Stated, or a loaded model would take that of its optimizer,
            # which may have been saved in the middle of a stage.
            rate = self._recipe.rate or recipes.RATE
            recipe = {**self._recipe.to_dict(), "rate": rate}
        return keras.saving.serialize_keras_object(
            {
                **self._compile_args,
                "optimizer": self.optimizer,
                "recipe": recipe,
            }
        )

    def compile_from_config(self, config):
        # Version 0.1.0 had no recipe: its models go on as they did.
        config = {"recipe": None, **config}
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.optimizer is not None and self.built:
            with self.scope():
                self.optimizer.build(self.trainable_variables)
