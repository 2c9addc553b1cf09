"""What must hold between the figures of one qperf test (`calc_results()` in qperf.c)."""

from __future__ import annotations

from weighbridge.errors import ContradictionError
from weighbridge.tools._qperf_text import Block, Figure

_CLOCKS = 2.0
"""Client and server each time the test by their own clock; the mean of both is at most twice either of them."""

_APART = 1.25
"""How far apart the times of both sides may be where they are not printed."""


def check(block: Block, text: str) -> None:
    """Raise ContradictionError, with the arithmetic, for figures that cannot all be true."""
    if not block.test.endswith(("_mr", "_swap", "_add")):
        _check_messages(block, text)
    _check_latency(block, text)
    _check_costs(block, text)
    _check_received(block, text)


def _check_messages(block: Block, text: str) -> None:
    """Bytes are messages times message size, per second and in total."""
    size = block.figures.get("msg_size")
    if size is None:
        return
    _check_rate(block, size, text)
    for side in ("send", "recv", "loc_send", "loc_recv", "rem_send", "rem_recv"):
        messages = block.figures.get(f"{side}_msgs")
        expected = times(size, messages) if messages else None
        _same(f"{side}_bytes", block, expected, f"{side}_msgs x msg_size", text)


def _check_rate(block: Block, size: Figure, text: str) -> None:
    """Messages per second times their size is the bandwidth, but for the clocks.

    The receiver's bytes are divided by the time of one side and its messages by the time of the other,
    and a throttled side takes longer to notice the end. Where both times are printed the figures have
    to agree to the last digit, else within what two such clocks differ by.
    """
    rate, bandwidth = block.figures.get("msg_rate"), block.figures.get("recv_bw") or block.figures.get("bw")
    if rate is None or bandwidth is None:
        return
    product = times(size, rate, 8.0)
    here, there = block.figures.get("send_real_time"), block.figures.get("recv_real_time")
    spread = _APART if here is None or there is None else max(here.value / there.value, there.value / here.value)
    spread += 1e-9 if here is None or there is None else here.slack / here.value + there.slack / there.value + 1e-9
    if not (
        (product.value - product.slack) / spread <= bandwidth.value + bandwidth.slack
        and bandwidth.value - bandwidth.slack <= (product.value + product.slack) * spread
    ):
        raise ContradictionError(
            f"{block.test}: bw {bandwidth.value:.6g} printed, but msg_rate x msg_size is {product.value:.6g}",
            text,
        )


def _check_latency(block: Block, text: str) -> None:
    """Latency is time ÷ messages, the message rate messages ÷ time."""
    latency, rate = block.figures.get("latency"), block.figures.get("msg_rate")
    if latency is None or rate is None:
        return
    product = times(latency, rate)
    if product.value - product.slack > _CLOCKS or product.value + product.slack < 1 / _CLOCKS:
        raise ContradictionError(
            f"{block.test}: latency {latency.value:.6g} s x msg_rate {rate.value:.6g}/s is {product.value:.3g}, not 1",
            text,
        )


def _check_costs(block: Block, text: str) -> None:
    """CPU seconds per bit times bits per second are the CPUs used on that side."""
    for side in ("send", "recv"):
        cost, cpus = block.figures.get(f"{side}_cost"), block.figures.get(f"{side}_cpus_used")
        own = f"{side}_bw" in block.figures
        bandwidth = block.figures.get(f"{side}_bw" if own else "bw")
        if cost is None or cpus is None or bandwidth is None:
            continue
        product = times(cost, bandwidth, 1e-9)
        # `bw` is what arrived: a stream's sender may have paid for more, still in buffers, by any factor.
        least = 0.0 if side == "send" and not own else 1 / _CLOCKS
        low, high = (cpus.value - cpus.slack) * least, (cpus.value + cpus.slack) * _CLOCKS
        if product.value + product.slack < low or product.value - product.slack > high:
            raise ContradictionError(
                f"{block.test}: {side}_cost {cost.value:.6g} s/Gbit x {bandwidth.value / 1e9:.6g} Gbit/s is "
                f"{product.value:.3g} CPUs, but {cpus.value:.3g} are printed",
                text,
            )


def _check_received(block: Block, text: str) -> None:
    """No more arrives than was sent, but for a message under way when the clock stopped."""
    sent, received = block.figures.get("send_bw"), block.figures.get("recv_bw")
    if sent is None or received is None:
        return
    size = block.figures.get("msg_size", Figure(65536.0, 0.0))
    if received.value - received.slack > sent.value + sent.slack + 16 * size.value:
        raise ContradictionError(
            f"{block.test}: recv_bw {received.value:.6g} bit/s is more than send_bw {sent.value:.6g} bit/s", text
        )


def times(one: Figure, other: Figure, factor: float = 1.0) -> Figure:
    """The product of two figures, and what their rounding makes of it."""
    slack = one.value * other.slack + other.value * one.slack + one.slack * other.slack
    return Figure(one.value * other.value * factor, slack * factor)


def _same(name: str, block: Block, expected: Figure | None, formula: str, text: str) -> None:
    printed = block.figures.get(name)
    if printed is None or expected is None:
        return
    # Binary floating point: a billionth on top.
    if abs(printed.value - expected.value) > printed.slack + expected.slack + 1e-9 * expected.value:
        raise ContradictionError(
            f"{block.test}: {name} {printed.value:.6g} printed, but {formula} is {expected.value:.6g}", text
        )
