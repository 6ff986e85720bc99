"""What an exported file says about itself."""

import dataclasses
import json

import numpy as np

from vdsh_tf import __version__

NORMALIZATIONS = {
    "unit": "unit_length",
    "center": "center_unit_length",
    "standardize": "standardize_unit_length",
}


@dataclasses.dataclass(frozen=True)
class Metadata:
    """Facts that a user of the file needs and cannot see in its graph.

    Attributes:
        fingerprint: `HashEncoder.fingerprint`; codes of different
            fingerprints must not be compared.
        bits: code length K.
        input_width: d, numbers in a row of features.
        layers, width: of the network; `layers` counts the code layer.
        feature_kind: "pixels" or "features".
        image_shape: (height, width, channels) for pixels, or None.
        training_data: name of the data set.
        package_version: of vdsh_tf.
        normalization: what the graph itself does to a row first:
            "unit_length", "center_unit_length" or "standardize_unit_length".
        bit_order: of the packed codes.
    """

    fingerprint: str
    bits: int
    input_width: int
    layers: int
    width: int
    feature_kind: str
    image_shape: tuple[int, ...] | None
    training_data: str
    package_version: str = __version__
    normalization: str = "unit_length"
    bit_order: str = "msb_first"

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    def to_strings(self) -> dict[str, str]:
        """The same as strings, for formats that store nothing else."""
        return {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in dataclasses.asdict(self).items()
        }


def describe(
    model, data: str, image_shape: tuple[int, ...] | None = None
) -> Metadata:
    """Metadata of a trained `VDSH` model.

    Args:
        model: a built model.
        data: name of the data set it was trained on.
        image_shape: (height, width, channels) of the pictures that its rows
            are the pixels of; None if they are other features.
    """
    encoder = model.encoder
    width = int(encoder.kernels[0].shape[0])
    shape = None if image_shape is None else tuple(map(int, image_shape))
    if shape and (len(shape) != 3 or np.prod(shape) != width):
        raise ValueError(
            "`image_shape` must be (height, width, channels) of the pictures "
            f"that the model was trained on, whose rows have {width} numbers. "
            f"Received: image_shape={shape}. Give None for other features."
        )
    return Metadata(
        fingerprint=encoder.fingerprint(),
        bits=encoder.bits,
        input_width=width,
        layers=encoder.num_layers,
        width=encoder.width,
        feature_kind="features" if shape is None else "pixels",
        image_shape=shape,
        training_data=data,
        normalization=NORMALIZATIONS[encoder.normalization_kind],
    )
