"""What must hold of a stored graph, or faiss reads where it must not."""

import numpy as np


def check(
    levels: np.ndarray,
    links: np.ndarray,
    entry: np.ndarray,
    ends: np.ndarray,
    count: int,
) -> None:
    """Raises a ValueError unless this is a graph that can be walked.

    Args:
        levels: [count] int32, number of levels that each node is on.
        links: int32, for each node its links on level 0, 1 and so on; -1
            for none.
        entry: [1] int64, the node to begin with.
        ends: where the links of each level end among those of a node, the
            first 0; as faiss has them.
        count: number of nodes.
    """
    if levels.dtype != np.int32 or levels.shape != (count,):
        raise ValueError(f"levels are {levels.dtype}, shape {levels.shape}")
    if levels.min() < 1 or levels.max() >= len(ends):
        raise ValueError(f"levels are not from 1 to {len(ends) - 1}")
    offsets = np.cumsum(ends[levels], dtype=np.int64)
    if links.dtype != np.int32 or links.shape != (offsets[-1],):
        raise ValueError(f"links are {links.dtype}, shape {links.shape}")
    if links.min() < -1 or links.max() >= count:
        raise ValueError(f"links are not from -1 to {count - 1}")
    if entry.dtype != np.int64 or entry.shape != (1,):
        raise ValueError(f"entry is {entry.dtype}, shape {entry.shape}")
    if not 0 <= entry[0] < count or levels[entry[0]] != levels.max():
        raise ValueError("the entry is not a node of the highest level")
    offsets -= ends[levels]
    _check_levels(levels, links, ends, offsets)


def _check_levels(levels, links, ends, offsets):
    """A link on a level must lead to a node that is on that level."""
    for level in range(1, int(levels.max())):
        nodes = np.flatnonzero(levels > level)
        places = np.arange(ends[level], ends[level + 1])
        targets = links[offsets[nodes, None] + places]
        # -1 is the last node here, which does not matter.
        if ((targets >= 0) & (levels[targets] <= level)).any():
            raise ValueError(f"a link leads out of level {level}")
