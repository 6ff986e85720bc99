"""How long an exchange with a server may take, and how much it may bring."""

import time


class Deadline:
    """A moment by which all must be done: connecting, reading, repeating.

    Args:
        seconds: from now on.
    """

    def __init__(self, seconds: float):
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Seconds that are left; 0 when it has passed."""
        return max(0.0, self._end - time.monotonic())

    def left(self) -> float:
        """Seconds that are left, for a blocking call; raises when none are."""
        seconds = self.remaining()
        if not seconds:
            raise TimeoutError("the time for the whole request is over")
        return seconds


class TooLongError(Exception):
    """A server sent more than the answer can be long."""


class Budget:
    """Time and bytes of one exchange.

    Args:
        deadline: of the call that it belongs to.
        most_bytes: that may be received.
    """

    def __init__(self, deadline: Deadline, most_bytes: int):
        self.deadline = deadline
        self.most_bytes = most_bytes
        self._bytes = most_bytes

    def take(self, count: int) -> None:
        """Counts bytes that came; raises when they are too many."""
        self._bytes -= count
        if self._bytes < 0:
            raise TooLongError(self.most_bytes)
