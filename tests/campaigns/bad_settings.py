"""Settings and arguments that cannot work."""

import os

import numpy as np

from tests.campaigns.bad_arrays import X
from tests.campaigns.bad_arrays import Y
from tests.campaigns.bad_arrays import codes
from tests.campaigns.bad_arrays import fitted
from tests.campaigns.bad_arrays import model
from tests.campaigns.bad_inputs import Case
from vdsh_tf import GrowDepth
from vdsh_tf import HammingIndex
from vdsh_tf import HashEncoder
from vdsh_tf import Recipe
from vdsh_tf import Solver
from vdsh_tf import Stage
from vdsh_tf import codes as codes_lib
from vdsh_tf import open_index
from vdsh_tf.data import datasets
from vdsh_tf.recipes import Stages
from vdsh_tf.search.searcher import Searcher
from vdsh_tf.serving import Client

NAN = float("nan")

NETWORK = {
    "layers": (0, -1, 2.0, "2", None, True, NAN, 5000),
    "width": (0, -8, 8.5, "8", None, False, 10**10),
    "bits": (0, -8, "64", None, np.float32(8), 10**10),
    "num_classes": (1, 0, 3.0, "3", None, True),
    "schedule": ("sgd", None, 3, "Online", ()),
    "solver": (3, "auto", {"foo": 1}, {"beta": 0}, [1]),
    "initializer": ("zeros", None, 3, ["he_normal"]),
    "grow_from": (0, 3, 1.5, "2", True),
    "seed": (-5, "a", 2.5, 2**33, NAN, [1]),
    "normalization": ("none", None, 3, True),
    "dtype": ("float16", "int32", "mixed_bfloat16"),
}
SOLVER = {
    "alpha_theta": (-1e-9, NAN, "0"),
    "alpha_w": (0, -1, float("inf")),
    "beta": (-10, None.__class__, True),
    "gamma": (0, "auto"),
    "copy_step": (0, 1, -0.5, 1.5),
    "code_steps": (0, 1.5, 10**6),
    "margin": (-0.1, NAN),
    "margin_weight": (-1, "a"),
    "sweeps": (-1, 2.5, 10**4),
    "shared_step": (1, "yes"),
    "jacobi": (0, "no"),
    "mean_damping": (-1,),
    "preserve": (-0.5, NAN),
    "preserve_rank": (0, 1.5),
}
RECIPE = {
    "stages": ((), []),
    "rate": (0, -1e-3, NAN, "fast"),
    "warmup": (-0.1, 2, "10%"),
    "noise": (-1, NAN, "some"),
    "dropout": (1, -0.1, 1.5),
    "mixup": (0.6, -0.1, True),
    "chimeras": (1.0, -0.1, True),
    "weight_decay": (-1, NAN),
}
STAGES = (
    "",
    ":",
    "4",
    "4:4",
    "4:4:0",
    "4:0:1e-3",
    "0:4:1e-3",
    "4:4:1e-3,",
    "4;4;1e-3",
    "four:4:1e-3",
    "4:4:nan",
    "4:4:inf",
    "-4:4:1e-3",
    "4.5:4:1e-3",
)
FIT = {
    "epochs": (-1, 2.5, "3", None, True),
    "batch_size": (-1, "32", True, 0.5),
    "validation_split": (-0.1, 1.0, 1.5, NAN, "0.1"),
    "validation_data": (3, "a", (X,), (X, Y, Y, Y), [], {"x": X}),
}
COMPILE = {
    "optimizer": ("adamw2", 3, "none"),
    "recipe": ("fast", 3, {"foo": 1}, {"rate": -1}, {"stages": "4:4"}),
    "loss": ("mse",),
    "weighted_metrics": ([],),
}
LOAD = {
    "name": ("mnist2", "", None, 3, ["digits"]),
    "queries_per_class": (-1, 10**6),
    "validation_per_class": (-1, 10**6),
    "train_per_class": (-1, 10**6),
    "unseen_classes": ("", "99", "a", "1.5", "-0.5", "0,1,2,3,4,5,6,7,8"),
}
CLIENT = {
    "url": ("", "host", "ftp://h", "http://", "http://h:99999", "grpc://"),
    "timeout": (0, -1, NAN, "10"),
    "retries": (-1, 1.5),
    "backoff": (-1, NAN),
    "batch_size": (0, 2.5),
    "bits": (0, -8, "64"),
}
URIS = ("", "faiss", "faiss:", "foo:bar", "milvus:", "milvus:x", "faiss:none")


def _table(entry, table, call):
    return [
        Case(
            entry,
            f"{name}={value!r:.40}",
            lambda n=name, v=value: call(**{n: v}),
        )
        for name, values in table.items()
        for value in values
    ]


def _network(**settings):
    made = model(**settings)
    made.build((None, 6))
    return made


def _compile(**settings):
    made = model()
    made.compile(**settings)
    made.fit(X, Y, verbose=0)


def _load(**settings):
    return datasets.load(**{"name": "digits", **settings})


