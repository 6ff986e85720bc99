"""Index files as an enemy would write them: all checksums are right."""

import io
import json
import zipfile

import faiss
import numpy as np

from vdsh_tf.search import archives


def members(path):
    """The bytes of each array's .npy file, by the array's name."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        return {n.removesuffix(".npy"): archive.read(n) for n in names}


def write(path, parts):
    """Writes such bytes as an archive, with the checksums of zip."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(f"{name}.npy", data)


def with_digest(parts):
    """The same with a digest that is right, if they are arrays at all."""
    try:
        arrays = {
            name: np.load(io.BytesIO(data), allow_pickle=False)
            for name, data in parts.items()
            if name != archives.DIGEST
        }
        digest = archives.digest(arrays)
    except Exception:
        return parts
    return {**parts, archives.DIGEST: npy(np.frombuffer(digest, np.uint8))}


def npy(array):
    """An array as the bytes of a .npy file."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def replace(path, **arrays):
    """Replaces arrays of an index file, and renews its digest.

    A header is given as a dictionary of what changes; None takes an array
    away.
    """
    parts = members(path)
    changes = arrays.pop("header", None)
    if changes is not None:
        header = json.loads(str(np.load(io.BytesIO(parts["header"]))))
        arrays["header"] = np.array(json.dumps({**header, **changes}))
    for name, array in arrays.items():
        if array is None:
            del parts[name]
        else:
            parts[name] = npy(array)
    write(path, with_digest(parts))


def write_version_1(index, path):
    """Saves an index as versions before 0.2 did: without a digest."""
    header = {
        "format": "vdsh_tf index",
        "version": 1,
        "bits": index.bits,
        "kind": index.kind,
        "count": len(index),
        "fingerprint": index.fingerprint,
    }
    arrays = {"header": np.array(json.dumps(header))}
    arrays["codes"] = index._codes.reconstruct_n(0, len(index))
    arrays["ids"] = index.ids
    if index.kind != "flat" and len(index):
        structure = index._built()
        arrays["structure"] = faiss.serialize_index_binary(structure.index)
        arrays["members"] = structure.groups.members
        arrays["starts"] = structure.groups.starts
    with open(path, "wb") as f:
        np.savez(f, **arrays)
