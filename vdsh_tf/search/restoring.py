"""What is saved of the structures: plain arrays, checked before faiss has them.

Codes are never among them. So a file can make an approximate search miss more,
but not report a distance that is not there.
"""

import numpy as np

from vdsh_tf.search import graph_checks
from vdsh_tf.search import structures
from vdsh_tf.search.structures import Groups

# By kind; without any, it is as fast to build a structure as to read it.
SAVED: dict[str, tuple[str, ...]] = {
    "flat": (),
    "hash": (),
    "ivf": ("centres",),
    "hnsw": ("members", "starts", "levels", "links", "entry"),
}
_ROWS = 1 << 16


def arrays_of(kind: str, structure) -> dict[str, np.ndarray]:
    """What to save of a structure, by name; see `index_files`."""
    if structure is None:
        return {}
    faiss = structures.import_faiss()
    if kind == "ivf":
        centres = faiss.downcast_IndexBinary(structure.index.quantizer)
        return {"centres": centres.reconstruct_n(0, structure.index.nlist)}
    if kind == "hnsw":
        hnsw = structure.index.hnsw
        return {
            "members": structure.groups.members,
            "starts": structure.groups.starts,
            "levels": faiss.vector_to_array(hnsw.levels),
            "links": faiss.vector_to_array(hnsw.neighbors),
            "entry": np.array([hnsw.entry_point], np.int64),
        }
    return {}


def check(kind: str, codes: np.ndarray, arrays) -> None:
    """Raises a ValueError unless `SAVED` arrays suit these codes."""
    if kind == "ivf":
        _check_centres(codes, **arrays)
    elif kind == "hnsw":
        check_groups(arrays["members"], arrays["starts"], codes)
        levels, links, entry = (arrays[n] for n in ("levels", "links", "entry"))
        count = len(arrays["starts"])
        graph_checks.check(levels, links, entry, _ends(codes), count)


def restore(kind: str, codes: np.ndarray, arrays) -> structures.Structure:
    """The structure of these codes; `check` the arrays first."""
    make = _restore_cells if kind == "ivf" else _restore_graph
    return structures.KINDS[kind].of(*make(codes, arrays))


def _restore_cells(codes, arrays):
    faiss = structures.import_faiss()
    centres = arrays["centres"]
    groups = Groups.of(codes)
    width = 8 * codes.shape[1]
    flat = faiss.IndexBinaryFlat(width)
    flat.add(centres)
    index = faiss.IndexBinaryIVF(flat, width, len(centres))
    index.is_trained = True
    index.add(groups.codes(codes))
    return index, groups


def _restore_graph(codes, arrays):
    faiss = structures.import_faiss()
    groups = Groups(arrays["members"], arrays["starts"])
    levels = arrays["levels"]
    index = _empty_graph(codes)
    hnsw = index.hnsw
    faiss.copy_array_to_vector(levels, hnsw.levels)
    hnsw.max_level = hnsw.prepare_level_tab(len(levels), True)
    faiss.copy_array_to_vector(arrays["links"], hnsw.neighbors)
    hnsw.entry_point = int(arrays["entry"][0])
    faiss.downcast_IndexBinary(index.storage).add(groups.codes(codes))
    index.ntotal = len(levels)
    return index, groups


def _empty_graph(codes):
    faiss = structures.import_faiss()
    degree = structures.Graph.DEGREE
    return faiss.IndexBinaryHNSW(8 * codes.shape[1], degree)


def _ends(codes):
    """Where faiss ends the links of each level of a node."""
    # It must have a name: what belongs to it goes with it.
    graph = _empty_graph(codes)
    ends = graph.hnsw.cum_nneighbor_per_level
    return structures.import_faiss().vector_to_array(ends)


def _check_centres(codes, centres):
    most = min(structures.InvertedFile.MOST_CELLS, len(codes))
    plain = centres.dtype == np.uint8 and centres.ndim == 2
    if not plain or centres.shape[1] != codes.shape[1]:
        raise ValueError(f"centres are {centres.dtype}, {centres.shape}")
    if not 1 <= len(centres) <= most:
        raise ValueError(f"{len(centres)} cells, of 1 to {most}")


def check_groups(members, starts, codes: np.ndarray) -> None:
    """Raises a ValueError unless these are groups of equal codes."""
    count = len(codes)
    for rows in (members, starts):
        if rows.dtype != np.int64 or rows.ndim != 1:
            raise ValueError(f"rows are {rows.dtype}, shape {rows.shape}")
    _check_permutation(members, count)
    rising = len(starts) and starts[0] == 0 and starts[-1] < count
    if not rising or (starts[1:] <= starts[:-1]).any():
        raise ValueError("`starts` does not rise from 0 to below n")
    first = np.zeros(count, bool)
    first[starts] = True
    for start in range(1, count, _ROWS):
        end = min(start + _ROWS, count)
        part = codes[members[start - 1 : end]]
        same = (part[1:] == part[:-1]).all(axis=1)
        if not (same | first[start:end]).all():
            raise ValueError("a group holds codes that differ")


def _within(rows, count):
    return len(rows) and rows.min() >= 0 and rows.max() < count


def _check_permutation(rows, count):
    if len(rows) != count or not _within(rows, count):
        raise ValueError(f"`members` are not the rows from 0 to {count - 1}")
    seen = np.zeros(count, bool)
    seen[rows] = True
    if not seen.all():
        raise ValueError("`members` has a row twice")
