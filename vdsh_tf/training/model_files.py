"""What a .keras file must be before Keras is asked to load it.

Keras makes the network that the settings in the file describe and unpacks what
the archive holds, whatever the sizes. The writer of a model is trusted, but a
damaged or mistaken file must not take the machine down.
"""

import json
import zipfile

from vdsh_tf import config

_CONFIG, _WEIGHTS = "config.json", "model.weights.h5"
_MOST_CONFIG = 1 << 24
# Keras stores its members uncompressed; somebody may pack them again.
_MOST_RATIO = 20
_SLACK = 1 << 20


def check(path: str) -> None:
    """Raises a ValueError for a file that would take more than it holds."""
    with zipfile.ZipFile(path) as archive:
        sizes = {i.filename: i.file_size for i in archive.infolist()}
        packed = sum(i.compress_size for i in archive.infolist())
        total = sum(sizes.values())
        if total > _MOST_RATIO * packed + _SLACK:
            raise ValueError(
                f"it would unpack to {total:,} bytes, {total // packed} times "
                "its size, and no model does"
            )
        if _CONFIG not in sizes or _WEIGHTS not in sizes:
            raise ValueError(f"it lacks {_CONFIG} or {_WEIGHTS}")
        if sizes[_CONFIG] > _MOST_CONFIG:
            raise ValueError(f"its {_CONFIG} has {sizes[_CONFIG]:,} bytes")
        settings = json.loads(archive.read(_CONFIG))
    need = _least_bytes(settings)
    if need > sizes[_WEIGHTS]:
        raise ValueError(
            f"its settings describe a network of {need:,} bytes or more, and "
            f"there are {sizes[_WEIGHTS]:,} bytes of weights"
        )


def _least_bytes(settings):
    """Bytes of float32 weights of a VDSH; 0 for what is none."""
    found = settings.get("config") if isinstance(settings, dict) else None
    names = ("layers", "width", "bits")
    sizes = [(found or {}).get(name) for name in names]
    if not all(map(config.is_count, sizes)):
        return 0
    layers, width, bits = sizes
    if layers == 1:
        return 4 * bits
    return 4 * (width + (layers - 2) * width**2 + width * bits)
