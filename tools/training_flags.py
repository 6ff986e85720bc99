"""One flag for each setting of a training run, for the tools that train."""

import dataclasses

from absl import flags

from vdsh_tf.training.trainer import presets

FLAGS = flags.FLAGS


def define(preset: str) -> None:
    """Defines --preset with this default, and the flags of its settings."""
    names = ", ".join(presets.PRESETS)
    flags.DEFINE_string("preset", preset, f"One of: {names}")
    flags.DEFINE_integer("layers", None, "Depth M, the code layer included.")
    flags.DEFINE_integer("epochs", None, "Epochs of the last stage.")
    meaning = presets.settings_help()
    for field in dataclasses.fields(presets.Run):
        kind = str(field.type)
        define_one = flags.DEFINE_string
        if "float" in kind:
            define_one = flags.DEFINE_float
        elif "int" in kind:
            define_one = flags.DEFINE_integer
        elif "bool" in kind:
            define_one = flags.DEFINE_bool
        # None leaves the setting to the preset.
        define_one(field.name, None, meaning[field.name])


def settings() -> presets.Run:
    """The preset with the flags that were given."""
    run = presets.get(FLAGS.preset)
    given = {
        field.name: FLAGS[field.name].value
        for field in dataclasses.fields(run)
        if FLAGS[field.name].present
    }
    if "stages" in given:
        given["stages"] = presets.parse_stages(given["stages"])
    run = dataclasses.replace(run, **given)
    if FLAGS.layers is not None:
        run = run.with_layers(FLAGS.layers)
    if FLAGS.epochs is not None:
        run = run.with_epochs(FLAGS.epochs)
    return run
