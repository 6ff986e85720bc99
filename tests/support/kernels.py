"""Which kernels TensorFlow has for the operations of a graph, without running.

A build with CUDA registers its GPU kernels when it is loaded, on a machine
without a GPU, too. What the registry says of a traced graph is what the placer
would find there.
"""

import functools
import math
from typing import NamedTuple

import tensorflow as tf
from tensorflow.python.framework import function_def_to_graph
from tensorflow.python.framework import kernels
from tensorflow.python.framework import op_def_registry

GPU = "GPU"
XLA_GPU = "XLA_GPU_JIT"
# Kernels of any device are registered under this name.
_ANY = "DEFAULT"
# Calls of Python: they have GPU kernels, and run on the host.
_HOST_CALLS = {"PyFunc", "PyFuncStateless", "EagerPyFunc", "NumpyFunction"}
# What a graph is fed by becomes an argument of the function that runs.
_ARGUMENTS = {"Placeholder"}


class Problem(NamedTuple):
    """An operation that would not run on the device."""

    op: str
    types: tuple[str, ...]
    why: str


def operations(function):
    """All operations of a concrete function and of the functions it calls."""
    graph = function.graph
    yield from graph.get_operations()
    for definition in graph.as_graph_def().library.function:
        inner = function_def_to_graph.function_def_to_graph(definition)
        yield from inner.get_operations()


def without_kernel(function, device):
    """Operations that have no kernel for a device and their types."""
    return {
        Problem(op.type, types_of(op), f"no {device} kernel")
        for op in operations(function)
        if op.type not in _ARGUMENTS and not matching(op, device)
    }


def on_host(function, most=64):
    """Operations that a GPU would leave to the host.

    A kernel may keep arguments in the host's memory, as those of shapes do. For
    a few numbers that costs nothing, for a batch it is a transfer.

    Args:
        function: a concrete function.
        most: numbers that may be on the host.
    """
    found = set()
    for op in operations(function):
        if op.type in _HOST_CALLS:
            found.add(Problem(op.type, (), "calls Python"))
        if "CPU" in op.device.upper():
            found.add(Problem(op.type, (), f"placed on {op.device}"))
        for tensor in _host_tensors(op):
            if _size(tensor) > most:
                why = f"{tensor.shape} of {tensor.dtype.name} on the host"
                found.add(Problem(op.type, types_of(op), why))
    return found


def matching(op, device):
    """Registered kernels for the types of an operation."""
    wanted = (device, _ANY) if device == GPU else (device,)
    return [
        kernel
        for kernel in _registered(op.type)
        if kernel.device_type in wanted and _allows(kernel, op)
    ]


def types_of(op):
    """Type attributes of an operation, as text."""
    found = []
    for attribute in _definition(op.type).attr:
        if attribute.type in ("type", "list(type)"):
            value = op.get_attr(attribute.name)
            many = value if isinstance(value, list) else [value]
            names = ",".join(t.name for t in many)
            found.append(f"{attribute.name}={names}")
    return tuple(found)


@functools.cache
def _register_xla():
    """XLA registers its kernels when it compiles for the first time."""
    tf.function(lambda x: x + 1, jit_compile=True)(tf.zeros(1))


@functools.cache
def _registered(name):
    _register_xla()
    return tuple(kernels.get_registered_kernels_for_op(name).kernel)


@functools.cache
def _definition(name):
    return op_def_registry.get(name)


def _allows(kernel, op):
    for constraint in kernel.constraint:
        allowed = set(constraint.allowed_values.list.type)
        value = op.get_attr(constraint.name)
        many = value if isinstance(value, list) else [value]
        if allowed and not {t.as_datatype_enum for t in many} <= allowed:
            return False
    return True


def _host_tensors(op):
    """Inputs and outputs that every matching kernel keeps on the host."""
    names = [set(k.host_memory_arg) for k in matching(op, GPU)]
    kept = set.intersection(*names) if names else set()
    definition = _definition(op.type)
    pairs = (
        *_named(definition.input_arg, op.inputs, op),
        *_named(definition.output_arg, op.outputs, op),
    )
    for name, tensor in pairs:
        # A handle of a variable is on the host; the variable is not.
        if name in kept and tensor.dtype != tf.resource:
            yield tensor


def _named(arguments, tensors, op):
    tensors = list(tensors)
    for argument in arguments:
        count = 1
        if argument.number_attr:
            count = op.get_attr(argument.number_attr)
        elif argument.type_list_attr:
            count = len(op.get_attr(argument.type_list_attr))
        for tensor in tensors[:count]:
            yield argument.name, tensor
        tensors = tensors[count:]


def _size(tensor):
    """Number of values; a batch of unknown size counts as a large one."""
    if tensor.shape.rank is None:
        return 0
    return math.prod(1024 if d is None else d for d in tensor.shape)
