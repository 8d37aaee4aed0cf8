"""all_reduce.png: time over size, one panel a number of ranks."""
from figures import fastest, median
from groups import DIRECT_LOOPS, MPIS, OWN_LOOPS

LINES = [("rondo", "Rondo (processes)", "#c0392b", "-", 2.4),
         ("rondo_alloc", "Rondo, ncclMemAlloc", "#e67e22", "-", 1.4),
         ("openmpi", "Open MPI", "#2c3e50", "-", 1.2),
         ("openmpi_ucx", "Open MPI, UCX", "#2980b9", "-", 1.2),
         ("openmpi_sm", "Open MPI, coll/sm", "#16a085", "-", 1.2),
         ("mpich", "MPICH", "#8e44ad", "-", 1.2)]


def floor(points, names):
    return [(size, median(cell[fastest(cell, names)]) * 1e6) for size, cell in points
            if fastest(cell, names)]


def draw(results, path):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    counts = sorted({n for n, op, _ in results if op == "all_reduce"})
    if not counts:
        return
    figure, panels = pyplot.subplots(1, len(counts), figsize=(5 * len(counts), 4.4), squeeze=False)
    for panel, n in zip(panels[0], counts):
        points = [(size, cell) for (ranks, op, size), cell in sorted(results.items())
                  if ranks == n and op == "all_reduce" and cell]
        for name, label, colour, style, width in LINES:
            line = [(size, median(cell[name]) * 1e6) for size, cell in points
                    if any(cell.get(name) or [])]
            if line:
                panel.plot(*zip(*line), style, label=label, color=colour, linewidth=width)
        for names, label, style in ((OWN_LOOPS, "best copying loop", "--"),
                                    (DIRECT_LOOPS, "best direct loop", ":")):
            line = floor(points, names)
            if line:
                panel.plot(*zip(*line), style, label=label, color="#7f8c8d", linewidth=1.2)
        panel.set(xscale="log", yscale="log", title=f"all-reduce, f32, {n} ranks",
                  xlabel="bytes", ylabel="microseconds")
        panel.grid(True, which="major", alpha=0.3)
    panels[0][0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
