"""Client of an encoder that TF Serving serves."""

from vdsh_tf.serving.client import Client as Client
from vdsh_tf.serving.errors import ServingError as ServingError
from vdsh_tf.serving.errors import Signature as Signature
