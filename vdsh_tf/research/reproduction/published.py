"""Published mAP of the shallow methods beside what is measured here.

The paper shows its results on these data as plots only, so the numbers are
another paper's, with a similar protocol.
"""

from vdsh_tf.research.reproduction import lines
from vdsh_tf.research.reproduction import sources
from vdsh_tf.research.reproduction import style
from vdsh_tf.research.reproduction.sections import Table

SOURCE = (
    "X. Lu, L. Song, R. Xie, X. Yang, W. Zhang: Deep Binary Representation for "
    "Efficient Image Retrieval, Advances in Multimedia 2017, Table 3"
)
BITS = 32
MAP = {
    "mnist": {
        "ksh": 0.897,
        "cca_itq": 0.714,
        "mlh": 0.652,
        "bre": 0.613,
        "itq": 0.422,
        "lsh": 0.235,
    },
    "cifar10_gist": {
        "ksh": 0.346,
        "cca_itq": 0.288,
        "mlh": 0.207,
        "bre": 0.193,
        "itq": 0.172,
        "lsh": 0.120,
    },
}
REASONS = (
    "They rank 1,000 queries against the first 5,000 neighbours, here it is "
    "the whole database; they name neither the features nor the rows trained "
    "on. BRE has a Gaussian kernel here, which is the stronger; CCA-ITQ, MLH "
    "and KSH get unit-length rows. For SDH, FastHash, DSRH, DSCH and DRSCH we "
    "know of no published number with a similar protocol."
)


def table(curves: lines.Curves, data: str) -> Table:
    """Published and own mAP at 32 bits, and the difference."""
    rows = []
    for name, theirs in MAP[data].items():
        ours = lines.values(curves, name, "map").get(BITS)
        rows.append(
            [
                style.TITLES[name],
                theirs,
                ours,
                None if ours is None else ours - theirs,
            ]
        )
    return Table(
        f"published_{data}",
        f"{sources.TITLES[data]}: mAP at {BITS} bits, published and here",
        ["method", "published", "here", "difference"],
        rows,
        f"{SOURCE}. {REASONS}",
    )
