"""The documents: links lead somewhere, quotations are true, the site builds."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

import pytest
from absl.testing import absltest

from tests.support import case

ROOT = pathlib.Path(__file__).parents[1]
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
# Where the repository has documents of its own.
FOLDERS = (".", "docs", "examples")


def _documents():
    for folder in FOLDERS:
        yield from sorted((ROOT / folder).glob("*.md"))


def _anchors(text):
    """Names of headings, as GitHub and mkdocs make them."""
    found = set()
    for line in FENCED.sub("", text).splitlines():
        if line.startswith("#"):
            words = line.lstrip("#").strip().lower()
            words = re.sub(r"[^\w\- ]", "", words)
            found.add(re.sub(r"[ \-]+", "-", words))
    return found


def broken_links(path):
    """Relative links of a document that lead nowhere."""
    text = path.read_text()
    for target in LINK.findall(FENCED.sub("", text)):
        if re.match(r"\w+:", target):
            continue
        name, _, anchor = target.partition("#")
        there = (path.parent / name).resolve() if name else path
        good = there.exists()
        if good and anchor:
            good = anchor in _anchors(there.read_text())
        if not good:
            yield target


class LinksTest(case.TestCase):
    def test_all_relative_links_resolve(self):
        checked = 0
        for path in _documents():
            self.assertEmpty(list(broken_links(path)), path.name)
            checked += len(LINK.findall(path.read_text()))
        self.assertGreater(checked, 40)

    def test_a_broken_link_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "a.md")
            path.write_text(
                "# One two\n[b](b.md) [c](#one-two) [d](#three) [e](https://x)"
            )
            self.assertEqual(list(broken_links(path)), ["b.md", "#three"])

    def test_every_page_is_in_the_navigation(self):
        nav = (ROOT / "mkdocs.yml").read_text()
        for path in (ROOT / "docs").glob("*.md"):
            self.assertIn(f": {path.name}\n", nav)

    def test_pictures_are_small(self):
        for path in (ROOT / "docs" / "pictures").iterdir():
            self.assertLess(path.stat().st_size, 150_000, path.name)


class AlgorithmTest(case.TestCase):
    def test_quoted_code_is_the_code(self):
        text = (ROOT / "docs" / "algorithm.md").read_text()
        source = (ROOT / "vdsh_tf" / "solver" / "full.py").read_text()
        quoted = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        self.assertLen(quoted, 5)
        for block in quoted:
            indented = textwrap.indent(textwrap.dedent(block), "    ")
            self.assertTrue(block in source or indented in source, block)


class ReadmeTest(case.TestCase):
    def test_length(self):
        lines = (ROOT / "README.md").read_text().splitlines()
        self.assertLessEqual(len(lines), 150)


@pytest.mark.slow
class SiteTest(case.TestCase):
    def test_the_site_builds_without_warnings(self):
        pytest.importorskip("mkdocs", reason="needs the extra docs")
        pytest.importorskip("mkdocstrings")
        pytest.importorskip("material")
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [
                    *(sys.executable, "-m", "mkdocs", "build", "--strict"),
                    *("--site-dir", folder, "--config-file"),
                    str(ROOT / "mkdocs.yml"),
                ],
                capture_output=True,
                text=True,
                env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
                check=False,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            page = pathlib.Path(folder, "api", "index.html").read_text()
        self.assertIn("radius_search", page)


if __name__ == "__main__":
    absltest.main()
