"""Flags of the tools that work on a trained run: where it and its data are."""

import dataclasses
import functools
from typing import TYPE_CHECKING

from vdsh_tf.config import ANY
from vdsh_tf.config import setting

if TYPE_CHECKING:
    from vdsh_tf.data.datasets import Split
    from vdsh_tf.model import VDSH
    from vdsh_tf.training.runs import RunDirectory


@dataclasses.dataclass(frozen=True)
class RunFlags:
    """A run, and where its data is now."""

    run_dir: str | None = setting(None, ANY, "Trained run; default the newest.")
    data_dir: str | None = setting(
        None, ANY, "The run's data folder, if it has moved."
    )
    path: str | None = setting(
        None, ANY, "The run's features file or shards, if they have moved."
    )

    @functools.cached_property
    def directory(self) -> "RunDirectory":
        """The run that the flags name, or the newest finished one."""
        from vdsh_tf.training import runs

        return runs.select(self.run_dir)

    @functools.cached_property
    def model(self) -> "VDSH":
        """The run's trained model."""
        from vdsh_tf.training import runs

        return runs.load_model(self.directory.file("model.keras"))

    @functools.cached_property
    def split(self) -> "Split":
        """The run's data; refused if it is no longer what was trained on."""
        from vdsh_tf.training import provenance
        from vdsh_tf.training import trainer

        split = trainer.load_data(
            self.directory.config, data_dir=self.data_dir, path=self.path
        )
        provenance.check_data(self.directory, split)
        return split

    def rows(self, name: str):
        """Rows of a file or folder, or the run's own query or database."""
        from vdsh_tf.data import streams

        return streams.named_rows(
            name, lambda: self.split, self.directory.image_shape
        )
