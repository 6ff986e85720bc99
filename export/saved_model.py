"""SavedModel for TF Serving: signatures, metadata, warm-up, models.config."""

import os

import numpy as np
import tensorflow as tf

from vdsh_tf.export.graph import Served

METADATA_FILE = "vdsh.json"
MODEL_NAME = "vdsh"
WARMUP_FILE = "assets.extra/tf_serving_warmup_requests"

MODELS_CONFIG = """\
# For `tensorflow_model_server --model_config_file=`; mount the export folder
# at /models/vdsh, or write its own path here.
model_config_list {{
  config {{
    name: "{name}"
    base_path: "/models/{name}/saved_model"
    model_platform: "tensorflow"
  }}
}}
"""


def models_config() -> str:
    """Text of the server's `models.config`."""
    return MODELS_CONFIG.format(name=MODEL_NAME)


def write(served: Served, path: str) -> None:
    """Writes one version of the SavedModel into the new folder `path`.

    Signatures: `serving_default` (x -> codes), `embed` (x -> embedding, bits
    and codes), `bytes` (x -> codes_bytes, one string per row, for REST),
    `fingerprint` (any numbers -> the encoder's fingerprint for each), and
    `pixels` (image -> codes) when the data set has pictures.
    """
    os.makedirs(path)
    note = os.path.join(path, METADATA_FILE)
    with open(note, "w") as f:
        f.write(served.metadata.to_json())
    holder = tf.Module(name="vdsh")
    holder.kernels = served.kernels
    holder.mean, holder.scale = served.mean, served.scale
    holder.note = tf.saved_model.Asset(note)
    concrete = {
        name: tf.function(f, input_signature=[spec]).get_concrete_function()
        for name, (f, spec) in signatures(served).items()
    }
    tf.saved_model.save(holder, path, signatures=concrete)
    os.remove(note)
    warmup = os.path.join(path, WARMUP_FILE)
    os.makedirs(os.path.dirname(warmup), exist_ok=True)
    with tf.io.TFRecordWriter(warmup) as records:
        for request in warmup_requests(served):
            records.write(request)


def signatures(served: Served) -> dict:
    """Function and input by signature name."""

    def codes(x):
        return {"codes": served.rows(x)["codes"]}

    def embed(x):
        return served.rows(x)

    def codes_bytes(x):
        return {"codes_bytes": byte_strings(served.rows(x)["codes"])}

    def fingerprint(ignored):
        # A signature must have an input, and a server that gathers requests
        # into batches must get as many rows out as it put in.
        rows = tf.shape(ignored)[:1]
        return {"fingerprint": tf.fill(rows, served.metadata.fingerprint)}

    def pixels(image):
        return {"codes": served.images(image)["codes"]}

    found = {
        "serving_default": (codes, served.row_spec),
        "embed": (embed, served.row_spec),
        "bytes": (codes_bytes, served.row_spec),
        "fingerprint": (
            fingerprint,
            tf.TensorSpec([None], tf.float32, name="ignored"),
        ),
    }
    if served.image_spec is not None:
        found["pixels"] = (pixels, served.image_spec)
    return found


def byte_strings(codes):
    """One string per row: [batch, n] uint8 -> [batch] string of n bytes.

    Looks each byte up in a table of all 256: the graph has no operation that
    casts bytes to a string.
    """
    table = np.array([bytes([value]) for value in range(256)], object)
    letters = tf.gather(tf.constant(table), tf.cast(codes, tf.int32))
    return tf.strings.reduce_join(letters, axis=-1)


def warmup_requests(served: Served) -> list[bytes]:
    """A `PredictionLog` per signature, for the server to run when it loads.

    The four messages are written by hand (every field is length-delimited):
    the package that defines them, tensorflow-serving-api, would pull a whole
    second TensorFlow into every environment that exports.
    """
    requests = []
    for name, (_, spec) in signatures(served).items():
        example = np.ones([1, *spec.shape[1:]], spec.dtype.as_numpy_dtype)
        tensor = tf.make_tensor_proto(example).SerializeToString()
        entry = _field(1, spec.name.encode()) + _field(2, tensor)
        model_spec = _field(1, MODEL_NAME.encode()) + _field(3, name.encode())
        predict_request = _field(1, model_spec) + _field(2, entry)
        requests.append(_field(6, _field(1, predict_request)))
    return requests


def _field(number, payload):
    """A length-delimited protobuf field."""
    return bytes([number << 3 | 2]) + _varint(len(payload)) + payload


def _varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


class Session:
    """Runs a signature as a C++ server does: a graph and a session.

    Args:
        path: a version folder.
        threads: of TensorFlow; 0 lets it choose.
    """

    def __init__(self, path: str, threads: int = 0):
        config = tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=threads,
            inter_op_parallelism_threads=threads,
        )
        self._session = tf.compat.v1.Session(graph=tf.Graph(), config=config)
        with self._session.graph.as_default():
            graph = tf.compat.v1.saved_model.loader.load(
                self._session, [tf.saved_model.SERVING], path
            )
        self.signature_def = dict(graph.signature_def)
        self._calls = {
            name: self._call(definition)
            for name, definition in self.signature_def.items()
            if definition.inputs
        }

    def run(self, signature: str, value: np.ndarray) -> dict[str, np.ndarray]:
        """Outputs by name of a signature with one input."""
        return self._calls[signature](value)

    def codes(self, x: np.ndarray) -> np.ndarray:
        """Packed codes of rows, by the default signature."""
        return self.run("serving_default", x)["codes"]

    def byte_codes(self, x: np.ndarray) -> np.ndarray:
        """The same by the signature that gives strings."""
        strings = self.run("bytes", x)["codes_bytes"]
        return np.stack([np.frombuffer(code, np.uint8) for code in strings])

    def close(self) -> None:
        self._session.close()

    def _call(self, definition):
        """A function that skips what `Session.run` works out each time."""
        (source,) = definition.inputs.values()
        fetch = {name: o.name for name, o in definition.outputs.items()}
        with self._session.graph.as_default():
            return self._session.make_callable(fetch, [source.name])
