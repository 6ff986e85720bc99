"""Loads and runs a SavedModel with TensorFlow's C++ loader, by its C API.

`LoadSavedModel` in C++ is what TF Serving calls; Python's own loaders restore
variables in another way and accept files that it refuses.
"""

import ctypes
import glob
import os

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

# Bytes of a TF_TString inside a tensor.
_STRING_SIZE = 24


class _Output(ctypes.Structure):
    _fields_ = [("operation", ctypes.c_void_p), ("index", ctypes.c_int)]


def _library():
    folder = os.path.dirname(tf.__file__)
    (path,) = glob.glob(os.path.join(folder, "libtensorflow_cc.so.*"))
    library = ctypes.CDLL(path)
    for name in (
        "TF_AllocateTensor",
        "TF_GraphOperationByName",
        "TF_LoadSessionFromSavedModel",
        "TF_NewGraph",
        "TF_NewSessionOptions",
        "TF_NewStatus",
        "TF_StringGetDataPointer",
        "TF_TensorData",
    ):
        getattr(library, name).restype = ctypes.c_void_p
    library.TF_Message.restype = ctypes.c_char_p
    for name in ("TF_Dim", "TF_StringGetSize", "TF_TensorByteSize"):
        getattr(library, name).restype = ctypes.c_int64
    return library


class CppSession:
    """A session of the C++ loader."""

    def __init__(self, path: str):
        self._tf = _library()
        self._status = ctypes.c_void_p(self._tf.TF_NewStatus())
        self._graph = ctypes.c_void_p(self._tf.TF_NewGraph())
        options = ctypes.c_void_p(self._tf.TF_NewSessionOptions())
        tags = (ctypes.c_char_p * 1)(b"serve")
        self._session = ctypes.c_void_p(
            self._tf.TF_LoadSessionFromSavedModel(
                options,
                None,
                path.encode(),
                tags,
                1,
                self._graph,
                None,
                self._status,
            )
        )
        self._check()
        saved = saved_model_pb2.SavedModel()
        with open(os.path.join(path, "saved_model.pb"), "rb") as f:
            saved.ParseFromString(f.read())
        self._signatures = saved.meta_graphs[0].signature_def

    def run(self, signature: str, value: np.ndarray, output: str):
        """One output of a signature with one input."""
        definition = self._signatures[signature]
        (source,) = definition.inputs.values()
        target = definition.outputs[output]
        fed = (_Output * 1)(self._output(source.name))
        fetched = (_Output * 1)(self._output(target.name))
        given = (ctypes.c_void_p * 1)(self._tensor(value, source.dtype))
        found = (ctypes.c_void_p * 1)()
        self._tf.TF_SessionRun(
            self._session,
            None,
            fed,
            given,
            1,
            fetched,
            found,
            1,
            None,
            0,
            None,
            self._status,
        )
        self._check()
        return self._array(ctypes.c_void_p(found[0]), target.dtype)

    def _output(self, name):
        operation, index = name.split(":")
        found = self._tf.TF_GraphOperationByName(
            self._graph, operation.encode()
        )
        return _Output(found, int(index))

    def _tensor(self, value, dtype):
        value = np.ascontiguousarray(value)
        shape = (ctypes.c_int64 * value.ndim)(*value.shape)
        tensor = self._tf.TF_AllocateTensor(
            dtype, shape, value.ndim, ctypes.c_size_t(value.nbytes)
        )
        data = self._tf.TF_TensorData(ctypes.c_void_p(tensor))
        ctypes.memmove(data, value.tobytes(), value.nbytes)
        return tensor

    def _array(self, tensor, dtype):
        shape = [
            self._tf.TF_Dim(tensor, i)
            for i in range(self._tf.TF_NumDims(tensor))
        ]
        size = self._tf.TF_TensorByteSize(tensor)
        data = self._tf.TF_TensorData(tensor)
        if dtype == tf.string.as_datatype_enum:
            starts = range(data, data + size, _STRING_SIZE)
            return np.array([self._string(p) for p in starts]).reshape(shape)
        kind = tf.as_dtype(dtype).as_numpy_dtype
        return np.frombuffer(ctypes.string_at(data, size), kind).reshape(shape)

    def _string(self, pointer):
        pointer = ctypes.c_void_p(pointer)
        return ctypes.string_at(
            self._tf.TF_StringGetDataPointer(pointer),
            self._tf.TF_StringGetSize(pointer),
        )

    def _check(self):
        if self._tf.TF_GetCode(self._status):
            raise RuntimeError(self._tf.TF_Message(self._status).decode())
