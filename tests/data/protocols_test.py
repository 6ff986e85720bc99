"""Protocols: who is trained on, who searches, who is found."""

import numpy as np
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf.data import datasets
from vdsh_tf.data import protocols
from vdsh_tf.data.protocols import Part


def _rows(part):
    return {row.tobytes() for row in part.x}


class ProtocolTest(case.TestCase):
    def test_paper_searches_in_what_was_trained_on(self):
        split = datasets.load("digits")
        self.assertEqual(split.protocol, "paper")
        self.assertIs(split.database, split.train)
        self.assertIsNone(split.trained_task)

    def test_train_per_class(self):
        split = datasets.load("digits", train_per_class=30, seed=3)
        self.assertEqual(split.protocol, "train_per_class=30")
        self.assert_equal(np.bincount(split.train.y), np.full(10, 30))
        self.assertLen(split.query, 200)
        self.assertLen(split.database, 1797 - 200 - 300)
        parts = [_rows(p) for p in (split.train, split.query, split.database)]
        for i, part in enumerate(parts):
            for other in parts[i + 1 :]:
                self.assertEmpty(part & other)
        query, database = split.trained_task
        self.assertIs(query, split.query)
        self.assertIs(database, split.train)

    def test_validation_of_train_per_class_searches_in_unseen_rows(self):
        split = datasets.load(
            "digits", train_per_class=30, validation_per_class=10
        )
        chosen = split.validation_split()
        self.assertLen(chosen.query, 100)
        self.assertIs(chosen.train, split.train)
        self.assertIs(chosen.database, split.unseen)
        self.assertEmpty(_rows(chosen.query) & _rows(chosen.database))
        self.assertEmpty(_rows(chosen.query) & _rows(split.query))

    def test_unseen_classes(self):
        split = datasets.load("digits", unseen_classes="7,0,9")
        self.assertEqual(split.protocol, "unseen_classes=0,7,9")
        self.assertEqual(split.num_classes, 7)
        self.assertEqual(set(split.train.y), set(range(7)))
        self.assertEqual(set(split.query.y), {0, 7, 9})
        self.assertEqual(set(split.database.y), {0, 7, 9})
        self.assertEmpty(_rows(split.query) & _rows(split.database))
        everything = datasets.load("digits")
        # Class 1 is the first that is trained on, and has number 0.
        first = everything.train.of_classes([1])
        self.assert_equal(split.train.x[split.train.y == 0], first.x)
        query, database = split.trained_task
        self.assertEqual(set(query.y), set(range(7)))
        self.assertIs(database, split.train)

    def test_validation_classes_are_not_the_tests(self):
        split = datasets.load(
            "digits", unseen_classes="7,8,9", validation_per_class=10
        )
        chosen = split.validation_split()
        self.assertEqual(chosen.num_classes, 4)
        self.assertLen(set(chosen.query.y), 3)
        self.assertLen(chosen.query, 30)
        self.assertEqual(set(chosen.query.y), set(chosen.database.y))
        self.assertEmpty(_rows(chosen.database) & _rows(split.database))
        self.assertEmpty(_rows(chosen.database) & _rows(chosen.train))
        self.assertEmpty(_rows(chosen.query) & _rows(split.trained_query))

    def test_share_of_classes_by_seed(self):
        y = np.arange(10).repeat(3)
        drawn = [protocols.parse_classes("0.3", y, seed) for seed in range(5)]
        self.assertEqual({len(classes) for classes in drawn}, {3})
        self.assertGreater(len(set(drawn)), 1)
        self.assertEqual(drawn[1], protocols.parse_classes("0.3", y, 1))

    @parameterized.parameters(
        ("7,8,10", "classes of the data.*'7,8,10'"),
        ("seven", "classes of the data.*'seven'"),
        ("1.5", "classes of the data"),
        ("", "classes of the data"),
        ("0,1,2,3,4,5,6,7,8", "two classes must be left"),
    )
    def test_bad_classes(self, text, message):
        with self.assertRaisesRegex(ValueError, message):
            datasets.load("digits", unseen_classes=text)

    def test_bad_combinations(self):
        with self.assertRaisesRegex(ValueError, "one protocol"):
            datasets.load("digits", unseen_classes="1", train_per_class=3)
        with self.assertRaisesRegex(ValueError, "one label per row"):
            protocols.parse_classes("1", np.eye(3), 0)
        with self.assertRaisesRegex(ValueError, "more than the 500 items"):
            datasets.load("digits", train_per_class=500)
        few = Part(np.eye(4), np.array([0, 0, 1, 1]))
        with self.assertRaisesRegex(ValueError, "three trained classes"):
            protocols.hold_out_classes(few, 1, 0)


if __name__ == "__main__":
    absltest.main()
