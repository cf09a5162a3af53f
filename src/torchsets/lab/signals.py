"""Turn signals that ask a process to stop into a wish that it grants when it can."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_requests(*, second_ends: bool = False) -> Iterator[list[int]]:
    """Collect Ctrl-C, SIGTERM and a closed terminal instead of dying of them.

    Yields the list that their numbers are added to. With ``second_ends``, the second one raises
    ``KeyboardInterrupt``. Outside the main thread, which alone may handle signals, nothing is
    collected.
    """
    requests: list[int] = []
    hangup = getattr(signal, "SIGHUP", None)

    def request(number: int, frame: FrameType | None) -> None:
        if requests and number == hangup:
            return  # one closed terminal may hang up twice: that is no second wish
        requests.append(number)
        if len(requests) > 1 and second_ends:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield requests
        return
    numbers = [signal.SIGINT, signal.SIGTERM]
    if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:
        numbers.append(hangup)  # not under nohup
    before = {number: signal.signal(number, request) for number in numbers}
    try:
        yield requests
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
