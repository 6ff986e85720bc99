"""Turns features or images into packed codes, with a trained run's encoder.

    python tools/encode.py                      # the newest run's database
    python tools/encode.py --input=features.npy --out=codes.npy
    python tools/encode.py --input=photos/ --run_dir=runs/mnist-001
    python tools/encode.py --images=photos/ --out=photos.npy
    python tools/encode.py --input='data/*.parquet' --out=codes/
    python tools/encode.py --input='data/*.parquet' --out=codes/ --cluster=auto

Reads .npy, .npz or a folder of images piece by piece and writes a plain .npy
of uint8, 8 bits per byte, in constant memory; codes.npy.json beside it says
which encoder made it. Images of another size are resized to what the encoder
was trained on; MNIST's digits are white on black. About 16,000 rows per second
for 48 layers x 256 on two cores.

--images encodes a folder by an exported file that takes pictures, --encoder or
RUN_DIR/export/encoder_images.onnx (`tools/export.py --backbone`, for a run on
features of pictures), or else encoder_pixels.onnx.

Parquet files become Parquet files of `id`, `code` and --columns, one each, by
the exported encoder (`tools/export.py --onnx`); finished ones are not done
again. With --cluster, a Ray cluster does it, whose machines all see the files.
"""

import dataclasses
import os
import sys
from collections.abc import Sequence
from typing import ClassVar

from vdsh_tf.config import ANY
from vdsh_tf.config import COUNT
from vdsh_tf.config import setting
from vdsh_tf.tools import flags
from vdsh_tf.tools import run_flags
from vdsh_tf.tools import scaffold

# Pictures take more memory on their way than rows.
_PICTURES = 32


@dataclasses.dataclass(frozen=True)
class Args(run_flags.RunFlags):
    """Flags of this tool."""

    FIRST: ClassVar = ("input", "out", "run_dir", "batch_size")

    input: str = setting(
        "database",
        ANY,
        "File, folder, or the run's own database or query.",
        flag=flags.FILE,
    )
    out: str | None = setting(
        None, ANY, "File to write; default RUN_DIR/codes.npy.", flag=flags.FILE
    )
    images: str | None = setting(
        None,
        ANY,
        "Folder of pictures, for an exported encoder of pictures.",
        flag=flags.FOLDER,
    )
    batch_size: int = setting(1024, COUNT, "Rows in memory at a time.")
    cluster: str | None = setting(
        None, ANY, "Ray cluster for Parquet files: auto, or its HOST:PORT."
    )
    encoder: str | None = setting(
        None,
        ANY,
        "For Parquet files and --images; default RUN_DIR/export/encoder*.onnx.",
        flag=flags.FILE,
    )
    features: str | None = setting(
        None, ANY, "Parquet column of features; default the only list."
    )
    id: str | None = setting(
        None, ANY, "Parquet column of ids; default id, or else row numbers."
    )
    columns: str | None = setting(
        None, ANY, "More Parquet columns to keep, with commas between them."
    )


def encode(args: Args) -> None:
    """Writes the codes and prints their number and path."""
    if args.images is not None:
        return encode_images(args)
    if args.input.endswith(".parquet"):
        return encode_parquet(args)
    for name in ("cluster", "encoder", "features", "id", "columns"):
        if getattr(args, name) is not None:
            raise ValueError(
                f"--{name} is for Parquet files: --input must end in "
                f".parquet, such as 'data/*.parquet'. Received: {args.input}."
            )
    from vdsh_tf.search import code_files
    from vdsh_tf.search.hasher import Hasher

    encoder = args.model.encoder
    rows = args.rows(args.input)
    name = "codes.npy"
    if args.input != "database":
        stem = os.path.basename(os.path.normpath(args.input))
        name = f"codes-{os.path.splitext(stem)[0]}.npy"
    out = args.out or args.directory.file(name)
    if not out.endswith(".npy"):
        raise ValueError(f"--out must end in .npy. Received: {out}.")
    with scaffold.progress(rows.shape[0], "row") as progress:
        count = code_files.write(
            out,
            rows,
            Hasher(encoder),
            encoder.fingerprint(),
            args.input,
            args.batch_size,
            progress,
        )
    print(f"{count} codes of {encoder.bits} bits")
    print(out)


def encode_images(args: Args) -> None:
    """Encodes a folder of pictures by an exported file."""
    from vdsh_tf.data import streams
    from vdsh_tf.encoding import onnx_encoder
    from vdsh_tf.search import code_files

    place = args.encoder
    if place is None:
        names = ("encoder_images.onnx", "encoder_pixels.onnx")
        places = [args.directory.file("export", name) for name in names]
        place = next(filter(os.path.isfile, places), places[0])
    encoder = onnx_encoder.OnnxEncoder(onnx_encoder.read(place))
    if encoder.image_shape is None:
        raise ValueError(
            f"--images needs an encoder that takes pictures. Received: {place}"
            ", which takes rows of features. Make one with `python "
            "tools/export.py --onnx --backbone=...`."
        )
    rows = streams.Images(str(args.images), encoder.image_shape)
    stem = os.path.basename(os.path.normpath(str(args.images)))
    out = args.out or args.directory.file(f"codes-{stem}.npy")
    if not out.endswith(".npy"):
        raise ValueError(f"--out must end in .npy. Received: {out}.")
    size = min(args.batch_size, _PICTURES)
    with scaffold.progress(rows.shape[0], "picture") as progress:
        count = code_files.write(
            out,
            rows,
            encoder,
            encoder.fingerprint,
            str(args.images),
            size,
            progress,
        )
    print(f"{count} codes of {encoder.bits} bits; row i is file i by name")
    print(out)


def encode_parquet(args: Args) -> None:
    """Encodes Parquet files and prints what became of them."""
    from vdsh_tf.encoding import jobs
    from vdsh_tf.encoding import onnx_encoder
    from vdsh_tf.encoding import runs

    if not args.out or args.out.endswith((".npy", ".parquet")):
        raise ValueError(
            "--out must name a folder for the codes of Parquet files. "
            f"Received: {args.out}."
        )
    place = args.encoder or args.directory.file("export/encoder.onnx")
    job, parts = jobs.plan(
        args.input,
        args.out,
        onnx_encoder.read(place),
        args.features,
        args.id,
        tuple(filter(None, (args.columns or "").split(","))),
        args.batch_size,
    )
    engine: runs.Engine = runs.here
    if args.cluster:
        from vdsh_tf.encoding import cluster

        engine = cluster.Cluster(args.cluster)
    total = sum(part.rows for part in parts)
    with scaffold.progress(total, "row") as progress:
        report = runs.run(job, parts, args.out, engine, progress)
    print(report)
    print(args.out)
    if report.failures:
        shown = "\n".join(report.failures[:10])
        raise ValueError(
            f"{len(report.failures)} of {len(parts)} parts have no codes; the "
            "others are complete. Mend these files and run the same command "
            f"again, which does only what is left:\n{shown}"
        )


def main(argv: Sequence[str] | None = None) -> int:
    return scaffold.run(encode, Args, __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
