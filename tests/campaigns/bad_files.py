"""Files that are not what they seem, and tools that are called wrongly."""

import gzip
import json
import os
import shutil

import keras
import numpy as np

from tests.campaigns.bad_arrays import X
from tests.campaigns.bad_arrays import Y
from tests.campaigns.bad_arrays import codes
from tests.campaigns.bad_inputs import Case
from tests.campaigns.bad_inputs import tool
from tests.support import tool_runner
from vdsh_tf.data import datasets
from vdsh_tf.data import streams
from vdsh_tf.search import code_files
from vdsh_tf.search.hamming import HammingIndex
from vdsh_tf.training import runs

RUN = "runs/one"
SMALL = ("--stages=2:1:1e-3", "--width=16", "--bits=8", "--verbose=0")


def _bytes(path, data):
    with open(path, "wb") as f:
        f.write(data)
    return path


def _npy(path, array):
    np.save(path, array)
    return path


def _content(path):
    with open(path, "rb") as f:
        return f.read()


def _npz(path, **arrays):
    np.savez(path, **arrays)
    return path


def _header(text):
    """A .npy file whose header is some text."""
    text = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def cases() -> list[Case]:
    """Cases of all these entries; trains a small run."""
    made = tool_runner.run("train", *SMALL, f"--run_dir={RUN}")
    if made.code:
        raise RuntimeError(made.err)
    tool_runner.run("encode", f"--run_dir={RUN}")
    tool_runner.run("index", f"--run_dir={RUN}")
    return [*_rows(), *_training_files(), *_runs(), *_codes(), *_tools()]


def _rows():
    good = _content(_npy("good.npy", X))
    shape = "'shape': (9, 6), }"
    start = "{'descr': '<f4', 'fortran_order': False, "
    given = {
        "empty": b"",
        "text": b"1,2,3\n4,5,6\n",
        "gzip": gzip.compress(good),
        "half a header": good[:20],
        "header alone": good[:128],
        "a byte short": good[:-1],
        "a later version": b"\x93NUMPY\x09\x00" + good[8:],
        "no braces": _header("hello"),
        "a call for a header": _header("__import__('os').getpid()"),
        "a header of numbers": _header("{1: 2}"),
        "nothing but a shape": _header("{" + shape),
        "objects": _header(start.replace("<f4", "|O") + shape),
        "text columns": _header(start.replace("<f4", "<U4") + shape),
        "an odd type": _header(start.replace("<f4", "<f9") + shape),
        "a shape of text": _header(start + "'shape': ('9', 6), }"),
        "a shape of floats": _header(start + "'shape': (9.0, 6), }"),
        "a huge shape": _header(start + "'shape': (10**12, 6), }"),
        "a shape beyond int64": _header(start + f"'shape': ({2**70}, 6), }}"),
        "no rows' width": _header(start + "'shape': (9, 0), }"),
        "a zip that is none": b"PK\x03\x04" + bytes(100),
        "pickle": b"\x80\x04K\x01.",
    }
    found = [
        Case("open_rows", name, lambda p=path: _read(p))
        for i, (name, data) in enumerate(given.items())
        for path in [_bytes(f"rows{i}.npy", data)]
    ]
    arrays = {
        "one axis": X[0],
        "a number": np.float32(3),
        "complex": X.astype(complex),
        "dates": X.astype("M8[D]"),
        "records": np.zeros(9, [("a", "f4")]),
    }
    found += [
        Case("open_rows", name, lambda p=path: _read(p))
        for i, (name, array) in enumerate(arrays.items())
        for path in [_npy(f"array{i}.npy", array)]
    ]
    os.makedirs("nopictures", exist_ok=True)
    _bytes("nopictures/a.txt", b"text")
    os.makedirs("badpictures", exist_ok=True)
    _bytes("badpictures/a.png", b"text")
    os.makedirs("cutpicture", exist_ok=True)
    _bytes("cutpicture/a.jpg", b"\xff\xd8\xff\xe0" + bytes(50))
    for name in ("nopictures", "badpictures", "cutpicture", "missing"):
        found.append(
            Case("open_rows", name, lambda n=name: _read(n, (8, 8, 1)))
        )
    found.append(Case("open_rows", "no shape", lambda: _read("badpictures")))
    found.append(
        Case("open_rows", "other keys", lambda: _read(_npz("k.npz", a=X)))
    )
    return found


def _read(path, image_shape=None):
    rows = streams.open_rows(path, image_shape)
    return sum(len(batch) for batch in rows.batches(7))


