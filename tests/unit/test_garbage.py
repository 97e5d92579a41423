"""The garbage collector runs less often during a block, and as before after it."""

import gc

import pytest

from truespan.core.garbage import collecting_less


def test_threshold_is_raised_until_the_last_block_ends() -> None:
    before = gc.get_threshold()
    first, second = collecting_less(), collecting_less()
    first.__enter__()
    second.__enter__()
    assert gc.get_threshold()[0] > before[0]
    first.__exit__(None, None, None)
    assert gc.get_threshold()[0] > before[0]
    second.__exit__(None, None, None)
    assert gc.get_threshold() == before


def test_collector_is_restored_after_an_error_or_if_disabled() -> None:
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="stop"), collecting_less():
        raise ValueError("stop")
    assert gc.get_threshold() == before

    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        with collecting_less():
            assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)
