"""What a server's responses mean to the caller."""

import dataclasses


class ServingError(RuntimeError):
    """The server did not do what was asked, after all retries."""


class Transient(Exception):  # noqa: N818
    """A failure that may pass: busy, starting, or out of reach."""


@dataclasses.dataclass(frozen=True)
class Signature:
    """Inputs and outputs of a signature: name -> shape, -1 if dynamic."""

    inputs: dict[str, tuple[int, ...]]
    outputs: dict[str, tuple[int, ...]]


def not_found(model: str, response: str) -> ServingError:
    """The error for a model that the server does not have."""
    return ServingError(
        f"The server must have the model {model!r}; it says there is none. "
        "Check the name in its models.config, and that an export is in the "
        f"folder it watches. Response: {response}"
    )


def refused(response: str) -> ServingError:
    """The error for a request that the server will never accept."""
    return ServingError(
        "The server must accept the request; it refuses it. Is this model "
        f"an export of vdsh_tf? Response: {response}"
    )