def _training_files():
    marks = np.eye(3)[Y]
    given = {
        "features alone": {"features": X},
        "labels alone": {"labels": Y},
        "labels too few": {"features": X, "labels": Y[1:]},
        "labels of text": {"features": X, "labels": Y.astype(str)},
        "labels of floats": {"features": X, "labels": Y + 0.5},
        "labels below 0": {"features": X, "labels": Y - 2},
        "one class": {"features": X, "labels": 0 * Y},
        "marks of 2": {"features": X, "labels": 2 * marks},
        "one mark column": {"features": X, "labels": marks[:, :1]},
        "features of text": {"features": X.astype(str), "labels": Y},
        "complex features": {"features": X.astype(complex), "labels": Y},
        "NaN": {"features": np.where(X > 50, np.nan, X), "labels": Y},
        "three axes of floats": {"features": X[:, :, None], "labels": Y},
        "no rows": {"features": X[:0], "labels": Y[:0]},
        "nothing but zeros": {"features": 0 * X, "labels": Y},
        "a shape of other size": {
            "features": X,
            "labels": Y,
            "image_shape": np.array([8, 8, 1]),
        },
        "a shape of floats": {
            "features": X,
            "labels": Y,
            "image_shape": np.array([2.0, 3.0, 1.0]),
        },
        "too few for the queries": {"features": X[:9], "labels": Y[:9]},
    }

    def load(number):
        path = f"train{number}.npz"
        return datasets.load("npz", path=path, queries_per_class=5)

    for i, arrays in enumerate(given.values()):
        _npz(f"train{i}.npz", **arrays)
    found = [
        Case("npz to train on", name, lambda i=i: load(i))
        for i, name in enumerate(given)
    ]
    os.makedirs("oneclass/cat", exist_ok=True)
    for name, path in (
        ("no path", None),
        ("missing", "missing.npz"),
        ("a folder of one class", "oneclass"),
    ):
        kind = "images" if path == "oneclass" else "npz"
        found.append(
            Case(
                "npz to train on",
                name,
                lambda k=kind, p=path: datasets.load(k, path=p),
            )
        )
    return found


def _copy(name, file, data):
    """A copy of the run with another file."""
    path = f"runs/{name}"
    shutil.copytree(RUN, path)
    _bytes(os.path.join(path, file), data)
    return path


