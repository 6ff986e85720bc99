"""Ctrl-C and SIGTERM: one exception, and one line of what was kept.

Both are requests to stop, of a person and of a machine. Between two steps of
the program they raise `Interrupt`, which tools let pass; files are written
whole or not at all, so there is nothing to mend.
"""

import _thread
import contextlib
import signal
import sys
import threading
from collections.abc import Callable
from collections.abc import Iterator

_WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
_USUAL = (
    "every file is complete, or as it was before. The same command starts again"
)


class Interrupt(KeyboardInterrupt):
    """A request to stop; `code` is the exit code that a shell expects."""

    def __init__(self, number: int = signal.SIGINT):
        super().__init__(_WORDS[signal.Signals(number)])
        self.number = number
        self.code = 128 + number


class Watch:
    """What a tool was asked, and what it keeps when it stops."""

    def __init__(self, kept: str | None = None):
        self.request: Interrupt | None = None
        self.kept: Callable[[], str] = lambda: kept or _USUAL

    def receive(self, number, frame=None):
        self.request = Interrupt(number)
        raise self.request

    def cause(self, error: BaseException) -> Interrupt | None:
        """The request behind an error; None if it has another cause.

        An import that is interrupted, for one, ends as an ImportError.
        """
        if isinstance(error, KeyboardInterrupt) and not self.request:
            return Interrupt()
        return self.request

    def sentence(self, request: Interrupt) -> str:
        return f"{request}; {self.kept()}."


_watches: list[Watch] = []


@contextlib.contextmanager
def watching(kept: str | None = None) -> Iterator[Watch]:
    """Raises `Interrupt` for both signals inside.

    Args:
        kept: what to say of what was kept, and how to go on.
    """
    watch = Watch(kept)
    _watches.append(watch)
    before, hook = {}, sys.unraisablehook
    # Elsewhere, Python cannot set them. What a parent ignores stays ignored.
    if threading.current_thread() is threading.main_thread():
        before = {n: signal.getsignal(n) for n in _WORDS}
        for number, handler in before.items():
            if handler not in (signal.SIG_IGN, None):
                signal.signal(number, watch.receive)

    def send(number):
        if watch in _watches:
            _thread.interrupt_main(number)

    def again(unraisable):
        # Python drops what is raised where nobody can catch it, such as here:
        # it is sent once more, a moment later.
        if isinstance(unraisable.exc_value, Interrupt):
            number = unraisable.exc_value.number
            threading.Timer(0.01, send, [number]).start()
        else:
            hook(unraisable)

    sys.unraisablehook = again
    try:
        yield watch
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
        _watches.remove(watch)


def requested() -> bool:
    """Whether the running tool was asked to stop."""
    return bool(_watches) and _watches[-1].request is not None


@contextlib.contextmanager
def keeping(kept: Callable[[], str]) -> Iterator[None]:
    """Says `kept()` of an interrupt inside, in place of the usual words."""
    if not _watches:
        yield
        return
    watch = _watches[-1]
    before, watch.kept = watch.kept, kept
    try:
        yield
    except BaseException as error:
        if watch.cause(error) is None:
            watch.kept = before
        raise
    else:
        watch.kept = before
