"""How often bisecting finds a planted boundary, and with how many cells: ``python -m tests.bench.bench_matrix``."""

from hostdoctor.measure.matrix.order import at_most as whole_grid
from tests.measure.matrix.test_boundary import SEEDS, Ran, planted, within_one_step
from tests.support.queueing import experiment


def main() -> None:
    """Print the figures of docs/matrix.md."""
    asked = experiment()
    right, cells, runs = 0, [], []
    said = wrong = 0
    for seed in range(SEEDS):
        law = planted(seed)
        ran = Ran(asked, law, seed)
        right += within_one_step(ran, law)
        for cell, judged in ran.verdicts.items():
            if judged.state in ("holds", "breaks"):
                holds = law.holds(cell.series.variant, cell.context, cell.concurrency, asked.slo)
                said += 1
                wrong += holds != (judged.state == "holds")
        cells.append(asked.load.repeats * ran.cells / whole_grid(asked))
        runs.append(ran.runs / whole_grid(asked))
    print(f"within one step at every context: {right} of {SEEDS} seeds")
    for name, shares in (("cells", cells), ("runs", runs)):
        print(f"{name} of the whole grid: mean {sum(shares) / SEEDS:.1%}, most {max(shares):.1%}")
    print(f"cells said to hold or to break: {said}, wrongly: {wrong}")


if __name__ == "__main__":
    main()
