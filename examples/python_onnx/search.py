"""Encodes rows with an exported encoder and searches them by Hamming distance.

    pip install onnxruntime faiss-cpu
    python search.py encoder.onnx rows.npy --codes=codes.npy

`rows.npy` holds raw features or pixels, [n, d]. Needs no TensorFlow and
nothing of vdsh_tf: normalisation, threshold and packing are in the file.
"""

import argparse

import faiss
import numpy as np
import onnxruntime


def encode(session, rows, batch_size=1024):
    """Packed codes of raw rows: [n, d] -> [n, ceil(K/8)] uint8."""
    width = session.get_inputs()[0].shape[1]
    if rows.ndim != 2 or rows.shape[1] != width:
        raise SystemExit(
            f"error: rows must be [n, {width}], as the encoder was trained. "
            f"Received: {list(rows.shape)}."
        )
    if not np.isfinite(rows).all():
        raise SystemExit("error: rows must be finite; there is NaN or inf.")
    parts = [
        session.run(["codes"], {"x": rows[start : start + batch_size]})[0]
        for start in range(0, len(rows), batch_size)
    ]
    return np.concatenate(parts)


def main():
    """Reads the command line, encodes and searches."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("encoder")
    parser.add_argument("rows")
    parser.add_argument("--codes", help="write the codes to this .npy file")
    parser.add_argument("--queries", type=int, default=3)
    parser.add_argument("--neighbours", type=int, default=5)
    arguments = parser.parse_args()

    session = onnxruntime.InferenceSession(arguments.encoder)
    meta = session.get_modelmeta().custom_metadata_map
    print(f"encoder {meta['fingerprint']}, {meta['bits']} bits")
    rows = np.load(arguments.rows, allow_pickle=False).astype(np.float32)
    codes = encode(session, rows)
    if arguments.codes:
        np.save(arguments.codes, codes)

    index = faiss.IndexBinaryFlat(8 * codes.shape[1])
    index.add(codes)
    distances, ids = index.search(
        codes[: arguments.queries], arguments.neighbours
    )
    for query, (near, far) in enumerate(zip(ids, distances, strict=True)):
        found = ", ".join(
            f"{i} ({d} bits)" for i, d in zip(near, far, strict=True)
        )
        print(f"row {query}, code {codes[query].tobytes().hex()}: {found}")


if __name__ == "__main__":
    main()
