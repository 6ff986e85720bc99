"""Plots of the training benchmarks."""

from vdsh_tf.evaluation import plots


def quality_over_time(groups: dict, path: str) -> None:
    """Draws mAP, P@r2 and R@r2 over training time, one line per method.

    Args:
        groups: for each title, one row of panels, the methods and of each a
            list of `quality.Point`.
        path: PNG file to write.
    """
    import matplotlib.figure

    figure = matplotlib.figure.Figure(
        figsize=(13, 4 * len(groups)), layout="constrained"
    )
    rows = figure.subfigures(len(groups), 1, squeeze=False)[:, 0]
    for row, (title, lines) in zip(rows, groups.items(), strict=True):
        row.suptitle(title)
        panels = row.subplots(1, 3)
        for axes, key, name in zip(
            panels,
            ("map", "precision_r2", "recall_r2"),
            ("mAP", "precision, radius 2", "recall, radius 2"),
            strict=True,
        ):
            _draw_quality(axes, lines, key)
            axes.set(title=name, xlabel="training time (s)")
        handles, labels = panels[0].get_legend_handles_labels()
        row.legend(handles, labels, loc="outside lower center", ncols=2)
    plots.save(figure, path)


def _draw_quality(axes, lines, key):
    if not any(lines.values()):
        plots.say_nothing(axes)
        return
    for name, points in lines.items():
        axes.plot(
            [p.seconds for p in points],
            [getattr(p, key) for p in points],
            marker=".",
            label=name,
            linewidth=2.5 if name.startswith("VDSH") else 1.2,
        )
    axes.grid(alpha=0.3)
    top = max(getattr(p, key) for ps in lines.values() for p in ps)
    axes.set_ylim(max(0.0, top - 0.25), min(1.0, top + 0.01))


def cost(result: dict, path: str) -> None:
    """Draws the time of a step against depth and width.

    Args:
        result: for each line its `sizes`, `seconds` and `exponent`.
        path: PNG file to write.
    """
    import matplotlib.figure

    figure = matplotlib.figure.Figure(figsize=(9, 4), layout="constrained")
    panels = figure.subplots(1, 2)
    for name, line in result.items():
        axes = panels[0] if name.startswith("layers") else panels[1]
        axes.loglog(
            line["sizes"],
            [1e3 * s for s in line["seconds"]],
            marker="o",
            label=f"{name}: exponent {line['exponent']:.2f}",
        )
        axes.set_xticks(line["sizes"], labels=map(str, line["sizes"]))
        axes.minorticks_off()
    for axes, title in zip(panels, ("layers", "units per layer"), strict=True):
        axes.set(xlabel=title, ylabel="ms per step, batch 256")
        if not axes.get_lines():
            plots.say_nothing(axes)
            continue
        axes.grid(alpha=0.3, which="both")
        axes.legend()
    plots.save(figure, path)
