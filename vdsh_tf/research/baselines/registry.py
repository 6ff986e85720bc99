"""All methods by name; a method's module is imported on first use."""

import importlib

from vdsh_tf.research.baselines import method

SHALLOW = {
    "lsh": "vdsh_tf.research.baselines.lsh.LSH",
    "itq": "vdsh_tf.research.baselines.itq.ITQ",
    "cca_itq": "vdsh_tf.research.baselines.cca_itq.CCAITQ",
    "sdh": "vdsh_tf.research.baselines.sdh.SDH",
    "ksh": "vdsh_tf.research.baselines.ksh.KSH",
    "bre": "vdsh_tf.research.baselines.bre.BRE",
    "mlh": "vdsh_tf.research.baselines.mlh.MLH",
    "fasthash": "vdsh_tf.research.baselines.fasthash.FastHash",
}
DEEP = {
    "dsrh": "vdsh_tf.research.baselines.dsrh.DSRH",
    "dsch": "vdsh_tf.research.baselines.dsch.DSCH",
    "drsch": "vdsh_tf.research.baselines.drsch.DRSCH",
}
CLASS_ID = {
    "class_id": "vdsh_tf.research.baselines.class_id.ClassId",
    "class_number": "vdsh_tf.research.baselines.class_id.ClassNumber",
    "class_network": "vdsh_tf.research.baselines.class_id.NetworkClassId",
}
BACKPROP = {
    "backprop": "vdsh_tf.research.baselines.backprop_method.BackpropVDSH",
}
METHODS = SHALLOW | DEEP | CLASS_ID | BACKPROP


def load(name: str) -> type[method.Method]:
    """The class of a method, for its title, reference and subset."""
    if name not in METHODS:
        raise ValueError(
            f"`name` must be one of {', '.join(METHODS)}. "
            f"Received: name={name!r}."
        )
    module, _, attribute = METHODS[name].rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def make(name: str, bits: int, seed: int = 0, **settings) -> method.Method:
    """A method to fit, with the settings of its paper unless given."""
    return load(name)(bits=bits, seed=seed, **settings)
