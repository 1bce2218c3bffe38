from throttle import Keyed, SlidingWindow, TokenBucket, parse_limit


def test_bucket_starts_full():
    bucket = TokenBucket(1, 2, lambda: 0)
    assert [bucket.allow(), bucket.allow(), bucket.allow()] == [True, True, False]


def test_window_fills_up():
    window = SlidingWindow(1, 10, lambda: 0)
    assert window.allow()
    assert not window.allow()


def test_keys_are_separate():
    gate = Keyed(lambda: SlidingWindow(1, 10, lambda: 0), capacity=10)
    assert gate.allow("a")
    assert gate.allow("b")
    assert not gate.allow("a")


def test_parse_limit():
    assert parse_limit("10/min").seconds == 60
