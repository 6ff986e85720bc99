"""Two workers against one, and workers that are killed; five minutes.

    python -m tests.campaigns.workers
    python -m tests.campaigns.workers 8        # or 48, or kill: that part

Trains on digits for 200 steps with growth, at 8 and 48 layers, in float32 and
float64: by one process, by two, and by two once more. Then kills a worker of a
run of `tools/train.py`, the chief and the other one, resumes it, and compares
the weights with those of a run that was left alone.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import psutil

from vdsh_tf.training import cluster

ROLE = "VDSH_CAMPAIGN_ROLE"
STEPS, BATCH = 200, 256
TRAIN = (sys.executable, "-m", "vdsh_tf.tools.train")
STAGES = "--stages=4:3:2e-3,8:30:1e-3"


def serve(layers, dtype, path):
    """Trains as one worker, or as one of several; the chief writes."""
    from vdsh_tf.data import datasets
    from vdsh_tf.model import VDSH
    from vdsh_tf.training.team import Team

    place = cluster.from_environment(os.environ)
    team = None if place is None else Team(place)
    with contextlib.nullcontext() if team is None else team.strategy.scope():
        model = VDSH(int(layers), 64, 32, num_classes=10, dtype=dtype)
        model.compile(jit_compile=False)
    train = datasets.load("digits").train
    steps = len(train.x) // BATCH
    rows = np.random.default_rng(1).permutation(len(train.x))[: steps * BATCH]
    x, y = train.x[rows], train.y[rows]
    model.build((None, x.shape[1]))
    start = [v.numpy() for v in model.trainable_variables]
    history = model.fit(
        x,
        y,
        batch_size=BATCH,
        shuffle=False,
        epochs=-(-STEPS // steps),
        verbose=0,
    ).history
    end = [v.numpy() for v in model.trainable_variables]
    if team is None or team.is_chief:
        weights = {f"start_{i}": v for i, v in enumerate(start)}
        weights |= {f"end_{i}": v for i, v in enumerate(end)}
        np.savez(path, **weights, **{f"log_{n}": v for n, v in history.items()})
    if team is not None:
        team.exchange("done")


def trained(folder, layers, dtype, workers=1):
    path = os.path.join(folder, f"{time.time_ns()}.npz")
    role = f"{layers} {dtype} {path}"
    command = [sys.executable, "-m", "tests.campaigns.workers"]
    os.environ[ROLE] = role
    try:
        if workers == 1:
            subprocess.run(command, check=True)
        else:
            cluster.launch(workers, command)
    finally:
        del os.environ[ROLE]
    with np.load(path) as data:
        return dict(data)


def distance(one, two):
    """Of weights, in units of the largest move; and of logs."""
    ends = [name for name in one if name.startswith("end")]
    starts = [name.replace("end", "start") for name in ends]
    move = max(
        np.abs(one[a] - one[b]).max() for a, b in zip(starts, ends, strict=True)
    )
    weights = max(np.abs(one[n] - two[n]).max() for n in ends) / move
    names = [n for n in one if n in ("log_objective", "log_accuracy")]
    logs = max(np.abs(one[n] - two[n]).max() for n in names)
    return f"weights {weights:.1e} of a move, logs {logs:.1e}"


def compare(folder, layers, dtype):
    one = trained(folder, layers, dtype)
    two = trained(folder, layers, dtype, workers=2)
    again = trained(folder, layers, dtype, workers=2)
    same = all(np.array_equal(two[n], again[n]) for n in two)
    print(
        f"{layers} layers, {dtype}: two workers: {distance(one, two)}; repeat "
        f"equal to the bit: {same}",
        flush=True,
    )


def kill_one(folder, number):
    """Kills a worker after some epochs, and resumes."""
    run = os.path.join(folder, f"killed-{number}")
    command = [*TRAIN, "--workers=2", STAGES, f"--run_dir={run}", "--verbose=0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    history = os.path.join(run, "history.csv")
    while not os.path.isfile(history) or _lines(history) < 6:
        time.sleep(0.1)
    workers = sorted(
        psutil.Process(process.pid).children(), key=lambda p: p.pid
    )
    start = time.monotonic()
    workers[number].kill()
    said = process.communicate(timeout=120)[1].strip().splitlines()
    print(
        f"worker {number} killed: exit code {process.returncode} after "
        f"{time.monotonic() - start:.1f} s: {said[-1]}",
        flush=True,
    )
    resume = [*TRAIN, "--workers=2", "--resume", f"--run_dir={run}"]
    subprocess.run([*resume, "--verbose=0"], check=True, capture_output=True)
    return run


def _lines(path):
    with open(path) as f:
        return len(f.readlines())


def weights_of(run):
    from vdsh_tf.training import runs

    return runs.load_model(os.path.join(run, "model.keras")).get_weights()


def main():
    if role := os.environ.get(ROLE):
        return serve(*role.split(" ", 2))
    parts = sys.argv[1:] or ["8", "48", "kill"]
    with tempfile.TemporaryDirectory() as folder:
        for layers in (8, 48):
            for dtype in ("float32", "float64"):
                if str(layers) in parts:
                    compare(folder, layers, dtype)
        if "kill" not in parts:
            return
        whole = os.path.join(folder, "whole")
        subprocess.run(
            [*TRAIN, "--workers=2", STAGES, f"--run_dir={whole}"],
            check=True,
            capture_output=True,
        )
        for number in (0, 1):
            resumed = weights_of(kill_one(folder, number))
            pairs = zip(weights_of(whole), resumed, strict=True)
            same = all(np.array_equal(a, b) for a, b in pairs)
            print(f"resumed weights equal to the bit: {same}", flush=True)


if __name__ == "__main__":
    main()
