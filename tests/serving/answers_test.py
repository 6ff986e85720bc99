"""Any answer of a server: an array of the form asked for, or ServingError."""

import base64
import json
import unittest

import hypothesis
import numpy as np
import pytest
from absl.testing import absltest
from absl.testing import parameterized
from hypothesis import strategies as st

from vdsh_tf.serving import answers
from vdsh_tf.serving import errors
from vdsh_tf.serving import rest
from vdsh_tf.serving.errors import ServingError

QUICK = hypothesis.settings(max_examples=200, deadline=None, database=None)
KINDS = (answers.CODES, answers.EMBEDDING, answers.TEXT)
NUMBERS = st.one_of(
    st.integers(), st.floats(), st.booleans(), st.none(), st.text(max_size=5)
)
JSON = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(["outputs", "codes", "b64", "x", "dim", "size"]),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=20,
)
# Nearly right, which is where mistakes are.
ROWS = st.lists(st.lists(NUMBERS, max_size=3), max_size=4)
STRINGS = st.lists(
    st.fixed_dictionaries(
        {
            "b64": st.binary(max_size=3).map(
                lambda b: base64.b64encode(b).decode()
            )
        }
    ),
    max_size=4,
)


def form(kind, rows=2):
    width = None if kind == answers.TEXT else 2
    return answers.Form("codes", kind, rows, width, 12, 4)


def check_text(error):
    """An error must be fit for a terminal."""
    assert str(error).isprintable()
    assert len(str(error)) <= 2003


def check(kind, read):
    """Runs a reader; what it gives must be as asked for."""
    try:
        found = read()
    except ServingError as error:
        check_text(error)
        return
    want = form(kind)
    assert found.shape == want.shape
    if kind == answers.TEXT:
        assert all(text.isprintable() for text in found)
        return
    assert found.dtype == (np.uint8 if kind == answers.CODES else np.float32)
    assert np.isfinite(found).all()
    if kind == answers.CODES:
        assert not (found[:, -1] & 15).any()


class RestTest(parameterized.TestCase):
    @parameterized.parameters(*KINDS)
    def test_answers_of_json(self, kind):
        @QUICK
        @hypothesis.given(st.one_of(JSON, ROWS, STRINGS), st.booleans())
        def holds(value, named):
            outputs = {"codes": value} if named else value
            text = json.dumps({"outputs": outputs}).encode()
            check(kind, lambda: rest.read_answer(text, form(kind)))

        holds()

    @parameterized.parameters(*KINDS)
    def test_answers_of_bytes(self, kind):
        @QUICK
        @hypothesis.given(st.binary(max_size=60))
        def holds(text):
            check(kind, lambda: rest.read_answer(text, form(kind)))

        holds()

    @QUICK
    @hypothesis.given(JSON)
    def test_signatures_of_json(self, value):
        listed = {"metadata": {"signature_def": {"signature_def": value}}}
        for tree in (value, listed):
            self.use_signatures(json.dumps(tree).encode())

    @QUICK
    @hypothesis.given(
        st.lists(st.integers() | st.text(max_size=3) | st.floats(), max_size=4),
        st.sampled_from(["inputs", "outputs"]),
        st.booleans(),
    )
    def test_signatures_with_shapes(self, sizes, place, unknown):
        shape = {
            "dim": [{"size": size} for size in sizes],
            "unknown_rank": unknown,
        }
        names = {"x": {"tensor_shape": shape}, "codes": {"tensor_shape": shape}}
        found = {"serving_default": {place: names}}
        listed = {"metadata": {"signature_def": {"signature_def": found}}}
        self.use_signatures(json.dumps(listed).encode())

    def use_signatures(self, text):
        """All that the client asks of signatures."""
        try:
            found = rest.read_signatures(text)
            one = answers.find(found, "serving_default")
            (width,) = answers.row_shape(one.inputs, "x", 1)
            size, bits = answers.code_size(found, None)
            numbers = answers.row_numbers(one, size)
        except ServingError as error:
            check_text(error)
            return
        assert width >= 1
        assert bits is None or (bits + 7) // 8 == size
        self.assertBetween(numbers, size, answers.MOST_NUMBERS)

    def test_right_answers_pass(self):
        want = np.array([[1, 16], [255, 0]], np.uint8)
        strings = [{"b64": base64.b64encode(row).decode()} for row in want]
        for value in (want.tolist(), strings):
            text = json.dumps({"outputs": value}, indent=4).encode()
            got = rest.read_answer(text, form(answers.CODES))
            np.testing.assert_array_equal(got, want)
        text = b'{"outputs": {"bits": [], "codes": [[0, 1], [0.5, 2e-9]]}}'
        got = rest.read_answer(text, form(answers.EMBEDDING))
        np.testing.assert_array_equal(
            got, np.array([[0, 1], [0.5, 2e-9]], np.float32)
        )

    @QUICK
    @hypothesis.given(
        st.integers(1, 300), st.integers(1, 70), st.integers(0, 2**31)
    )
    def test_longest_right_answer_fits(self, rows, bits, seed):
        """Floats of all magnitudes, all outputs, indented."""
        draw = np.random.default_rng(seed)
        values = draw.integers(1 << 32, size=(rows, bits), dtype=np.uint32)
        floats = values.view(np.float32)
        floats[~np.isfinite(floats)] = -1.1754943508222875e-38
        size = (bits + 7) // 8
        outputs = {
            "codes": np.full((rows, size), 255).tolist(),
            "bits": np.full((rows, bits), -1).tolist(),
            "embedding": floats.tolist(),
        }
        text = json.dumps({"outputs": outputs}).encode()
        shapes = {"codes": (-1, size), "bits": (-1, bits)}
        served = errors.Signature({}, {**shapes, "embedding": (-1, bits)})
        numbers = answers.row_numbers(served, size)
        want = answers.Form(
            "embedding", answers.EMBEDDING, rows, bits, bits, numbers
        )
        assert len(text) <= rest.most_bytes(want)
        np.testing.assert_array_equal(rest.read_answer(text, want), floats)


