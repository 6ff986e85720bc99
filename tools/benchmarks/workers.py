"""Rows per second of several workers against one, each with one thread.

    python tools/benchmarks/workers.py
    python tools/benchmarks/workers.py --layers=48 --width=256 --xla=false
    python tools/benchmarks/workers.py --batch_size=2048 --batch_alone=1024

All workers run on this machine and talk over loopback; one worker and the
team take turns, `--rounds` times. Both have batches of --batch_size rows, or
the one has --batch_alone, for example as many as each of the team. Prints the
median rows per second of both, and what a step sends: two all-reduces. Use a
machine with nothing else to do and at least as many cores as workers. The
processor time of a worker, waiting not included, is printed beside: it says
what to expect where other programs run. Two minutes.
"""

import dataclasses
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence

from vdsh_tf.config import ANY
from vdsh_tf.config import COUNT
from vdsh_tf.config import SWITCH
from vdsh_tf.config import setting
from vdsh_tf.tools import scaffold
from vdsh_tf.training import cluster

CLASSES = 10
MODULE = "vdsh_tf.tools.benchmarks.workers"


@dataclasses.dataclass(frozen=True)
class Args:
    """Flags of this tool."""

    layers: int = setting(16, COUNT, "Depth M, the code layer included.")
    width: int = setting(512, COUNT, "Units of a hidden layer, and inputs.")
    bits: int = setting(64, COUNT, "Code length K.")
    batch_size: int = setting(1024, COUNT, "Rows in a step, of all workers.")
    batch_alone: int | None = setting(
        None, COUNT, "Rows in a step of the one worker; default as many."
    )
    workers: int = setting(2, COUNT, "Processes of the team.")
    steps: int = setting(10, COUNT, "Steps of a round.")
    rounds: int = setting(7, COUNT, "Turns of each.")
    xla: bool = setting(True, SWITCH, "Whether XLA compiles what is local.")
    role: str | None = setting(
        None, ANY, "Used by the tool itself: what a process it starts does."
    )


def measure(args: Args) -> None:
    """Starts all processes, lets them take turns, and prints the rates."""
    if args.role is not None:
        return serve(args)
    ports = cluster.free_ports(args.workers)
    addresses = [f"127.0.0.1:{port}" for port in ports]
    single = dataclasses.replace(
        args, batch_size=args.batch_alone or args.batch_size
    )
    alone = [_start(single, {})]
    team = []
    for index in range(args.workers):
        task = {"type": "worker", "index": index}
        config = {"cluster": {"worker": addresses}, "task": task}
        team.append(_start(args, {cluster.VARIABLE: json.dumps(config)}))
    rates: dict[str, list[list[float]]] = {"one": [], "team": []}
    try:
        for number in range(args.rounds + 1):
            for name, processes, flags in (
                ("one", alone, single),
                ("team", team, args),
            ):
                seconds = _turn(processes)
                if number:  # The first one traces and compiles.
                    rows = flags.steps * flags.batch_size
                    rates[name].append([rows / s for s in seconds])
    finally:
        for process in (*alone, *team):
            process.kill()
            process.wait()
    _report(args, rates)


def _start(args, environment):
    flags = [
        f"--{field.name}={getattr(args, field.name)}"
        for field in dataclasses.fields(args)
        if field.name not in ("role", "batch_alone")
    ]
    return subprocess.Popen(
        [sys.executable, "-m", MODULE, *flags, "--role=worker"],
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _turn(processes):
    """Seconds of one round, and of the processor; the slowest counts."""
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [_answer(process) for process in processes]
    return [max(map(float, column)) for column in zip(*answers, strict=True)]


def _answer(process):
    for line in process.stdout:
        if line.startswith("seconds "):
            return line.split()[1:]
    raise RuntimeError("A process of the benchmark ended early.")


def _report(args, rates):
    import numpy as np

    dims = [args.width] * args.layers + [args.bits]
    weights = sum(a * b for a, b in itertools.pairwise(dims))
    weights += args.bits * (args.bits + CLASSES)
    medians = {name: np.median(found, axis=0) for name, found in rates.items()}
    for name, found in rates.items():
        walls = [wall for wall, _ in found]
        print(
            f"{name:5} {medians[name][0]:9,.0f} rows/s ({min(walls):,.0f} to "
            f"{max(walls):,.0f}); {medians[name][1]:,.0f} per second of a "
            "worker's processor time"
        )
    wall, processor = medians["team"] / medians["one"]
    print(
        f"{args.workers} workers x 1 thread: {wall:.2f} x one worker x 1 "
        f"thread (by processor time {processor:.2f}), {args.layers} x "
        f"{args.width}, batch {args.batch_size}"
        + (f" (alone {args.batch_alone})" if args.batch_alone else "")
    )
    small = 8 * (2 * args.layers + 1)
    large = 4 * (weights + 2 * args.layers + 5)
    print(f"all-reduces per step: {small:,} and {large:,} bytes")


def serve(args: Args) -> None:
    """Trains `steps` steps for every line that comes in."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    model, data = _model(args, tf)
    clock = _clock()
    for _ in sys.stdin:
        model.fit(*data, batch_size=args.batch_size, verbose=0, callbacks=clock)
        print(f"seconds {clock.seconds} {clock.processor}", flush=True)


def _model(args, tf):
    import contextlib

    import numpy as np

    from vdsh_tf.model import VDSH
    from vdsh_tf.training.team import Team

    place = cluster.from_environment(os.environ)
    scope = contextlib.nullcontext()
    if place is not None:
        scope = Team(place).strategy.scope()
    with scope:
        model = VDSH(
            layers=args.layers,
            width=args.width,
            bits=args.bits,
            num_classes=CLASSES,
            normalization="unit",
            grow_from=args.layers,
        )
        model.compile(recipe=None, jit_compile=args.xla)
    rng = np.random.default_rng(0)
    rows = args.steps * args.batch_size
    x = rng.random((rows, args.width), np.float32)
    return model, (x, rng.integers(0, CLASSES, rows))


def _clock():
    import keras

    class Clock(keras.callbacks.Callback):
        """Seconds from the first step of an epoch to its last."""

        seconds = processor = 0.0

        def on_epoch_begin(self, epoch, logs=None):
            self.start = None

        def on_train_batch_begin(self, batch, logs=None):
            if self.start is None:
                self.start = time.perf_counter()
                self.begun = time.process_time()

        def on_train_batch_end(self, batch, logs=None):
            float(logs["loss"])
            self.seconds = time.perf_counter() - self.start
            self.processor = time.process_time() - self.begun

    return Clock()


def main(argv: Sequence[str] | None = None) -> int:
    return scaffold.run(measure, Args, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
