"""Flags from dataclasses: forms, types, help, errors."""

import contextlib
import dataclasses
import io
from typing import ClassVar

from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf.config import ANY
from vdsh_tf.config import COUNT
from vdsh_tf.config import SWITCH
from vdsh_tf.config import setting
from vdsh_tf.tools import flags
from vdsh_tf.tools import scaffold


@dataclasses.dataclass(frozen=True)
class Inner:
    """Settings inside others.

    Not shown.
    """

    rate: float | None = setting(
        None, ANY, "A rate.", usual={"online": 0.5, "full": 0.5}
    )
    exact: bool | None = setting(None, SWITCH, "Exact.")


@dataclasses.dataclass(frozen=True)
class Args:
    """Flags of a tool for these tests."""

    FIRST: ClassVar = ("count",)

    folder: str | None = setting(None, ANY, "100 % of it.", flag=flags.FOLDER)
    count: int = setting(3, COUNT, "How many.")
    check: bool = setting(True, SWITCH, "Check.")
    sizes: tuple[int, ...] = setting((), ANY, "Sizes.", flag=flags.INTEGERS)
    more: tuple[str, ...] = setting((), ANY, "More.", flag={"action": "append"})
    kind: str = setting("a", ANY, "Kind.", flag={"choices": ["a", "b"]})
    inner: Inner = Inner()


def run(work, *argv):
    """Exit code, output and errors of a tool that does `work`."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = scaffold.run(work, Args, "Does it.\n\n    example", argv)
    return code, out.getvalue(), err.getvalue()


class FlagsTest(case.TestCase):
    def parse(self, *argv):
        found = []
        code, _, err = run(lambda args: found.append(args), *argv)
        self.assertEqual(code, 0, err)
        return found[0]

    def test_defaults(self):
        self.assertEqual(self.parse(), Args())

    def test_both_forms(self):
        self.assertEqual(self.parse("--count=4"), Args(count=4))
        self.assertEqual(self.parse("--count", "4"), Args(count=4))

    @parameterized.parameters(
        (("--check",), True),
        (("--check=true",), True),
        (("--check", "false"), False),
        (("--check=false",), False),
        (("--nocheck",), False),
    )
    def test_switch(self, argv, value):
        self.assertEqual(self.parse(*argv), Args(check=value))

    @parameterized.parameters(("--exact", True), ("--noexact", False))
    def test_switch_that_may_be_open(self, flag, value):
        self.assertEqual(self.parse(flag), Args(inner=Inner(exact=value)))

    def test_nested_settings_have_flat_names(self):
        self.assertEqual(
            self.parse("--rate=1e-3"), Args(inner=Inner(rate=0.001))
        )

    def test_lists(self):
        self.assertEqual(self.parse("--sizes=8,16"), Args(sizes=(8, 16)))
        self.assertEqual(
            self.parse("--more=a b", "--more", "c"), Args(more=("a b", "c"))
        )

    @parameterized.parameters(
        (("--cuont=3",), "Unknown flag --cuont. Did you mean --count?"),
        (("--count", "3", "extra"), "Unknown arguments: extra."),
        (("--coun=3",), "Unknown flag --coun. Did you mean --count?"),
        (("--count=x",), "--count: invalid int value: 'x'"),
        (("--count",), "--count: expected one argument"),
        (("--folder",), "--folder: expected one argument"),
        (("--kind=c",), "--kind: invalid choice: 'c'"),
        (("--sizes=8,x",), "integers with commas .* Received: 8,x."),
        (("--check=maybe",), "--check: .*'maybe'"),
        (("--nocount",), "Unknown flag --nocount"),
    )
    def test_wrong_flags_end_with_code_2_and_one_line(self, argv, message):
        code, out, err = run(self.fail, *argv)
        self.assertEqual(code, 2)
        self.assertEqual(out, "")
        self.assertRegex(err, f"^error: .*{message}.* --help`.\n$")
        self.assertLen(err.splitlines(), 1)

    def test_rule_of_a_setting(self):
        code, _, err = run(self.fail, "--count=0")
        self.assertEqual(code, 1)
        self.assertRegex(err, "^error: --count must be an integer >= 1.* 0.\n$")

    def test_help(self):
        code, out, _ = run(self.fail, "--help")
        self.assertEqual(code, 0)
        lines = out.splitlines()
        self.assertEqual(lines[2:5], ["Does it.", "", "    example"])
        self.assertEqual(lines[6:8], ["flags:", lines[7]])
        self.assertRegex(lines[7], "--count N +How many. .default: 3.")
        for text in (
            "--folder FOLDER       100 % of it.\n",
            "--check [true|false]  Check. (default: true; --nocheck for",
            "--sizes N,N           Sizes.\n",
            "--more TEXT           More.\n",
            "--kind {a,b}          Kind. (default: a)",
            "inner:\n  Settings inside others.\n\n",
            "--rate NUMBER         A rate. (default: 0.5)",
            "--verbose [true|false]\n",
        ):
            self.assertIn(text, out)
        self.assertNotIn("Not shown", out)


if __name__ == "__main__":
    absltest.main()
