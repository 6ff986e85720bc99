"""GIST, slow and plain: one image, one filter, one pixel at a time.

NumPy in float64, every transform a sum over a plain FFT of the whole padded
image; follows LMgist line by line, without any of the library's matrices.
"""

import math

import numpy as np

SCALES = 4
ORIENTATIONS = 8


def mirrored(image, before, after):
    """The image with its mirror image around it, index by index."""
    n = len(image)

    def source(q):
        q = q % (2 * n)
        return q if q < n else 2 * n - 1 - q

    size = before + n + after
    out = np.empty((size, size))
    for row in range(size):
        for column in range(size):
            out[row, column] = image[
                source(row - before), source(column - before)
            ]
    return out


def frequencies(n):
    """Signed frequencies in the order of an FFT."""
    return [k if k < n // 2 else k - n for k in range(n)]


def prefilter(grey, fc=4, w=5):
    x = grey - grey.min()
    x = 255 * x / x.max()
    x = mirrored(np.log(x + 1), w, w)
    n = len(x)
    spread = fc / math.sqrt(math.log(2))
    transfer = np.array(
        [
            [math.exp(-(fx**2 + fy**2) / spread**2) for fx in frequencies(n)]
            for fy in frequencies(n)
        ]
    )
    x = x - np.fft.ifft2(np.fft.fft2(x) * transfer).real
    deviation = np.sqrt(np.abs(np.fft.ifft2(np.fft.fft2(x**2) * transfer)))
    return (x / (0.2 + deviation))[w:-w, w:-w]


def gabor(n, scale, orientation):
    """Transfer function of one filter on an n x n field."""
    out = np.empty((n, n))
    for row, fy in enumerate(frequencies(n)):
        for column, fx in enumerate(frequencies(n)):
            turn = math.atan2(fy, fx) + math.pi * orientation / ORIENTATIONS
            if turn > math.pi:
                turn -= 2 * math.pi
            ratio = math.hypot(fx, fy) / n / (0.3 / 1.85**scale)
            width = 16 * ORIENTATIONS**2 / 32**2
            out[row, column] = math.exp(
                -10 * 0.35 * (ratio - 1) ** 2 - 2 * width * math.pi * turn**2
            )
    return out


def filters(n=96):
    return [
        gabor(n, scale, orientation)
        for scale in range(SCALES)
        for orientation in range(ORIENTATIONS)
    ]


def gist(image, transfers, padding=32, blocks=4):
    """GIST of one 32 x 32 image [32, 32, channels]."""
    x = prefilter(image.astype(np.float64).mean(axis=-1))
    spectrum = np.fft.fft2(mirrored(x, padding, padding))
    side = len(x) // blocks
    values = []
    for transfer in transfers:
        response = np.abs(np.fft.ifft2(spectrum * transfer))
        response = response[padding:-padding, padding:-padding]
        for row in range(blocks):
            for column in range(blocks):
                block = response[
                    row * side : (row + 1) * side,
                    column * side : (column + 1) * side,
                ]
                values.append(block.mean())
    return np.array(values)
