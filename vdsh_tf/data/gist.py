"""GIST, the image descriptor of the paper's CIFAR-10 experiments.

A. Oliva and A. Torralba, "Modeling the shape of the scene: a holistic
representation of the spatial envelope", IJCV 42(3), 2001; with the steps and
constants of the authors' LMgist program.

    grey, 32 x 32 --> local contrast normalisation --> 32 Gabor filters
                  --> magnitude --> mean over 4 x 4 blocks --> 512 numbers
"""

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

# Raise it whenever a row changes: stored features carry it in their name.
GIST_VERSION = 1
SCALES, ORIENTATIONS, BLOCKS = 4, 8, 4
GIST_WIDTH = SCALES * ORIENTATIONS * BLOCKS**2

_SIDE = 32
_HALF = _SIDE * _SIDE // 2
# The filters see the image with its mirror images around it.
_PADDING = 32
_FIELD = _SIDE + 2 * _PADDING
_CONTRAST_CUTOFF = 4
_CONTRAST_PADDING = 5
_CONTRAST_FLOOR = 0.2


def gist(
    images,
    batch_size: int = 256,
    progress: Callable[[int], None] | None = None,
) -> np.ndarray:
    """GIST rows of images.

    An image that is not 32 x 32 is scaled until its shorter side is, and its
    middle is used. Brightness is the mean of the channels; its scale does not
    matter, because every image is stretched to the same range. An image of
    one colour has no structure, and a row of zeros.

    Args:
        images: [n, height, width, 1 or 3], any real numbers.
        batch_size: images computed together; rows do not depend on it.
        progress: called after each batch with the number of images in it.

    Returns:
        float32 [n, 512]: scale (fine to coarse), orientation (of the waves'
        direction: along x first, along y at 4), block row, block column.
    """
    images = _check_images(images)
    if batch_size < 1:
        raise ValueError(
            f"`batch_size` must be >= 1. Received: batch_size={batch_size}."
        )
    batch_size = min(batch_size, max(len(images), 1))
    rows = np.empty([len(images), GIST_WIDTH], np.float32)
    for start in range(0, len(images), batch_size):
        batch = images[start : start + batch_size].astype(np.float32)
        num = len(batch)
        # One shape, one trace: the last batch is filled up.
        fill = [(0, batch_size - num)] + [(0, 0)] * 3
        result = gist_batch(np.pad(batch, fill), *gabor_matrices())
        rows[start : start + num] = result[:num]
        if progress is not None:
            progress(num)
    return rows


@tf.function
def gist_batch(images, even, odd):
    """GIST of one batch, as a graph of matrix products.

    A pixel p of a response and its half-turn p' are ye + yo and the conjugate
    of ye - yo: see `gabor_matrices`. Reversing a flat image turns it by half.

    Args:
        images: float32 [batch, height, width, channels].
        even: see `gabor_matrices`.
        odd: likewise.

    Returns:
        [batch, 512].
    """
    grey = tf.reduce_mean(_square(images), axis=-1)
    x = tf.reshape(normalise_contrast(grey), [-1, _SIDE * _SIDE])
    turned = tf.reverse(x, axis=[1])
    ye = tf.matmul((x + turned)[:, :_HALF], even)
    yo = tf.matmul((x - turned)[:, :_HALF], odd)
    upper = _block_means(ye + yo)
    lower = _block_means(ye - yo)
    blocks = tf.concat([upper, tf.reverse(lower, axis=[-1])], axis=-1)
    return tf.reshape(tf.transpose(blocks, [1, 0, 2]), [-1, GIST_WIDTH])


def normalise_contrast(grey):
    """Logarithm less its local mean, over its local deviation.

    Args:
        grey: [batch, 32, 32].

    Returns:
        [batch, 32, 32].
    """
    low = tf.reduce_min(grey, axis=[1, 2], keepdims=True)
    high = tf.reduce_max(grey, axis=[1, 2], keepdims=True)
    stretched = 255 * tf.math.divide_no_nan(grey - low, high - low)
    w = _CONTRAST_PADDING
    x = tf.pad(tf.math.log1p(stretched), [[0, 0], [w, w], [w, w]], "SYMMETRIC")
    low_pass = _low_pass_matrix().astype(np.float32)

    def blur(v):
        return tf.matmul(tf.matmul(low_pass, v), low_pass)

    detail = x - blur(x)
    deviation = tf.sqrt(tf.abs(blur(tf.square(detail))))
    return (detail / (_CONTRAST_FLOOR + deviation))[:, w:-w, w:-w]


