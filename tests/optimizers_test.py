"""Optimizers: the fused Adam follows Keras' rule."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import case
from vdsh_tf import optimizers
from vdsh_tf.solver import schedules


class FusedAdamTest(case.TestCase):
    def _run(self, optimizer, dtype="float32"):
        rng = np.random.default_rng(0)
        variables = [
            keras.Variable(rng.normal(size=shape), dtype=dtype)
            for shape in ((5, 3), (3,))
        ]
        for step in range(6):
            moves = [
                tf.constant(10.0 ** (-step) * rng.normal(size=v.shape), v.dtype)
                for v in variables
            ]
            optimizer.apply(moves, variables)
        return [v.numpy() for v in variables]

    def test_equals_keras_adam(self):
        for decay in (None, 0.3):
            args = {"learning_rate": 0.01, "weight_decay": decay}
            plain = keras.optimizers.Adam(epsilon=optimizers.EPSILON, **args)
            fused = optimizers.FusedAdam(epsilon=optimizers.EPSILON, **args)
            for want, got in zip(
                self._run(plain), self._run(fused), strict=True
            ):
                self.assert_close(got, want, rtol=1e-5, atol=1e-6)

    def test_amsgrad_is_keras_own(self):
        plain = keras.optimizers.Adam(0.01, amsgrad=True)
        fused = optimizers.FusedAdam(0.01, amsgrad=True)
        for want, got in zip(self._run(plain), self._run(fused), strict=True):
            self.assert_equal(got, want)

    def test_compiles_with_xla(self):
        variable = keras.Variable(np.ones((4, 4), np.float32))
        fused = optimizers.adam(0.1)
        fused.build([variable])
        step = tf.function(
            lambda g: fused.apply([g], [variable]), jit_compile=True
        )
        step(tf.ones([4, 4]))
        self.assert_close(variable.numpy(), np.full((4, 4), 0.9), rtol=1e-5)

    def test_survives_serialization(self):
        data = keras.saving.serialize_keras_object(optimizers.adam(0.1, 0.3))
        again = keras.saving.deserialize_keras_object(data)
        assert isinstance(again, optimizers.FusedAdam)
        assert again.weight_decay == 0.3
        assert again.epsilon == optimizers.EPSILON


def test_large_epsilon_is_warned_of():
    with pytest.warns(UserWarning, match="epsilon"):
        optimizers.for_schedule("adam", schedules.Online())