class TextTest(parameterized.TestCase):
    @QUICK
    @hypothesis.given(st.text(max_size=3000))
    def test_errors_can_be_shown(self, text):
        for made in (
            ServingError(text),
            errors.refused(text),
            errors.not_found(text, text),
            errors.nonsense(text.encode("utf-8", "surrogatepass")),
        ):
            check_text(made)

    def test_keeps_what_can_be_read(self):
        text = "Größe 3 µm, 漢字, 'quoted' \\n"
        assert str(ServingError(text)) == text
        assert str(ServingError("a\nb\x1b[2J")) == r"a\nb\x1b[2J"


class GrpcTest(parameterized.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        try:
            from vdsh_tf.serving import grpc
        except RuntimeError as error:
            raise unittest.SkipTest(str(error)) from error
        cls.grpc = grpc

    @parameterized.parameters(*KINDS)
    def test_answers_of_bytes(self, kind):
        @QUICK
        @hypothesis.given(st.binary(max_size=60))
        def holds(data):
            response = self.parse(self.grpc.predict_pb2.PredictResponse, data)
            if response is not None:
                read = self.grpc.read_answer
                check(kind, lambda: read(response, form(kind)))

        holds()

    @parameterized.parameters(*KINDS)
    def test_answers_of_tensors(self, kind):
        @QUICK
        @hypothesis.given(
            st.integers(0, 30),
            st.lists(st.integers(-1, 3) | st.just(2), max_size=3),
            st.binary(max_size=17),
            st.lists(st.integers(-300, 300), max_size=5),
            st.lists(st.floats(width=32), max_size=5),
            st.lists(st.binary(max_size=4), max_size=3),
        )
        def holds(dtype, sizes, content, ints, floats, strings):
            response = self.grpc.predict_pb2.PredictResponse()
            tensor = response.outputs["codes"]
            tensor.dtype = dtype
            for size in sizes:
                tensor.tensor_shape.dim.add().size = size
            tensor.tensor_content = content
            tensor.int_val.extend(ints)
            tensor.float_val.extend(floats)
            tensor.string_val.extend(strings)
            read = self.grpc.read_answer
            check(kind, lambda: read(response, form(kind)))

        holds()

    @QUICK
    @hypothesis.given(st.binary(max_size=60), st.booleans())
    def test_signatures_of_bytes(self, data, inside):
        kind = self.grpc.get_model_metadata_pb2.GetModelMetadataResponse
        if inside:
            response = kind()
            packed = response.metadata["signature_def"]
            packed.Pack(self.grpc.get_model_metadata_pb2.SignatureDefMap())
            packed.value = data
        else:
            response = self.parse(kind, data)
        if response is None:
            return
        try:
            self.grpc.read_signatures(response)
        except ServingError as error:
            check_text(error)

    def parse(self, kind, data):
        response = kind()
        try:
            response.ParseFromString(data)
        except self.grpc.message.DecodeError:
            return None  # gRPC itself refuses it
        return response


class FormTest(parameterized.TestCase):
    @parameterized.parameters(
        ((2, 2), "uint8", None),
        ((3, 2), "uint8", "a row for each of 2 rows.*Received: 3"),
        ((2, 3), "uint8", r"uint8 \[2, 2\].*shape \(2, 3\)"),
        ((2,), "uint8", "of shape"),
        ((), "uint8", "of shape"),
        (None, "uint8", "of shape None"),
        ((2, 2), "int32", "Received: int32"),
    )
    def test_shapes_and_types(self, shape, dtype, message):
        if message is None:
            answers.check_form(shape, dtype, form(answers.CODES))
            return
        with pytest.raises(ServingError, match=message):
            answers.check_form(shape, dtype, form(answers.CODES))

    def test_names_the_row_that_is_not_finite(self):
        array = np.zeros((2, 2), np.float32)
        array[1, 0] = np.inf
        with pytest.raises(ServingError, match="row 1"):
            answers.check_values(array, form(answers.EMBEDDING))


if __name__ == "__main__":
    absltest.main()
