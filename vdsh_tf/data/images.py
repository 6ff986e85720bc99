"""Image files as rows of pixels, decoded by TensorFlow."""

import os
import re

import numpy as np

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif")


def list_files(folder: str) -> list[str]:
    """Names of the image files in a folder, in order."""
    found = sorted(os.listdir(folder))
    names = [name for name in found if name.lower().endswith(ENDINGS)]
    for name in names:
        _check_file(os.path.join(folder, name))
    if not names:
        raise ValueError(
            f"The folder must hold image files ({', '.join(ENDINGS)}). "
            f"Received: {folder}, with {len(found)} other files."
        )
    return names


def decode(path: str, image_shape: tuple[int, ...]) -> np.ndarray:
    """Pixels of an image file, brought to a shape.

    Args:
        path: the file.
        image_shape: (height, width, channels).

    Returns:
        [height * width * channels]: uint8 as stored, or float32 if the image
        had to be resized.
    """
    import tensorflow as tf

    height, width, channels = image_shape
    image = _decode(path, channels)
    if image.shape[:2] != (height, width):
        image = tf.cast(image, tf.float32)
        image = tf.image.resize(image, (height, width), antialias=True)
    return image.numpy().reshape(-1)


def shape_of(path: str) -> tuple[int, int, int]:
    """(height, width, channels) of an image file: 1 channel if grey, else 3."""
    height, width, channels = _decode(path, 0).shape
    return height, width, 1 if channels < 3 else 3


def read_classes(
    folder: str, image_shape: tuple[int, ...] | None = None
) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Reads a folder that has one folder of image files for each class.

    Args:
        folder: its folders are the classes, numbered in the order of their
            names.
        image_shape: (height, width, channels) that images are brought to;
            default: that of the first one.

    Returns:
        Rows of pixels [n, d] (uint8 if none was resized, else float32),
        labels [n], and the shape.
    """
    classes = sorted(
        entry.name
        for entry in os.scandir(folder)
        if entry.is_dir() and not entry.name.startswith(".")
    )
    if len(classes) < 2:
        raise ValueError(
            "The folder must hold one folder of images for each class, and "
            f"two classes or more. Received: {folder}, with {len(classes)}."
        )
    paths, labels = [], []
    for number, name in enumerate(classes):
        inside = os.path.join(folder, name)
        names = list_files(inside)
        paths += [os.path.join(inside, name) for name in names]
        labels += [number] * len(names)
    shape = tuple(image_shape or shape_of(paths[0]))
    x = np.stack([decode(path, shape) for path in paths])
    return x, np.array(labels), shape


def _check_file(path):
    """Refuses what would be waited for, or has no end."""
    if not os.path.isfile(path):
        raise ValueError(
            f"{path} must be a file, as its ending says. Received: a folder, "
            "a pipe, a device or a link that leads nowhere. Remove it."
        )


def _decode(path, channels):
    import tensorflow as tf

    _check_file(path)
    try:
        data = tf.io.read_file(path)
        # Of GIF and BMP, TensorFlow makes no grey ones.
        grey = channels == 1 and data.numpy()[:2] in (b"GI", b"BM")
        image = tf.io.decode_image(
            data, channels=0 if grey else channels, expand_animations=False
        )
        if grey and image.shape[-1] > 1:
            image = tf.image.rgb_to_grayscale(image[..., :3])
        return image
    except tf.errors.OpError as error:
        cause = re.sub(r"\{\{.*?\}\} |\[Op:.*", "", error.message)
        raise ValueError(
            f"{path} must be an image, but cannot be decoded. Remove or "
            f"repair it. Cause: {cause.strip()}"
        ) from error
