"""NUS-WIDE as distributed: 500 visual words and 21 of its 81 labels.

T.-S. Chua et al., "NUS-WIDE: a real-world web image database from National
University of Singapore", CIVR 2009. Unpack its archives "Low-Level Features",
"Groundtruth" and "Concept List" into one folder:

    Low_Level_Features/BoW_int.dat      one line per image: 500 counts
    Groundtruth/AllLabels/Labels_<concept>.txt      likewise: 0 or 1
    ConceptsList/Concepts81.txt         one concept per line
"""

import os
import warnings
from typing import NamedTuple

import numpy as np

WORDS = 500
NUM_LABELS = 21
SITE = (
    "https://lms.comp.nus.edu.sg/wp-content/uploads/2019/research/nuswide/"
    "NUS-WIDE.html"
)
# Where unpacking leaves the files, with and without the archives' folders.
_WORD_FILES = (
    "Low_Level_Features/BoW_int.dat",
    "NUS_WID_Low_Level_Features/Low_Level_Features/BoW_int.dat",
    "BoW_int.dat",
)
_CONCEPT_FILES = ("ConceptsList/Concepts81.txt", "Concepts81.txt")
_LABEL_FOLDERS = ("Groundtruth/AllLabels", "AllLabels")


class NusWide(NamedTuple):
    """Images that have a frequent label.

    Attributes:
        x: [n, 500], how often each visual word occurs.
        y: [n, C], uint8 multi-hot.
        concepts: names of the C labels, in the order of the concept list.
    """

    x: np.ndarray
    y: np.ndarray
    concepts: tuple[str, ...]


def read(data_dir: str | None, num_labels: int = NUM_LABELS) -> NusWide:
    """Reads the images with at least one of the most frequent labels.

    Images without any visual word have no direction and no code; they are
    left out with a warning.

    Args:
        data_dir: folder with the unpacked archives.
        num_labels: how many of the labels are used, C.
    """
    word_file, label_files = _find_files(data_dir)
    if len(label_files) < num_labels:
        raise ValueError(
            f"The concept list must name {num_labels} concepts or more. "
            f"Received: {len(label_files)}."
        )
    concepts, y = _read_labels(label_files, num_labels)
    x = _read_words(word_file)
    if len(x) != len(y):
        raise ValueError(
            "Every image needs its words and its labels, in the same order. "
            f"Received: {len(x)} lines in {word_file} and {len(y)} in every "
            f"file of labels. Unpack the archives again; {SITE} has them."
        )
    labelled = y.any(axis=1)
    empty = labelled & ~x.any(axis=1)
    if empty.any():
        warnings.warn(
            f"{empty.sum()} images of NUS-WIDE have no visual words and are "
            "left out.",
            stacklevel=4,
        )
    kept = labelled & ~empty
    return NusWide(x[kept], y[kept], concepts)


def _find_files(data_dir):
    """The file of words, and a file of labels for every concept."""
    if not data_dir:
        raise ValueError(
            "`nus_wide` needs `data_dir`, the folder with the unpacked "
            f"archives; {SITE} has them."
        )
    if not os.path.isdir(data_dir):
        raise FileNotFoundError(
            f"The data directory must exist. Received: {data_dir!r}."
        )
    words = _first(data_dir, _WORD_FILES)
    concepts = _first(data_dir, _CONCEPT_FILES)
    labels = _first(data_dir, _LABEL_FOLDERS)
    missing = [
        f"{choices[0]} (archive {archive})"
        for found, choices, archive in (
            (words, _WORD_FILES, "Low-Level Features"),
            (concepts, _CONCEPT_FILES, "Concept List"),
            (labels, _LABEL_FOLDERS, "Groundtruth"),
        )
        if found is None
    ]
    label_files = {}
    if not missing:
        with open(concepts) as f:
            names = f.read().split()
        label_files = {
            name: os.path.join(labels, f"Labels_{name}.txt") for name in names
        }
        missing = [p for p in label_files.values() if not os.path.isfile(p)]
    if missing:
        raise FileNotFoundError(
            f"NUS-WIDE in {data_dir} is not complete. Missing: "
            f"{', '.join(missing[:5])}{', ...' if len(missing) > 5 else ''}. "
            f"Get the archives from {SITE} and unpack them into the folder."
        )
    return words, label_files


def _first(folder, choices):
    paths = [os.path.join(folder, choice) for choice in choices]
    return next((path for path in paths if os.path.exists(path)), None)


def _read_labels(label_files, num_labels):
    columns = []
    for path in label_files.values():
        column = _read_numbers(path, np.uint8, "0 or 1 on each line")
        if column.shape[1] != 1 or not np.isin(column, (0, 1)).all():
            raise ValueError(
                f"{path} must hold 0 or 1 on each line. Received: "
                f"{column.shape[1]} numbers per line, from {column.min()} to "
                f"{column.max()}."
            )
        if columns and len(column) != len(columns[0]):
            first = next(iter(label_files.values()))
            raise ValueError(
                "Files of labels must have one line for each image. Received: "
                f"{len(columns[0])} lines in {first} and {len(column)} in "
                f"{path}. Unpack the archive again; {SITE} has it."
            )
        columns.append(column[:, 0])
    counts = np.array([column.sum(dtype=np.int64) for column in columns])
    frequent = np.sort(np.argsort(-counts, kind="stable")[:num_labels])
    names = list(label_files)
    return (
        tuple(names[i] for i in frequent),
        np.stack([columns[i] for i in frequent], axis=1),
    )


def _read_words(path):
    x = _read_numbers(path, np.uint16, f"{WORDS} counts on each line")
    if x.shape[1] != WORDS:
        raise ValueError(
            f"{path} must hold {WORDS} counts on each line. Received: "
            f"{x.shape[1]}."
        )
    return x


def _read_numbers(path, dtype, expected):
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "loadtxt: input contained no")
            numbers = np.loadtxt(path, dtype=dtype, ndmin=2, comments=None)
    except ValueError as error:
        raise ValueError(
            f"{path} must hold {expected}. Cause: {error}"
        ) from error
    if not len(numbers):
        raise ValueError(f"{path} must hold {expected}. Received: no lines.")
    return numbers
