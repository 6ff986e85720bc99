"""The rates of this machine, and how well they foretell another size."""

import functools
import os
import tempfile
import time
from typing import NamedTuple

import numpy as np

from vdsh_tf.encoding.onnx_encoder import OnnxEncoder
from vdsh_tf.research.capacity import model
from vdsh_tf.research.capacity.model import Network
from vdsh_tf.search import mapped
from vdsh_tf.search import structures
from vdsh_tf.search.hamming import HammingIndex

# Two sizes to learn a rate from, and another to foretell.
ENCODERS = (Network(layers=4, width=256), Network(layers=16, width=1024))
CHECKED_ENCODER = Network(layers=16, width=512)
STEP = Network(layers=8, width=512, classes=10)
CHECKED_STEP = Network(layers=16, width=512, classes=10)
_ROWS = 1024


class Check(NamedTuple):
    """A measurement beside what the model says of it."""

    what: str
    measured: float
    foretold: float

    @property
    def error(self) -> float:
        return self.foretold / self.measured - 1


def encoder_bytes(network: Network) -> bytes:
    """An exported encoder with random weights."""
    from vdsh_tf.export import graph
    from vdsh_tf.export import metadata
    from vdsh_tf.export import onnx_file
    from vdsh_tf.model import VDSH

    vdsh = VDSH(
        network.layers,
        network.width,
        network.bits,
        network.classes,
        grow_from=network.layers,
        normalization="unit",
    )
    vdsh.build((None, network.dim))
    served = graph.Served(
        graph.kernels_of(vdsh), metadata.describe(vdsh, "none")
    )
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "encoder.onnx")
        onnx_file.write(served, path)
        with open(path, "rb") as f:
            return f.read()


def encoder_seconds(network: Network, repeats: int) -> float:
    """Seconds of one row through the exported encoder, on one core."""
    encoder = OnnxEncoder(encoder_bytes(network), threads=1)
    x = np.random.default_rng(0).random((_ROWS, network.dim), np.float32)
    return _seconds(lambda: encoder(x), repeats) / _ROWS


def encoding(repeats: int) -> tuple[float, float, Check]:
    """Flops of one core, seconds of a row beside them, and a check."""
    small, large = (encoder_seconds(n, repeats) for n in ENCODERS)
    few, many = (n.encode_flops for n in ENCODERS)
    flops = (many - few) / max(large - small, 1e-12)
    overhead = max(0.0, small - few / flops)
    got = encoder_seconds(CHECKED_ENCODER, repeats)
    want = model.encode_seconds(CHECKED_ENCODER, flops, overhead)
    check = Check(f"rows/s, encoder {CHECKED_ENCODER}", 1 / got, 1 / want)
    return flops, overhead, check


def training(repeats: int) -> tuple[float, Check]:
    """Flops of a training step on all cores, and a check."""
    from vdsh_tf.research.benchmarks import steps

    def rows_per_second(network):
        step = steps.training_step(
            network.dim,
            network.layers,
            network.width,
            network.bits,
            _ROWS,
            jit_compile=True,
        )
        return _ROWS / _seconds(lambda: step().numpy(), 2 * repeats)

    flops = rows_per_second(STEP) * STEP.step_flops
    got = rows_per_second(CHECKED_STEP)
    want = flops / CHECKED_STEP.step_flops
    return flops, Check(f"rows/s, training {CHECKED_STEP}", got, want)


def reduced() -> Check:
    """Bytes of what a model trains, which workers sum in every step."""
    from vdsh_tf.model import VDSH

    network = Network()
    vdsh = VDSH(network.layers, network.width, network.bits, network.classes)
    vdsh.build((None, network.dim))
    size = sum(int(np.prod(v.shape)) for v in vdsh.trainable_variables)
    want = model.reduced_bytes(network)
    what = f"MB all-reduced, {network}, {network.classes} classes"
    return Check(what, model.FLOAT * size / 1e6, want / 1e6)


def search(count: int, bits: int, repeats: int) -> tuple[model.Rates, list]:
    """Rates of a search among `count` codes, and checks at 4 times as many."""
    cores = structures.import_faiss().omp_get_max_threads()
    small = _mapped_seconds(count, bits, repeats)
    large = _mapped_seconds(4 * count, bits, repeats)
    probe = _probe_seconds(count // 4, bits, repeats)
    looked = model.candidates(count, bits)
    empty = _mapped_seconds(1 << 14, bits, repeats)
    start = empty["hash"]
    rates = model.Rates(
        scan=count * bits / 8 / small["flat"],
        cores=cores,
        bucket_start=start,
        bucket_code=max(0.0, small["hash"] - start) / looked,
        probe=model.probed_bytes(count // 4, bits) / probe,
    )
    none = model.Assumptions(latency=0.0)
    found = []
    for kind in ("flat", "hash"):
        want = model.query_seconds(kind, 4 * count, bits, 1, rates, none)
        what = f"ms, {kind}, {4 * count:.3g} codes"
        found.append(Check(what, 1e3 * large[kind], 1e3 * want))
    for kind in ("flat", "hash"):
        want = model.index_bytes(kind, 4 * count, bits)
        what = f"bytes per code, {kind}"
        size = large[f"{kind}_bytes"]
        found.append(Check(what, size / 4 / count, want / 4 / count))
    return rates, found


def _mapped_seconds(count, bits, repeats):
    """Seconds of a query of each kind of mapped index, and bytes."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (count, bits // 8), np.uint8)
    queries = rng.integers(0, 256, (16, bits // 8), np.uint8)
    ids = np.arange(count)[::-1].copy()
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("flat", "hash"):
            path = os.path.join(folder, kind)
            mapped.write(path, codes, bits, kind, ids)
            index = mapped.MappedIndex(path)
            asks = [
                functools.partial(index.radius_search, query[None], 2)
                for query in queries
            ]
            result[kind] = float(np.mean([_seconds(a, repeats) for a in asks]))
            result[f"{kind}_bytes"] = os.path.getsize(path)
    return result


def _probe_seconds(count, bits, repeats):
    """Seconds of a query of an "ivf" index on one core."""
    faiss = structures.import_faiss()
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (count, bits // 8), np.uint8)
    queries = rng.integers(0, 256, (64, bits // 8), np.uint8)
    index = HammingIndex(bits, "ivf")
    index.add(codes)
    index.search(queries, 1)
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        taken = _seconds(lambda: index.search(queries, 10), repeats)
    finally:
        faiss.omp_set_num_threads(threads)
    return taken / len(queries)


def _seconds(call, repeats):
    """Least seconds of a call: what else runs can only lengthen it."""
    call()
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return min(taken)
