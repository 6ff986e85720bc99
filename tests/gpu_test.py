"""A training step has a GPU kernel for every operation, checked without a GPU.

Runs where TensorFlow is built with CUDA kernels (`pip install tensorflow`, not
`tensorflow-cpu`); a GPU is not needed. The rules themselves are tested with any
build, on the kernels of the CPU.
"""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import kernels
from vdsh_tf import optimizers
from vdsh_tf.config import Solver
from vdsh_tf.model import VDSH
from vdsh_tf.recipes import Recipe

needs_cuda = pytest.mark.skipif(
    not tf.test.is_built_with_cuda(),
    reason="needs TensorFlow with CUDA kernels (`pip install tensorflow`)",
)
DIM, CLASSES, LAYERS = 20, 10, 8


@dataclasses.dataclass(frozen=True)
class Case:
    """A way to train: what `VDSH` and `compile` are given."""

    depth: int = LAYERS
    solver: Solver = Solver()
    optimizer: str | None = "auto"
    recipe: Recipe | None = None
    weighted: bool = False
    dtype: str = "float32"


CASES = {
    "all_layers": Case(),
    "some_layers": Case(depth=4),
    "weighted": Case(weighted=True),
    "line_12": Case(optimizer=None),
    "paper_order": Case(solver=Solver(jacobi=False)),
    "own_steps": Case(solver=Solver(shared_step=False)),
    "several_sweeps": Case(solver=Solver(sweeps=2)),
    "mean_damping": Case(solver=Solver(mean_damping=0.1)),
    "preserve": Case(solver=Solver(preserve=0.15, preserve_rank=5)),
    "mixup": Case(recipe=Recipe(mixup=0.2)),
    "chimeras": Case(recipe=Recipe(chimeras=0.25)),
    "weight_decay": Case(recipe=Recipe(weight_decay=0.3)),
    "float64": Case(dtype="float64"),
}


def model_of(case):
    model = VDSH(
        LAYERS,
        16,
        12,
        CLASSES,
        solver=case.solver,
        grow_from=4,
        normalization="standardize",
        dtype=case.dtype,
    )
    optimizer = case.optimizer
    if optimizer == "auto" and case.recipe is None:
        optimizer = optimizers.adam()
    model.compile(optimizer, recipe=case.recipe)
    model.build((None, DIM))
    model.encoder.adapt(np.random.default_rng(0).random((50, DIM)))
    model.set_depth(case.depth)
    if model.optimizer is not None:
        model.optimizer.build(model.trainable_variables)
    return model


def traced(step, case, jit_compile=None):
    """The concrete function of a step on batches of any size, not run."""
    data = [
        tf.TensorSpec([None, DIM], case.dtype),
        tf.TensorSpec([None], tf.int64),
    ]
    if case.weighted:
        data.append(tf.TensorSpec([None], tf.float32))

    @tf.function(jit_compile=jit_compile)
    def function(*data):
        return step(data)

    return function.get_concrete_function(*data)


@needs_cuda
class TrainingStepTest(parameterized.TestCase):
    @parameterized.named_parameters((n, n) for n in CASES)
    def test_gpu(self, name):
        case = CASES[name]
        function = traced(model_of(case).train_step, case)
        self.assertEmpty(kernels.without_kernel(function, kernels.GPU))
        self.assertEmpty(kernels.on_host(function))

    @parameterized.named_parameters((n, n) for n in CASES)
    def test_xla(self, name):
        case = CASES[name]
        function = traced(model_of(case).train_step, case, jit_compile=True)
        self.assertEmpty(kernels.without_kernel(function, kernels.XLA_GPU))

    def test_evaluation_and_encoding(self):
        case = CASES["all_layers"]
        model = model_of(case)
        for step in (model.test_step, lambda data: model(data[0])):
            function = traced(step, case)
            self.assertEmpty(kernels.without_kernel(function, kernels.GPU))
            self.assertEmpty(kernels.on_host(function))


class RulesTest(absltest.TestCase):
    """Each rule finds what it is for, with any build of TensorFlow."""

    def test_graph_has_the_work(self):
        """What is checked is the step: its products and its updates."""
        case = CASES["all_layers"]
        function = traced(model_of(case).train_step, case)
        found = [op.type for op in kernels.operations(function)]
        self.assertGreaterEqual(found.count("MatMul"), 3 * LAYERS - 1)
        self.assertEqual(found.count("ResourceApplyAdam"), LAYERS + 1)

    def trace(self, function, *specs):
        return tf.function(function).get_concrete_function(*specs)

    def test_no_kernel(self):
        text = tf.TensorSpec([None], tf.string)
        function = self.trace(tf.strings.length, text)
        for device in (kernels.GPU, kernels.XLA_GPU):
            found = kernels.without_kernel(function, device)
            self.assertIn("StringLength", {problem.op for problem in found})
        self.assertEmpty(kernels.without_kernel(function, "CPU"))

    def test_no_kernel_for_the_type(self):
        numbers = tf.TensorSpec([3, 3], tf.uint16)
        function = self.trace(lambda x: tf.raw_ops.MatMul(a=x, b=x), numbers)
        (found,) = kernels.without_kernel(function, "CPU")
        self.assertEqual(found[:2], ("MatMul", ("T=uint16",)))

    def test_inside_a_branch(self):
        def function(x):
            return tf.cond(
                tf.shape(x)[0] > 1,
                lambda: tf.strings.length(tf.as_string(x)),
                lambda: tf.zeros(tf.shape(x), tf.int32),
            )

        function = self.trace(function, tf.TensorSpec([None], tf.float32))
        found = kernels.without_kernel(function, kernels.GPU)
        self.assertContainsSubset(
            {"StringLength", "AsString"}, {problem.op for problem in found}
        )

    def test_on_host(self):
        def python(x):
            return tf.numpy_function(lambda a: a, [x], tf.float32)

        def placed(x):
            with tf.device("/CPU:0"):
                return tf.nn.relu(x)

        spec = tf.TensorSpec([None, 2], tf.float32)
        for function, why in ((python, "Python"), (placed, "placed on")):
            found = kernels.on_host(self.trace(function, spec))
            self.assertNotEmpty(found)
            self.assertIn(why, " ".join(problem.why for problem in found))
        self.assertEmpty(kernels.on_host(self.trace(tf.nn.relu, spec)))

    @needs_cuda
    def test_batch_in_host_memory(self):
        """Integers of 32 bits are added on the host."""
        spec = tf.TensorSpec([None], tf.int32)
        found = kernels.on_host(self.trace(lambda x: x + x, spec))
        self.assertIn("AddV2", {problem.op for problem in found})
        spec = tf.TensorSpec([2], tf.int32)
        self.assertEmpty(kernels.on_host(self.trace(lambda x: x + x, spec)))


if __name__ == "__main__":
    absltest.main()
