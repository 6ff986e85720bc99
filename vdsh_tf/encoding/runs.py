"""All parts of a job, here or on a cluster, and a report of how it went."""

import dataclasses
import os
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator

from vdsh_tf import files
from vdsh_tf.encoding import parts as parts_lib
from vdsh_tf.encoding.jobs import Job
from vdsh_tf.encoding.jobs import Part
from vdsh_tf.encoding.onnx_encoder import OnnxEncoder
from vdsh_tf.encoding.parts import Outcome

Engine = Callable[[Job, list[Part]], Iterable[Outcome]]
REPORT = "report.json"


@dataclasses.dataclass(frozen=True)
class Report:
    """What became of all parts.

    Attributes:
        rows, parts: in the folder of the codes now.
        made_rows, made_parts: encoded by this call; the others were there.
        seconds, rows_per_second: of this call, for the rows it encoded.
        failures: errors of the parts that have no codes, each with its file.
    """

    rows: int
    parts: int
    made_rows: int
    made_parts: int
    seconds: float
    rows_per_second: float
    failures: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.rows} codes in {self.parts} parts; {self.made_rows} made "
            f"now in {self.seconds:.1f} s, {self.rows_per_second:.0f} rows/s; "
            f"{len(self.failures)} parts failed"
        )


def here(job: Job, parts: list[Part]) -> Iterator[Outcome]:
    """Encodes one part after the other in this process."""
    encoder = OnnxEncoder(job.encoder)
    for part in parts:
        yield parts_lib.process(job, part, encoder)


def run(
    job: Job,
    parts: list[Part],
    out: str,
    engine: Engine = here,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Encodes all parts and writes `report.json` beside them.

    A part that fails does not keep the others from being encoded.

    Args:
        job, parts: see `jobs.plan`.
        out: folder of the codes.
        engine: `here`, or a `cluster.Cluster`.
        progress: called with the number of rows done.
    """
    os.makedirs(out, exist_ok=True)
    start = time.perf_counter()
    outcomes: dict[str, Outcome] = {}
    with files.locked(os.path.join(out, REPORT)):
        for outcome in engine(job, parts):
            outcomes[outcome.source] = outcome
            if progress is not None:
                progress(sum(o.rows for o in outcomes.values()))
        report = _report(parts, outcomes, time.perf_counter() - start)
        about = {"fingerprint": job.fingerprint, "bits": job.bits}
        files.write_json(
            os.path.join(out, REPORT), {**about, **dataclasses.asdict(report)}
        )
    return report


def _report(parts, outcomes, seconds):
    failures = []
    for part in parts:
        outcome = outcomes.get(part.source)
        if outcome is None:
            failures.append(f"{part.source}: no machine encoded it")
        elif outcome.error:
            failures.append(outcome.error)
    good = [o for o in outcomes.values() if not o.error]
    made = [o for o in good if o.made]
    made_rows = sum(o.rows for o in made)
    return Report(
        rows=sum(o.rows for o in good),
        parts=len(good),
        made_rows=made_rows,
        made_parts=len(made),
        seconds=seconds,
        rows_per_second=made_rows / max(seconds, 1e-9),
        failures=tuple(failures),
    )
