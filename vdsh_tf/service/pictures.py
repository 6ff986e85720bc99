"""Pictures of requests as rows, and rows as PNG files."""

import io
import struct
import zlib

import numpy as np

# A picture of more pixels is refused before it is unpacked.
MOST_PIXELS = 1 << 25


class Pictures:
    """How pictures become rows of an encoder.

    Args:
        shape: (height, width, channels) of what the encoder was trained on.
        peak: its largest value, such as 255.
    """

    def __init__(self, shape: tuple[int, ...], peak: float = 255):
        self.shape = shape
        self.peak = peak

    def row(self, data: bytes) -> np.ndarray:
        """[height * width * channels] float32 of an image file's bytes.

        Raises:
            ValueError: it is no image, or too large.
        """
        from PIL import Image

        height, width, channels = self.shape
        try:
            with Image.open(io.BytesIO(data)) as file:
                if file.width * file.height > MOST_PIXELS:
                    raise ValueError(
                        f"it has {file.width} x {file.height} pixels, and "
                        f"{MOST_PIXELS} are the most"
                    )
                image = file.convert("L" if channels == 1 else "RGB")
                if image.size != (width, height):
                    bilinear = Image.Resampling.BILINEAR
                    image = image.resize((width, height), bilinear)
                pixels = np.asarray(image, np.float32).reshape(-1)
        # Pillow has many ways to say that it is none.
        except Exception as error:
            raise ValueError(
                "A picture must be a PNG, JPEG, GIF, BMP or WebP file. Cause: "
                f"{error}"
            ) from error
        return pixels * np.float32(self.peak / 255)


def png(pixels: np.ndarray) -> bytes:
    """A PNG file of [height, width, channels] uint8, 1 or 3 channels."""
    height, width, channels = pixels.shape
    color = {1: 0, 3: 2}[channels]
    header = struct.pack(">IIBBBBB", width, height, 8, color, 0, 0, 0)
    lines = pixels.reshape(height, -1)
    # Each line begins with its filter, 0 for none.
    data = zlib.compress(np.pad(lines, ((0, 0), (1, 0))).tobytes(), 6)
    parts = ((b"IHDR", header), (b"IDAT", data), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body))
        + name
        + body
        + struct.pack(">I", zlib.crc32(name + body))
        for name, body in parts
    )
