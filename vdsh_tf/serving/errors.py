"""What a server's responses mean to the caller."""

import dataclasses

# Characters of an error's text, and of what it quotes from a server.
_MOST_TEXT = 2000
_MOST_QUOTED = 500


def printable(text: str, most: int = _MOST_TEXT) -> str:
    """Text that a terminal or a log shows as it is: no control characters."""
    shown = text[: most + 1]
    if not shown.isprintable():
        shown = "".join(
            c if c.isprintable() else c.encode("unicode_escape").decode()
            for c in shown
        )
    return shown if len(shown) <= most else shown[:most] + "..."


def quote(response) -> str:
    """The beginning of what a server sent, to stand in a message."""
    if isinstance(response, bytes):
        response = response[:_MOST_QUOTED].decode("utf-8", "replace")
    return printable(str(response), _MOST_QUOTED)


class ServingError(RuntimeError):
    """The server did not do what was asked, after all retries.

    Parts of the text may come from a server, so all of it is made printable
    and bounded here.
    """

    def __init__(self, text: str):
        super().__init__(printable(text))


class Transient(Exception):  # noqa: N818
    """A failure that may pass: busy, starting, or out of reach."""


@dataclasses.dataclass(frozen=True)
class Signature:
    """Inputs and outputs of a signature by name.

    A shape has -1 for what is dynamic; it is None where the rank is unknown.
    """

    inputs: dict[str, tuple[int, ...] | None]
    outputs: dict[str, tuple[int, ...] | None]


def not_found(model: str, response) -> ServingError:
    """The error for a model that the server does not have."""
    return ServingError(
        f"The server must have the model {model!r}; it says there is none. "
        "Check the name in its models.config, and that an export is in the "
        f"folder it watches. Response: {quote(response)}"
    )


def refused(response) -> ServingError:
    """The error for a request that the server will never accept."""
    return ServingError(
        "The server must accept the request; it refuses it. Is this model "
        f"an export of vdsh_tf? Response: {quote(response)}"
    )


def nonsense(response) -> ServingError:
    """The error for a response that is not of the protocol."""
    return ServingError(
        "The server must respond as TF Serving does. Received: "
        f"{quote(response)}. Is it a port of TF Serving, and of this protocol?"
    )


def too_long(most: int) -> ServingError:
    """The error for a response that goes on and on."""
    return ServingError(
        f"The server must respond in at most {most} bytes, which is ample "
        "for what was asked, or memory would fill. Received: more. Is it TF "
        "Serving, with an export of vdsh_tf?"
    )