def _runs():
    model = _content(os.path.join(RUN, "model.keras"))
    other = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    other.save("other.keras")
    files = {
        "model.keras": {
            "empty": b"",
            "text": b"hello",
            "half": model[: len(model) // 2],
            "without its end": model[:-30],
            "another model": _content("other.keras"),
        },
        "config.json": {
            "empty": b"",
            "a list": b"[]",
            "a number": b"3",
            "half": b'{"source": {"data"',
            "not text": bytes(range(128, 256)),
            "deep": b"[" * 100_000,
            "layers of text": b'{"optimization": {"stages": null}, '
            b'"network": {"layers": "8"}}',
            "an unknown group": b'{"optimization": {"stages": null}, "a": {}}',
        },
        "data.json": {"a list": b"[]", "half": b"{"},
        "metrics.json": {"half": b'{"map"', "a list": b"[1]"},
    }
    found = []
    for file, contents in files.items():
        for name, data in contents.items():
            path = _copy(f"{file}-{name}".replace(" ", "-"), file, data)
            entry = "run " + file
            if file == "model.keras":
                keras_file = os.path.join(path, file)
                found.append(
                    Case(entry, name, lambda p=keras_file: runs.load_model(p))
                )
            flags = (f"--run_dir={path}",)
            case = tool("evaluate", *flags)
            found.append(case._replace(entry=f"{entry} (tool)", name=name))
    return found


def _codes():
    good, record = codes(), {"bits": 8, "count": 90, "fingerprint": "abc"}
    records = {
        "no bits": {**record, "bits": None},
        "bits of text": {**record, "bits": "8"},
        "other bits": {**record, "bits": 16},
        "other count": {**record, "count": 91},
        "negative count": {**record, "count": -90},
        "a fingerprint of numbers": {**record, "fingerprint": 3},
        "a fingerprint of escapes": {**record, "fingerprint": "\x1b[2J"},
        "another digest": {**record, "sha256": "0" * 64},
        "a digest of numbers": {**record, "sha256": 3},
        "a list": [record],
        "text": "hello",
    }
    found = []
    for i, (name, about) in enumerate(records.items()):
        path = _npy(f"record{i}.npy", good)
        _bytes(f"{path}.json", json.dumps(about).encode())
        found.append(Case("codes.npy", name, lambda p=path: code_files.read(p)))
    arrays = {
        "codes of floats": good.astype("f4"),
        "codes of one axis": good[:, 0],
        "wider codes": np.c_[good, good],
    }
    for i, (name, array) in enumerate(arrays.items()):
        path = _npy(f"code{i}.npy", array)
        _bytes(f"{path}.json", json.dumps(record).encode())
        found.append(Case("codes.npy", name, lambda p=path: code_files.read(p)))
    _npy("alone.npy", good)
    found.append(
        Case("codes.npy", "no record", lambda: code_files.read("alone.npy"))
    )
    for i, data in enumerate((b"", b"hello", b"PK\x05\x06" + bytes(18))):
        path = _bytes(f"index{i}.npz", data)
        found.append(
            Case("index file", data[:5], lambda p=path: HammingIndex.load(p))
        )
    for name, arrays in (("codes alone", {"codes": good}), ("none", {})):
        path = _npz(f"index-{name}.npz", **arrays)
        found.append(
            Case("index file", name, lambda p=path: HammingIndex.load(p))
        )
    return found


def _tools():
    run = f"--run_dir={RUN}"
    _npy("wide.npy", np.ones((5, 7), "f4"))
    _npy("zeros.npy", np.zeros((5, 64), "f4"))
    _npy("rows.npy", np.ones((5, 64), "f4"))
    _npy("ids.npy", np.array([1, 1, 2]))
    calls = {
        "train": (
            ("--bits=eight",),
            ("--bits=0",),
            ("--bits",),
            ("--layers=-3",),
            ("--epochs=0",),
            ("--epochs=1e3",),
            ("--unknown=3",),
            ("--sed=3",),
            ("words",),
            ("--preset=huge",),
            ("--data=csv",),
            ("--data=npz",),
            ("--data=npz", "--path=missing.npz"),
            ("--data=images", "--path=missing"),
            ("--stages=8",),
            ("--stages=4:1:1e-3,2:1:1e-3",),
            ("--noise=-1",),
            ("--verbose=7",),
            ("--schedule=both",),
            ("--schedule=full", "--sweeps=2"),
            ("--resume", "--run_dir=missing"),
            ("--resume", run),
            ("--width=10000000",),
            (run,),
            ("--unseen_classes=77",),
            ("--train_per_class=5", "--unseen_classes=1"),
            ("--normalization=none",),
            ("--queries_per_class=100000",),
        ),
        "encode": (
            ("--run_dir=missing",),
            (run, "--input=missing.npy"),
            (run, "--input=wide.npy"),
            (run, "--input=zeros.npy"),
            (run, "--input=rows.npy", "--out=codes.txt"),
            (run, "--input=rows.npy", "--out=no/such/codes.npy"),
            (run, "--input=rows.npy", "--batch_size=0"),
            (run, "--input=rows.npy", "--cluster=auto"),
            (run, "--input=none.parquet"),
            (run, "--input=nopictures"),
        ),
        "index": (
            ("--codes=missing.npy",),
            ("--codes=rows.npy",),
            (run, "--kind=tree"),
            (run, "--index=nowhere"),
            (run,),
            (run, "--ids=ids.npy", "--overwrite"),
            (run, "--ids=missing.npy", "--overwrite"),
            (run, "--append", "--index=faiss:missing.npz"),
        ),
        "query": (
            (run, "--k=0"),
            (run, "--k=1000000"),
            (run, "--k=ten"),
            (run, "--radius=-1"),
            (run, "--queries=missing.npy"),
            (run, "--queries=wide.npy"),
            (run, "--index=faiss:missing.npz"),
            (run, "--out=answers.xls"),
            (run, "--server=nowhere"),
        ),
        "export": (
            ("--run_dir=missing",),
            (run, "--opset=3", "--nocheck"),
            (run, "--quantize=dynamic"),
            (run, "--out=rows.npy", "--nocheck"),
        ),
        "evaluate": (("--run_dir=missing",), ("--run_dir=rows.npy",)),
        "sweep": (
            ("--preset=huge",),
            ("--bits=a,b",),
            ("--against=nothing", "--preset=digits"),
            ("--seeds=-1", "--preset=digits", "--bits=8"),
            ("--bits=", "--preset=digits"),
        ),
    }
    return [
        tool(name, *flags) for name, many in calls.items() for flags in many
    ]
