"""Filters against a plain reading of the same tree, and what is refused."""

import json
import random
import sqlite3

from absl.testing import absltest
from absl.testing import parameterized

from vdsh_tf.service import filters

PAYLOADS = [
    {},
    {"a": 1},
    {"a": 2.5, "b": "x"},
    {"a": "1", "b": "y", "c": {"d": 3}},
    {"a": None, "b": 'it\'s "odd"', "c": {"d": "z"}},
    {"a": True, "c": {"d": True}},
    {"a": False, "b": ["x"]},
    {"a": {"b": 1}, "b": 0},
    {"a": -1e9, "b": ""},
    {"a": 10**15, "c": 5},
]


def matches(node, payload):
    """What a filter means, word by word."""
    if isinstance(node, filters.Not):
        return not matches(node.part, payload)
    if isinstance(node, filters.Both):
        return all(matches(part, payload) for part in node.parts)
    if isinstance(node, filters.Either):
        return any(matches(part, payload) for part in node.parts)
    if isinstance(node, filters.Among):
        return any(
            matches(filters.Compare(node.field, "=", value), payload)
            for value in node.values
        )
    value = payload
    for name in node.field.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if node.value is None:
        return (value is None) == (node.sign == "=")
    if kind(value) != kind(node.value):
        return False
    return filters.COMPARISONS[node.sign](value, node.value)


def kind(value):
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, int | float) else type(value).__name__


def selected(text):
    """Payloads that SQLite finds."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE items (id INTEGER, payload TEXT)")
    connection.executemany(
        "INSERT INTO items VALUES (?, ?)",
        [(i, json.dumps(p)) for i, p in enumerate(PAYLOADS)],
    )
    sql, values = filters.to_sql(filters.parse(text))
    found = connection.execute(
        f"SELECT id FROM items WHERE {sql} ORDER BY id", values
    )
    return [row[0] for row in found]


def random_filter(rng, depth=0):
    if depth < 3 and rng.random() < 0.5:
        left = random_filter(rng, depth + 1)
        if rng.random() < 0.3:
            return f"not ({left})"
        right = random_filter(rng, depth + 1)
        return f"({left}) {rng.choice(['and', 'OR'])} {right}"
    field = rng.choice(["a", "b", "c", "c.d", "none"])
    values = ["1", "2.5", "-1e9", '"x"', "'y'", '""', "true", "null", "3"]
    if rng.random() < 0.3:
        return f"{field} in [{', '.join(rng.sample(values, 3))}]"
    sign = rng.choice(list(filters.COMPARISONS))
    if sign in ("<", "<=", ">", ">="):
        values = values[:6]
    return f"{field} {sign} {rng.choice(values)}"


class FiltersTest(parameterized.TestCase):
    def test_means_what_it_says(self):
        rng = random.Random(0)
        sizes = set()
        for _ in range(400):
            text = random_filter(rng)
            node = filters.parse(text)
            want = [i for i, p in enumerate(PAYLOADS) if matches(node, p)]
            self.assertEqual(selected(text), want, text)
            sizes.add(len(want))
        self.assertGreater(len(sizes), 5)

    @parameterized.parameters(
        ("a = 1", [1]),
        ("a == 1 or b = 'x'", [1, 2]),
        ("not a = 1 and b = 0", [7]),
        ("c.d = 3", [3]),
        ("a = null", [0, 4]),
        ("a != null and b != null", [2, 3, 6, 7, 8]),
        ("a = true", [5]),
        ('a in [1, "1", false]', [1, 3, 6]),
        (r'b = "it\'s \"odd\""'.replace(r"\'", "'"), [4]),
        (r"b = 'it\'s " + '"odd"' + "'", [4]),
        ("a > 2 and a < 3", [2]),
    )
    def test_examples(self, text, want):
        self.assertEqual(selected(text), want)

    @parameterized.parameters(
        "",
        "a",
        "a =",
        "= 3",
        "a = 3 b = 4",
        "a = 3 and",
        "(a = 3",
        "a = 3)",
        "a < null",
        "a >= true",
        "a in []",
        "a in 3",
        "a in [1",
        "a = 'open",
        'a = "bad \\q escape"',
        'a = "\\ud800"',
        "a = b",
        "a; DROP TABLE items",
        "__import__('os')",
        "a = 1 -- comment",
        "a = 99999999999999999999",
        "a = 1e999",
        "a = 3x",
        "true = 1",
        "not " * 50 + "a = 1",
        "(" * 50 + "a = 1" + ")" * 50,
        "a = 1 or " * 300 + "a = 1",
        3,
        None,
    )
    def test_refused(self, text):
        with self.assertRaises(filters.FilterError) as caught:
            filters.parse(text)
        self.assertStartsWith(str(caught.exception), "A filter ")

    def test_as_long_as_allowed(self):
        values = ", ".join(["1"] * 600)
        self.assertEqual(selected(f"a in [{values}]"), [1])
        chain = " or ".join(["a = 1"] * 200)
        self.assertEqual(selected(chain), [1])
        deep = filters.MOST_DEPTH // 2
        nested = "(a = 1 and not " * deep + "a = 2" + ")" * deep
        node = filters.parse(nested)
        want = [i for i, p in enumerate(PAYLOADS) if matches(node, p)]
        self.assertEqual(selected(nested), want)


if __name__ == "__main__":
    absltest.main()
