"""What the numbers of a training run say to its user, in sentences."""

# Below this share of different codes, most answers are ties.
FEW_CODES = 0.02
# mAP among rows that were trained on, minus mAP among others.
LARGE_GAP = 0.1


def sentences(
    distinct_codes: int, items: int, held_out: float, trained: float | None
) -> list[str]:
    """Warnings that follow from the metrics; empty if there are none.

    Args:
        distinct_codes: number of different codes of the items.
        items: how many items were searched in.
        held_out: mAP among items that were not trained on.
        trained: mAP among items that were, or None.
    """
    found = []
    share = distinct_codes / items
    if share < FEW_CODES:
        found.append(
            f"{items:,} items share {distinct_codes:,} codes ({share:.1%}): a "
            "search finds the class and cannot rank within it. If it must, "
            'train with goal="search", a larger `preserve`, or fewer epochs.'
        )
    if trained is not None and trained - held_out > LARGE_GAP:
        found.append(
            f"mAP is {trained:.3f} among items that were trained on and "
            f"{held_out:.3f} among others: the network knows its rows by "
            "heart. Train with `mixup` and more `noise`, for fewer epochs, "
            "or on more rows."
        )
    return found
