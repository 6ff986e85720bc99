"""The contracts between the rooms, checked on the sources.

A check is a function from a source tree to what is wrong with it; a made-up
tree shows that each of them can fail.
"""

import ast
import dataclasses
import functools
import graphlib
import pathlib
import re
import tempfile
import textwrap

from absl.testing import absltest
from absl.testing import parameterized

from vdsh_tf import config

ROOT = pathlib.Path(__file__).parents[1]
FOLDERS = {
    "vdsh_tf": "vdsh_tf",
    "export": "vdsh_tf.export",
    "tools": "vdsh_tf.tools",
}
WITHOUT_TENSORFLOW = (
    "encoding",
    "evaluation",
    "search",
    "service",
    "serving",
    "training.cluster",
)
MOST_MODULES = 10
MOST_PARAMETERS = 10
SKIP = "# fmt: " + "skip"


parse = functools.cache(ast.parse)


def read_modules(root):
    """The syntax tree of every module, by the name it is imported under."""
    found = {}
    for folder, package in FOLDERS.items():
        for path in sorted((root / folder).rglob("*.py")):
            parts = path.relative_to(root / folder).with_suffix("").parts
            name = ".".join((package, *parts)).removesuffix(".__init__")
            found[name] = parse(path.read_text())
    return found


def imported(node, when="top"):
    """Imported names with their time: "top", "lazy" (a call) or "typing"."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name, when) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert not child.level, f"line {child.lineno}: relative import"
            for alias in child.names:
                yield f"{child.module}.{alias.name}", when
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from imported(child, "lazy")
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(
            child.test
        ):
            yield from imported(child, "typing")
        else:
            yield from imported(child, when)


def import_graph(modules, *times):
    """For each module what it imports: modules, or roots outside."""
    # `import vdsh_tf` is lazy; its names stand for their homes.
    names = imported(modules["vdsh_tf"])
    homes = {n.rpartition(".")[2]: n for n, time in names if time == "typing"}

    def resolve(name):
        if name.startswith("vdsh_tf.") and name[8:] in homes:
            name = homes[name[8:]]
        while name not in modules and "." in name:
            name = name.rpartition(".")[0]
        return name

    return {
        name: {resolve(n) for n, time in imported(tree) if time in times}
        for name, tree in modules.items()
    }


def chains(graph, start):
    """How `start` gets to each module that importing it brings along."""
    found, queue = {start: start}, [start]
    for name in queue:
        package = name.rpartition(".")[0]
        for target in sorted(graph.get(name, set()) | {package} - {""}):
            if target not in found:
                found[target] = f"{found[name]} -> {target}"
                queue.append(target)
    return found


def inside(name, *rooms):
    return any(f"{name}.".startswith(f"vdsh_tf.{room}.") for room in rooms)


def brought(graph, starts, banned):
    """Chains of imports that end in a package that is banned."""
    return [
        chain
        for start in starts
        for name, chain in chains(graph, start).items()
        if name.partition(".")[0] in banned
    ]


def importers(graph, room, allowed):
    """Imports of a room from where it must not be imported."""
    return [
        f"{name} -> {target}"
        for name, targets in graph.items()
        if not inside(name, room, *allowed)
        for target in targets
        if inside(target, room)
    ]


def solver_without_keras(root):
    graph = import_graph(read_modules(root), "top", "lazy")
    starts = [name for name in graph if inside(name, "solver")]
    return brought(graph, starts, {"keras"})


def rooms_without_tensorflow(root):
    graph = import_graph(read_modules(root), "top")
    starts = {n for n in graph if inside(n, *WITHOUT_TENSORFLOW)}
    starts -= {"vdsh_tf.search.hasher"}
    return brought(graph, sorted(starts), {"tensorflow", "keras"})


def research_is_not_imported(root):
    graph = import_graph(read_modules(root), "top", "lazy", "typing")
    return importers(graph, "research", ["tools"])


def tools_are_not_imported(root):
    graph = import_graph(read_modules(root), "top", "lazy", "typing")
    return importers(graph, "tools", [])


def export_is_not_imported(root):
    graph = import_graph(read_modules(root), "top", "lazy", "typing")
    return importers(graph, "export", ["tools", "research"])


def no_cycles(root):
    graph = import_graph(read_modules(root), "top", "lazy")
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return [" -> ".join(error.args[1])]
    return []


def few_modules(root):
    found = sorted(path.name for path in (root / "vdsh_tf").glob("*.py"))
    return found if len(found) > MOST_MODULES else []


def few_parameters(root):
    for node in read_modules(root)["vdsh_tf.model"].body:
        if isinstance(node, ast.ClassDef) and node.name == "VDSH":
            body = {getattr(part, "name", ""): part for part in node.body}
            args = body["__init__"].args
            names = [a.arg for a in (*args.args, *args.kwonlyargs)][1:]
            return names if len(names) > MOST_PARAMETERS else []
    return ["there is no VDSH"]


def nothing_unformatted(root):
    paths = [*root.glob("*.py")]
    for folder in (*FOLDERS, "tests", "examples"):
        paths += (root / folder).rglob("*.py")
    return [
        f"{path.relative_to(root)}:{number}"
        for path in sorted(paths)
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if SKIP in line
    ]


def settings_are_stated_once(root):
    """Solver settings named outside `config` and `solver`.

    Presets and research give settings their values, by keyword arguments.
    Names of one word (beta, margin) have other meanings, too, and may occur.
    """
    fields = {field.name for field in dataclasses.fields(config.Solver)}
    settings = {name for name in fields if "_" in name}
    found = []
    for module, tree in read_modules(root).items():
        if inside(module, "config", "solver"):
            continue
        gives_values = inside(module, "training.presets", "research")
        for node in ast.walk(tree):
            if gives_values and isinstance(node, ast.keyword):
                continue
            texts = [getattr(node, key, "") for key in ("attr", "id", "arg")]
            texts.append(node.value if isinstance(node, ast.Constant) else "")
            words = re.findall(r"\w+", " ".join(map(str, texts)))
            found += [f"{module}: {w}" for w in words if w in settings]
    return found


CHECKS = (
    solver_without_keras,
    rooms_without_tensorflow,
    research_is_not_imported,
    tools_are_not_imported,
    export_is_not_imported,
    no_cycles,
    few_modules,
    few_parameters,
    nothing_unformatted,
    settings_are_stated_once,
)

# A tree that keeps all contracts, and changes that break one each.
GOOD = {
    "vdsh_tf/__init__.py": """
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from vdsh_tf.model import VDSH
        """,
    "vdsh_tf/config.py": "code_steps = 1",
    "vdsh_tf/model.py": """
        import keras
        from vdsh_tf.solver import step
        class VDSH(keras.Model):
            def __init__(self, layers, solver=None, **kwargs):
                self.beta = solver.beta
        """,
    "vdsh_tf/solver/__init__.py": "",
    "vdsh_tf/solver/step.py": "import tensorflow\nfrom vdsh_tf import config",
    "vdsh_tf/search/__init__.py": "",
    "vdsh_tf/search/hasher.py": "from vdsh_tf.model import VDSH",
    "vdsh_tf/search/index.py": "def load():\n  import tensorflow",
    "vdsh_tf/training/presets.py": "big = dict(code_steps=2)",
    "vdsh_tf/research/__init__.py": "",
    "vdsh_tf/research/study.py": "import vdsh_tf.export.writer",
    "export/writer.py": "from vdsh_tf import VDSH",
    "tools/run.py": "from vdsh_tf.research import study",
}
BAD = (
    (
        solver_without_keras,
        {
            "vdsh_tf/solver/step.py": "def late():\n  import vdsh_tf.helper",
            "vdsh_tf/helper.py": "from keras import layers",
        },
    ),
    (
        rooms_without_tensorflow,
        {"vdsh_tf/search/index.py": "from vdsh_tf.search.hasher import x"},
    ),
    (
        rooms_without_tensorflow,
        {"vdsh_tf/search/__init__.py": "import tensorflow.io"},
    ),
    (
        research_is_not_imported,
        {"export/writer.py": "def late():\n  from vdsh_tf import research"},
    ),
    (tools_are_not_imported, {"vdsh_tf/config.py": "import vdsh_tf.tools.run"}),
    (
        export_is_not_imported,
        {"vdsh_tf/solver/step.py": "from vdsh_tf.export.writer import x"},
    ),
    (
        no_cycles,
        {"vdsh_tf/config.py": "def late():\n  from vdsh_tf import VDSH"},
    ),
    (few_modules, {f"vdsh_tf/module_{i}.py": "" for i in range(8)}),
    (
        few_parameters,
        {
            "vdsh_tf/model.py": "class VDSH:\n  def __init__(self, "
            + ", ".join(f"p{i}" for i in range(11))
            + "): ..."
        },
    ),
    (nothing_unformatted, {"tests/some_test.py": f"x = 1  {SKIP}"}),
    *(
        (settings_are_stated_once, {"tools/run.py": text})
        for text in (
            "f(code_steps=1)",
            "def f(code_steps): ...",
            "x.code_steps",
            "code_steps = 1",
            "d['code_steps']",
            "f'--code_steps={x}'",
        )
    ),
    (
        settings_are_stated_once,
        {"vdsh_tf/training/presets.py": "def f(code_steps=1): ..."},
    ),
)


class ContractsTest(parameterized.TestCase):
    @parameterized.named_parameters((c.__name__, c) for c in CHECKS)
    def test_holds(self, check):
        self.assertEqual(check(ROOT), [])

    @parameterized.parameters(*BAD)
    def test_can_fail(self, check, change):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for tree, outcome in (
                (GOOD, self.assertEmpty),
                (change, self.assertNotEmpty),
            ):
                for name, text in tree.items():
                    path = root / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(textwrap.dedent(text))
                outcome(check(root))

    def test_every_check_can_fail(self):
        self.assertEqual({check for check, _ in BAD}, set(CHECKS))


if __name__ == "__main__":
    absltest.main()
