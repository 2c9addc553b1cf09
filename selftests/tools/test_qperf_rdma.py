"""RDMA tests of qperf: what is typed, what they need, and listings as `show_info()` of qperf.c writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from weighbridge.errors import ContradictionError, ParseError
from weighbridge.tools import Endpoint, needs, ping, qperf, wrk
from weighbridge.tools.qperf import Load

SECOND = "1000000000 ns"
LATENCY = {
    "latency": "2500 ns",
    "msg_rate": "400000 /sec",
    "msg_size": "1 bytes",
    "poll_mode": "0 ",
    "time": SECOND,
    "timeout": "5000000000 ns",
    "use_cm": "1 ",
    "loc_cpus_used": "100 % cpus",
    "loc_real_time": SECOND,
    "loc_send_bytes": "200000 bytes",
    "loc_recv_bytes": "200000 bytes",
    "loc_send_msgs": "200000 ",
    "loc_recv_msgs": "200000 ",
    "loc_max_cqe": "2 ",
    "rem_cpus_used": "99 % cpus",
    "rem_real_time": SECOND,
    "rem_send_msgs": "200000 ",
    "rem_recv_msgs": "200000 ",
}
BANDWIDTH = {
    "bw": "3276800000 bytes/sec",
    "msg_rate": "50000 /sec",
    "msg_size": "65536 bytes",
    "poll_mode": "0 ",
    "time": SECOND,
    "timeout": "5000000000 ns",
    "use_cm": "1 ",
    "send_cost": "61035156 ns/GB",
    "recv_cost": "30517578 ns/GB",
    "send_cpus_used": "20 % cpus",
    "send_real_time": SECOND,
    "send_bytes": "3276865536 bytes",
    "send_msgs": "50001 ",
    "recv_cpus_used": "10 % cpus",
    "recv_real_time": SECOND,
    "recv_bytes": "3276800000 bytes",
    "recv_msgs": "50000 ",
    "recv_max_cqe": "64 ",
}
BOTH_SIDES = {
    "send_bw": "3276865536 bytes/sec",
    "recv_bw": "3276800000 bytes/sec",
    **{name: value for name, value in BANDWIDTH.items() if name not in {"bw", "use_cm"}},
    "mtu_size": "2048 bytes",
}


def listing(test: str, fields: Mapping[str, str]) -> str:
    width = max(map(len, fields))
    return f"{test}:\n" + "".join(f"    {name:{width}}  =  {value}\n" for name, value in fields.items())


def select(test: str, fields: Mapping[str, str]) -> Mapping[str, float]:
    return qperf.select(qperf.parse(listing(test, fields)), Load.model_validate({"tests": test}))


@pytest.mark.parametrize("test", ["rc_lat", "rc_rdma_write_lat", "rc_rdma_write_poll_lat", "rc_rdma_read_lat"])
def test_latency_is_read(test: str) -> None:
    """Half a round trip in seconds, with the CPUs of both sides, whatever settings stand between the figures."""
    figures = select(test, LATENCY)

    assert figures["latency_mean"] == pytest.approx(2.5e-6)
    assert figures["message_rate"] == pytest.approx(400000)
    assert (figures["cpu_cores_local"], figures["cpu_cores_remote"]) == pytest.approx((1, 0.99))
    assert figures["duration"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("test", "sender"), [("rc_bw", "local"), ("rc_rdma_write_bw", "local"), ("rc_rdma_read_bw", "remote")]
)
def test_bandwidth_is_read(test: str, sender: str) -> None:
    """Payload in bit/s; in a read the server sends, so its CPUs are those of the sender."""
    figures = select(test, BANDWIDTH)

    assert figures["throughput"] == pytest.approx(3276800000 * 8)
    assert figures[f"cpu_cores_{sender}"] == pytest.approx(0.2)
    assert figures["bytes_received"] == 3276800000


@pytest.mark.parametrize("test", ["ud_bw", "uc_bw", "uc_rdma_write_bw"])
def test_what_arrived_counts_where_messages_may_be_lost(test: str) -> None:
    """Unreliable tests print both sides; the receiver's figure stands for the cell."""
    assert select(test, BOTH_SIDES)["throughput"] == pytest.approx(3276800000 * 8)


@pytest.mark.parametrize("test", ["rc_compare_swap_mr", "rc_fetch_add_mr", "ver_rc_compare_swap", "ver_rc_fetch_add"])
def test_atomic_operations_give_a_rate(test: str) -> None:
    """They move no payload: operations a second is all that is read."""
    fields = {"msg_rate": "2080000 /sec", "rd_atomic": "1 ", "time": SECOND, "loc_cpus_used": "13 % cpus"}

    figures = select(test, fields)

    assert figures["message_rate"] == pytest.approx(2080000)
    assert "throughput" not in figures
    second = test.replace("compare_swap", "fetch_add") if "swap" in test else test.replace("fetch_add", "compare_swap")
    results = qperf.parse(listing(test, fields) + listing(second, fields))
    with pytest.raises(ParseError, match="give message_rate"):
        qperf.select(results, Load.model_validate({"tests": [test, second]}))


def test_contradictions_are_no_figures() -> None:
    """The cross-checks hold for RDMA as for sockets."""
    with pytest.raises(ContradictionError):
        select("rc_rdma_write_bw", {**BANDWIDTH, "msg_rate": "80000 /sec"})
    with pytest.raises(ContradictionError):
        select("rc_lat", {**LATENCY, "latency": "25000 ns"})


@pytest.mark.parametrize(
    ("tests", "needed"),
    [
        (["tcp_lat", "udp_bw"], ()),
        (["rc_lat"], ("rdma",)),
        (["tcp_lat", "rc_rdma_write_bw"], ("rdma",)),
        (["ver_rc_fetch_add"], ("rdma",)),
        (["ud_lat"], ("infiniband",)),
        (["rc_bw", "uc_bw", "xrc_lat"], ("rdma", "infiniband")),
    ],
)
def test_a_load_tells_what_it_needs(tests: list[str], needed: tuple[str, ...]) -> None:
    """A cell that needs a device is told from one that does not by its tests alone."""
    assert needs(qperf, Load.model_validate({"tests": tests})) == needed


def test_other_tools_need_nothing_or_icmp() -> None:
    """A tool without such loads says nothing, and ping has no port that could be translated."""
    assert needs(wrk, None) == ()
    assert needs(ping, ping.Load.model_validate({})) == ("icmp",)


@pytest.mark.parametrize(("test", "typed"), [("rc_lat", True), ("ud_lat", False), ("tcp_lat", False)])
def test_reliable_connections_find_each_other_by_address(test: str, typed: bool) -> None:
    """RC tests take RDMA-CM, without which RoCE is not found; the option stands before the tests."""
    argv = qperf.argv("qperf", Load.model_validate({"tests": test}), Endpoint("198.18.0.2", 19765))

    assert (" -cm 1 " in f" {' '.join(argv)} ") is typed
    assert argv[-2:] == ["198.18.0.2", test]


def test_an_axis_names_one_test() -> None:
    """A scenario compares tests by an axis, whose values are text."""
    values: dict[str, Any] = {"tests": "rc_lat"}

    assert Load.model_validate(values).tests == ["rc_lat"]