def gabor_transfer() -> np.ndarray:
    """Transfer functions [32, 96, 96] of the Gabor filters, real.

    A filter is a bump around one frequency and direction; it has no partner
    at the opposite frequency, so that its response is complex and the
    magnitude of it has no ripple.
    """
    f = np.fft.fftfreq(_FIELD)
    fy, fx = np.meshgrid(f, f, indexing="ij")
    radius, angle = np.hypot(fx, fy), np.arctan2(fy, fx)
    filters = []
    for scale in range(SCALES):
        centre = 0.3 / 1.85**scale
        for orientation in range(ORIENTATIONS):
            turn = angle + np.pi * orientation / ORIENTATIONS
            turn = (turn + np.pi) % (2 * np.pi) - np.pi
            sharpness = (ORIENTATIONS / 8) ** 2
            filters.append(
                np.exp(
                    -3.5 * (radius / centre - 1) ** 2
                    - 2 * np.pi * sharpness * turn**2
                )
            )
    return np.stack(filters)


@functools.cache
def gabor_matrices() -> tuple[tf.Tensor, tf.Tensor]:
    """The filters with padding and cropping, as matrices on half images.

    All three are linear in the 32 x 32 image, so that a filter is a matrix A
    from pixels i to responses p. Its transfer function is real, hence a half
    turn of both conjugates it: A[p', i'] = conj A[p, i]. With x = (e + o) / 2
    in an even part e and an odd part o, responses ye to e and yo to o in the
    upper half of the image therefore give those in the lower half, too.

    Returns:
        even, odd: float32 [32, 512, 1024]: pixels of the upper half of e or o
        to the real, then the imaginary parts of the upper half's responses.
    """
    pixel = np.arange(_SIDE)
    p, n = _PADDING, _SIDE
    copies = np.stack([p - 1 - pixel, p + pixel, p + 2 * n - 1 - pixel])
    # shift[c, a, b]: from copy c of pixel b to pixel a, around the field.
    shift = ((p + pixel)[:, None] - copies[:, None, :]) % _FIELD
    halves: dict[int, list[np.ndarray]] = {1: [], -1: []}
    for transfer in gabor_transfer():
        wave = np.fft.ifft2(transfer)[:, shift].sum(axis=1)
        a = wave[shift[:, : n // 2]].sum(axis=0).transpose(1, 3, 0, 2)
        a = a.reshape(n * n, _HALF)
        for sign, matrices in halves.items():
            half = (a[:_HALF] + sign * a[::-1][:_HALF]) / 2
            matrices.append(np.hstack([half.real, half.imag]))
    with tf.init_scope():
        return tuple(
            tf.constant(np.stack(halves[sign]), tf.float32) for sign in (1, -1)
        )


def _block_means(response):
    """Mean magnitude in the upper half's blocks: [32, batch, 8]."""
    real, imag = tf.split(response, 2, axis=-1)
    magnitude = tf.sqrt(tf.square(real) + tf.square(imag))
    side = _SIDE // BLOCKS
    row, column = np.divmod(np.arange(_HALF), _SIDE)
    block = row // side * BLOCKS + column // side
    pool = np.eye(BLOCKS**2 // 2, dtype=np.float32)[block] / side**2
    return tf.matmul(magnitude, pool)


def _low_pass_matrix():
    """Circular Gaussian blur of one axis, symmetric: [42, 42]."""
    n = _SIDE + 2 * _CONTRAST_PADDING
    cycles = np.fft.fftfreq(n) * n
    transfer = np.exp(-(cycles**2) * np.log(2) / _CONTRAST_CUTOFF**2)
    kernel = np.fft.ifft(transfer).real
    return kernel[(np.arange(n)[:, None] - np.arange(n)) % n]


def _square(images):
    """The middle of images [batch, h, w, c] at 32 x 32."""
    height, width = images.shape[1:3]
    if height == width == _SIDE:
        return images
    short = min(height, width)
    rows = _resize_matrix(height, short)
    columns = _resize_matrix(width, short)
    return tf.einsum("ph,nhwc,qw->npqc", rows, images, columns)


def _resize_matrix(size, short):
    """Bilinear scaling that averages what it shrinks: [32, size]."""
    step = short / _SIDE
    centre = (np.arange(_SIDE) + 0.5) * step + (size - short) / 2
    distance = np.abs(np.arange(size) + 0.5 - centre[:, None])
    weight = np.maximum(0, 1 - distance / max(step, 1))
    return (weight / weight.sum(axis=1, keepdims=True)).astype(np.float32)


def _check_images(images):
    images = np.asarray(images)
    if images.dtype.kind not in "fiub":
        raise ValueError(
            f"Images must be numbers. Received: dtype={images.dtype}."
        )
    if images.ndim != 4 or images.shape[-1] not in (1, 3):
        raise ValueError(
            "Images must be [n, height, width, channels] with 1 channel or 3; "
            "reshape rows of pixels, and give one image an axis of its own. "
            f"Received: shape={images.shape}."
        )
    if 0 in images.shape[1:]:
        raise ValueError(
            f"Images must have pixels. Received: shape={images.shape}."
        )
    if images.dtype.kind == "f":
        bad = np.flatnonzero(~np.isfinite(images).all(axis=(1, 2, 3)))
        if len(bad):
            raise ValueError(
                "Images must be finite. Received: NaN or inf in image "
                f"{bad[0]} ({len(bad)} such images). Drop or repair them."
            )
    return images