def _client(**settings):
    return Client(**{"url": "http://127.0.0.1:1", **settings})


def cases() -> list[Case]:
    """Cases of all these entries."""
    return [
        *_table("VDSH", NETWORK, _network),
        *_table("Solver", SOLVER, Solver),
        *_table("Recipe", RECIPE, Recipe),
        *[
            Case("Stages", repr(text), lambda t=text: Stages.parse(t))
            for text in STAGES
        ],
        *_table("fit", FIT, lambda **k: model().fit(X, Y, verbose=0, **k)),
        *_table("compile", COMPILE, _compile),
        *_table("datasets.load", LOAD, _load),
        *_table("Client", CLIENT, _client),
        *_callbacks(),
        *_codes(),
        *_index(),
    ]


def _callbacks():
    deep = {"layers": 4, "grow_from": 2}

    def fit(stages, **settings):
        growth = GrowDepth(stages)
        model(**{**deep, **settings}).fit(
            X, Y, epochs=2, callbacks=[growth], verbose=0
        )

    given = {
        "no stages": lambda: GrowDepth([]),
        "falling depth": lambda: GrowDepth([Stage(4), Stage(2)]),
        "warmup=1.5": lambda: GrowDepth([Stage(4)], warmup=1.5),
        "too shallow": lambda: fit([Stage(3, 1, 1e-3)]),
        "too deep": lambda: fit([Stage(9, 1, 1e-3)]),
        "freezing trained layers": lambda: fit(
            [Stage(2, 1, 1e-3), Stage(4, 1, 1e-3)], grow_from=4
        ),
        "depth 0": lambda: _network(**deep).set_depth(0),
        "depth 9": lambda: _network(**deep).set_depth(9),
        "depth 2.5": lambda: _network(**deep).set_depth(2.5),
        "mean of another width": lambda: fitted().encoder.adapt(X[:, 1:]),
        "mean for none": lambda: fitted().encoder.set_center(X),
        "rows of an unbuilt encoder": lambda: HashEncoder().adapt(X[0]),
    }
    return [Case("depth", name, call) for name, call in given.items()]


def _codes():
    good = codes()
    given = {
        "pack one axis": lambda: codes_lib.pack(X[0] > 0),
        "pack three axes": lambda: codes_lib.pack(X[None] > 0),
        "unpack floats": lambda: codes_lib.unpack(X, 8),
        "unpack more bits": lambda: codes_lib.unpack(good, 9),
        "unpack 0 bits": lambda: codes_lib.unpack(good, 0),
        "unpack lists": lambda: codes_lib.unpack(good.tolist(), 8),
        "searcher of 0": lambda: Searcher(fitted().encode, None, 0),
    }
    return [Case("codes", name, call) for name, call in given.items()]


def _index():
    good = codes()

    def index(kind="flat", bits=8):
        made = HammingIndex(bits, kind)
        made.add(good, np.arange(90))
        return made

    os.makedirs("folder.npz", exist_ok=True)
    given = {
        "bits=0": lambda: HammingIndex(0),
        "bits='8'": lambda: HammingIndex("8"),
        "bits=10**9": lambda: HammingIndex(10**9),
        "kind='tree'": lambda: HammingIndex(8, "tree"),
        "kind=None": lambda: HammingIndex(8, None),
        "encoder=3": lambda: HammingIndex(8, encoder=3),
        "encoder of control characters": lambda: HammingIndex(8, encoder="\0"),
        "other codes": lambda: index().add(np.c_[good, good]),
        "codes of int64": lambda: index().add(good.astype("i8")),
        "codes as lists": lambda: index().add(good.tolist()),
        "bits in the padding": lambda: HammingIndex(5).add(good | 1),
        "too few ids": lambda: index().add(good, [1]),
        "an id twice": lambda: index().add(good[:2], [500, 500]),
        "ids that are there": lambda: index().add(good[:1], [3]),
        "ids of floats": lambda: index().add(good[:1], [3.5]),
        "ids beyond int64": lambda: index().add(
            good[:1], np.array([2**63], "u8")
        ),
        "k=0": lambda: index().search(good, 0),
        "k of more than there are": lambda: index().search(good, 91),
        "k=2.5": lambda: index().search(good, 2.5),
        "k=True": lambda: index().search(good, True),
        "radius=-1": lambda: index().radius_search(good, -1),
        "radius='2'": lambda: index().radius_search(good, "2"),
        "queries of another width": lambda: index().search(np.c_[good, good]),
        "queries of floats": lambda: index().search(X, 1),
        "search in nothing": lambda: HammingIndex(8).search(good, 1),
        "save to a folder": lambda: index().save("folder.npz"),
        "save nowhere": lambda: index().save("no/such/folder.npz"),
        "load a folder": lambda: HammingIndex.load("folder.npz"),
        "load nothing": lambda: HammingIndex.load("nothing.npz"),
    }
    found = [Case("HammingIndex", name, call) for name, call in given.items()]
    return [
        *found,
        *[Case("open_index", repr(u), lambda u=u: open_index(u)) for u in URIS],
    ]
