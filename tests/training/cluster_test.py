"""TF_CONFIG is read with care, and workers end together."""

import json
import socket
import sys
import tempfile

from absl.testing import absltest
from absl.testing import parameterized

from vdsh_tf.training import cluster

TWO = ["a:1", "b:2"]


def config(jobs, task):
    return json.dumps({"cluster": jobs, "task": task})


class FromEnvironmentTest(parameterized.TestCase):
    def test_workers(self):
        text = config({"worker": TWO}, {"type": "worker", "index": 1})
        found = cluster.from_environment({"TF_CONFIG": text})
        self.assertEqual(found, (("a:1", "b:2"), 1))
        self.assertFalse(found.is_chief)
        self.assertEqual(found.name, "worker 1 (b:2)")

    def test_chief_comes_first(self):
        jobs = {"chief": ["c:3"], "worker": TWO}
        for task, number in (
            ({"type": "chief", "index": 0}, 0),
            ({"type": "worker", "index": 0}, 1),
        ):
            found = cluster.from_environment({"TF_CONFIG": config(jobs, task)})
            self.assertEqual(found, (("c:3", "a:1", "b:2"), number))

    @parameterized.parameters({}, {"TF_CONFIG": ""}, {"TF_CONFIG": " \n"})
    def test_none(self, **environment):
        self.assertIsNone(cluster.from_environment(environment))

    @parameterized.parameters(
        ("{", "no JSON"),
        ("[]", 'no "cluster"'),
        ('{"cluster": []}', 'no "cluster"'),
        ('{"cluster": {}}', "there must be workers"),
        (config({"worker": "a:1"}, {"index": 0}), "no list of addresses"),
        (config({"worker": ["a:1", "b"]}, {"index": 0}), "'b' is no host:port"),
        (config({"worker": ["a:70000"]}, {"index": 0}), "no host:port"),
        (config({"worker": [["a:1"]]}, {"index": 0}), "no host:port"),
        (config({"worker": ["a:1", "a:1"]}, {"index": 0}), "same address"),
        (config({"worker": TWO}, None), '"task" does not say'),
        (config({"worker": TWO}, {"type": "worker"}), '"task" does not say'),
        (config({"worker": TWO}, {"index": 2}), "index is 2, and there are 2"),
        (config({"worker": TWO}, {"index": -1}), "no number"),
        (config({"worker": TWO}, {"index": "x"}), "no number"),
        (config({"worker": TWO}, {"index": True}), "no number"),
        (config({"worker": TWO}, {"type": "chief", "index": 0}), "are 0 of"),
        (config({"worker": TWO, "ps": ["p:1"]}, {"index": 0}), "has ps"),
        (config({"worker": TWO}, {"type": "ps", "index": 0}), "type is 'ps'"),
        (config({"chief": TWO}, {"type": "chief", "index": 0}), "one chief"),
    )
    def test_wrong(self, text, why):
        with self.assertRaisesRegex(
            ValueError, f"TF_CONFIG must say which workers.*{why}"
        ):
            cluster.from_environment({"TF_CONFIG": text})

    def test_port_that_is_taken(self):
        with socket.socket() as taken:
            taken.bind(("", 0))
            taken.listen()
            port = taken.getsockname()[1]
            place = cluster.Cluster((f"127.0.0.1:{port}",), 0)
            with self.assertRaisesRegex(OSError, f"Port {port} of worker 0"):
                cluster.meet(place)

    def test_a_worker_that_does_not_come(self):
        ports = cluster.free_ports(2)
        place = cluster.Cluster(tuple(f"127.0.0.1:{p}" for p in ports), 1)
        with self.assertRaisesRegex(
            RuntimeError, rf"has not reached worker 0 \(127.0.0.1:{ports[0]}\)"
        ):
            cluster.meet(place, seconds=0.2)

    def test_a_worker_that_is_there(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            own = cluster.free_ports(1)[0]
            place = cluster.Cluster(
                (f"127.0.0.1:{port}", f"127.0.0.1:{own}"), 1
            )
            cluster.meet(place, seconds=60)


class LaunchTest(absltest.TestCase):
    def test_each_has_its_place(self):
        folder = self.enter_context(tempfile.TemporaryDirectory())
        program = (
            "import json, os, sys; c = json.loads(os.environ['TF_CONFIG']); "
            "open(f\"{sys.argv[1]}/{c['task']['index']}\", 'w').write("
            "json.dumps(c['cluster']))"
        )
        cluster.launch(3, [sys.executable, "-c", program, folder])
        said = []
        for number in range(3):
            with open(f"{folder}/{number}") as f:
                said.append(json.load(f))
        self.assertLen(set(said[0]["worker"]), 3)
        self.assertEqual(said, [said[0]] * 3)

    def test_names_the_worker_that_failed(self):
        program = (
            "import os, sys\n"
            "if '\"index\": 1' in os.environ['TF_CONFIG']:\n"
            "    sys.exit('error: no luck.')\n"
        )
        with self.assertRaisesRegex(
            RuntimeError,
            r"^Worker 1 of 2 stopped early \(exit code 1\): no luck. All",
        ):
            cluster.launch(2, [sys.executable, "-c", program])

    def test_a_killed_worker_is_the_cause(self):
        program = (
            "import os, sys\n"
            "if '\"index\": 1' in os.environ['TF_CONFIG']:\n"
            "    os.kill(os.getpid(), 9)\n"
            "sys.exit(1)\n"
        )
        with self.assertRaisesRegex(RuntimeError, r"Worker 1 .*\(signal 9\)"):
            cluster.launch(2, [sys.executable, "-c", program])


if __name__ == "__main__":
    absltest.main()
