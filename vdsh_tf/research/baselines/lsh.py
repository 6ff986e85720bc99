"""Locality-sensitive hashing: random hyperplanes, nothing learnt."""

import numpy as np

from vdsh_tf.research.baselines import method


class LSH(method.Method):
    """Signs of Gaussian projections of centred rows; the lower bound."""

    title = "LSH"
    reference = "Charikar: Similarity Estimation Techniques, STOC 2002"

    def fit(self, x, y):
        """Takes the mean of the rows [n, d]; the labels are not used."""
        x = method.unit_rows(x)
        rng = np.random.default_rng(self.seed)
        self.mean = x.mean(axis=0)
        planes = rng.normal(size=(x.shape[1], self.bits))
        self.projection = planes.astype(np.float32)
        return self

    def project(self, x):
        """[n, K]: (x - mean) P."""
        return (method.unit_rows(x) - self.mean) @ self.projection
