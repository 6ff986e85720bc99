"""Rules by which the report says that an experiment agrees."""

import numpy as np
from absl.testing import absltest
from absl.testing import parameterized

from tests.support import case
from vdsh_tf.research.reproduction import architecture
from vdsh_tf.research.reproduction import backprop
from vdsh_tf.research.reproduction import compact
from vdsh_tf.research.reproduction import convergence
from vdsh_tf.research.reproduction import few_shot
from vdsh_tf.research.reproduction import layers
from vdsh_tf.research.reproduction import methods
from vdsh_tf.research.reproduction import multilabel
from vdsh_tf.research.reproduction import retrieval
from vdsh_tf.research.reproduction import timing


def curves_of(**numbers):
    """Curves from one mAP for each length; P@r2 is the same number."""
    return {
        name: {
            bits: v
            if v is None
            else {"map": v, "precision_r2": v, "precision_r0": v - 0.01}
            for bits, v in zip((16, 32, 64), row, strict=False)
        }
        for name, row in numbers.items()
    }


class VerdictTest(case.TestCase):
    def check(self, verdict, want):
        self.assertEqual(
            verdict.verdict,
            {True: "agrees", False: "differs", None: "not testable here"}[want],
            verdict.why,
        )

    @parameterized.parameters(
        ((0.5, 0.6, 0.7), (0.4, 0.5, 0.6), True),
        ((0.5, 0.6, 0.7), (0.4, 0.6, 0.6), False),
        ((0.5, 0.6, 0.7), (0.4, None, 0.6), None),
        ((0.5, 0.6, 0.7), (0.6, None, 0.6), False),
    )
    def test_ahead(self, vdsh, sdh, want):
        curves = curves_of(vdsh=vdsh, sdh=sdh)
        verdict = retrieval.ahead(curves, "data", methods.SHALLOW)
        self.check(verdict, want)
        if want is False:
            self.assertRegex(verdict.why, r"mAP at (16|32) bits: SDH 0\.600")

    def test_margins(self):
        far = curves_of(vdsh=(0.5, 0.6), sdh=(0.4, 0.5))
        near = curves_of(vdsh=(0.5, 0.6), sdh=(0.4, 0.59))
        self.check(retrieval.margins(far, "data"), True)
        self.check(retrieval.margins(near, "data"), False)
        hole = curves_of(vdsh=(0.5, None), sdh=(0.4, 0.5))
        self.check(retrieval.margins(hole, "data"), None)

    def test_stable(self):
        flat, steep = (0.5, 0.51, 0.5), (0.7, 0.6, 0.5)
        low = (0.1, 0.1, 0.1)
        curves = curves_of(vdsh=flat, sdh=steep, lsh=low)
        self.check(retrieval.stable(curves, "data"), True)
        curves = curves_of(vdsh=steep, sdh=flat, lsh=low)
        self.check(retrieval.stable(curves, "data"), False)

    def test_deep_behind(self):
        deep = {name: (0.5, 0.5) for name in methods.DEEP}
        curves = curves_of(vdsh=(0.6, 0.6), sdh=(0.6, 0.4), **deep)
        self.check(retrieval.deep_behind(curves, "vdsh"), True)
        self.check(retrieval.deep_behind(curves, "sdh"), False)
        self.check(retrieval.deep_behind(curves_of(vdsh=(0.6,)), "vdsh"), None)

    def test_fasthash_falls(self):
        def curves(precision):
            row = zip((32, 64), precision, strict=True)
            return {
                "fasthash": {b: {"map": 0.7, "precision_r2": p} for b, p in row}
            }

        self.check(retrieval.fasthash_falls(curves((0.7, 0.4))), True)
        self.check(retrieval.fasthash_falls(curves((0.7, 0.69))), False)

    def test_radius(self):
        curves = curves_of(vdsh=(0.6,), sdh=(0.6,), fasthash=(0.6,))
        first, second = compact.radius_verdicts(curves, "cifar10_cnn")
        self.check(first, True)
        self.check(second, False)
        for name in ("sdh", "fasthash"):
            curves[name][16]["precision_r0"] = 0.1
        self.check(compact.radius_verdicts(curves, "cifar10_cnn")[1], True)
        curves["vdsh"][16]["precision_r0"] = 0.5
        self.check(compact.radius_verdicts(curves, "cifar10_cnn")[0], False)
        nothing = curves_of(vdsh=(0.01,), sdh=(0.6,), fasthash=(0.6,))
        for verdict in compact.radius_verdicts(nothing, "cifar10_cnn"):
            self.check(verdict, False)

    def test_multilabel_lead(self):
        near = curves_of(vdsh=(0.5, 0.5), sdh=(0.49, 0.49))
        far = curves_of(vdsh=(0.5, 0.5), sdh=(0.3, 0.3))
        found = {"tmc2007_500": near, "corel16k001": near}
        single = {"mnist": far, "cifar10_gist": far}
        self.check(multilabel.verdicts(found, single)[-1], True)
        self.check(multilabel.verdicts(single, found)[-1], False)

    def test_convergence(self):
        t = np.arange(1, 101)[:, None]
        rates = {"1e-5": 80.0, "1e-3": 50.0, "1e-1": 10.0, "10": 10.0}
        duals = {
            b: 1 + np.exp(-t / rate) * np.ones((1, 8))
            for b, rate in rates.items()
        }
        duals["10"] = duals["10"] + 0.2 * (-1.0) ** t
        for verdict in convergence.verdicts(duals)[:3]:
            self.check(verdict, True)
        swapped = {**duals, "1e-1": duals["10"], "10": duals["1e-1"]}
        for verdict in convergence.verdicts(swapped)[1:3]:
            self.check(verdict, False)
        smooth = {
            b: d if b != "10" else duals["1e-1"] for b, d in duals.items()
        }
        self.check(convergence.verdicts(smooth)[3], True)
        apart = duals["1e-1"].copy()
        apart[:, 0] = np.linspace(2, 1, 100)
        self.check(convergence.verdicts({**smooth, "1e-1": apart})[3], False)
        for verdict in convergence.verdicts({**duals, "10": None}):
            self.check(verdict, None)

    def test_layers(self):
        rising = {"pixels": 0.0, "layer 1": 0.2, "layer 8": 0.5}
        falling = {"pixels": 0.5, "layer 1": 0.2, "layer 8": 0.1}
        for names, want in ((rising, True), (falling, False)):
            for verdict in layers.verdicts(names):
                self.check(verdict, want)

    def test_time(self):
        sizes = [32, 64, 128, 256]

        def line(power):
            return {"sizes": sizes, "seconds": [n**power for n in sizes]}

        good = timing.verdicts({"nodes": line(2.0), "layers": line(1.0)})
        bad = timing.verdicts({"nodes": line(1.0), "layers": line(2.0)})
        for verdict, other in zip(good[:2], bad[:2], strict=True):
            self.check(verdict, True)
            self.check(other, False)

    def test_architecture(self):
        def found(*values):
            shapes = [(4, 64), (16, 64), (64, 64), (8, 32), (8, 128), (8, 512)]
            areas = dict(zip(shapes, values, strict=True))
            return {"map": areas, "precision_r2": areas}

        good = found(50.0, 60.0, 61.0, 40.0, 60.0, 61.0)
        for verdict in architecture.verdicts(good, "data"):
            self.check(verdict, True)
        bad = found(60.0, 59.0, 59.0, 60.0, 58.0, 59.0)
        bad["precision_r2"] = {s: -v for s, v in bad["map"].items()}
        for verdict in architecture.verdicts(bad, "data"):
            self.check(verdict, False)
        hole = found(50.0, None, 61.0, 40.0, 60.0, 61.0)
        for verdict in architecture.verdicts(hole, "data"):
            self.check(verdict, None)

    def test_area(self):
        self.assertAlmostEqual(architecture.area((16, 32, 64), (1, 1, 1)), 100)
        self.assertAlmostEqual(architecture.area((16, 48), (0.0, 0.5)), 25)
        self.assertIsNone(architecture.area((16, 48), (0.5, None)))

    def test_few_shot(self):
        def found(vdsh, sdh, fasthash):
            return {
                name: {"precision_r2": [v], "recall_r2": [v]}
                for name, v in (
                    ("vdsh", vdsh),
                    ("sdh", sdh),
                    ("fasthash", fasthash),
                )
            }

        self.check(few_shot.verdicts(found(0.3, 0.2, 0.1))[1], True)
        self.check(few_shot.verdicts(found(0.2, 0.3, 0.1))[1], False)

    def test_backprop(self):
        def line(seconds, quality):
            points = [{"seconds": seconds, "map": quality}]
            return {
                "points": points,
                "map": quality,
                "precision_r2": 0.9,
                "train_seconds": seconds,
            }

        def found(slow, failed):
            other = 0.3 if failed else 0.95
            return {
                "4x64": {"vdsh": line(1.0, 0.95), "backprop": line(slow, 0.95)},
                "48x256": {
                    "vdsh": line(9.0, 0.97),
                    **{name: line(9.0, other) for name in backprop.METHODS[1:]},
                },
            }

        for verdict in backprop.verdicts(found(20.0, True)):
            self.check(verdict, True)
        verdicts = backprop.verdicts(found(1.0, False))
        self.check(verdicts[1], False)
        self.check(verdicts[3], False)


if __name__ == "__main__":
    absltest.main()
