"""--stop-when-fired: what a single snapshot tells, in a net with a stream and in a plain one."""

from fake_runs import snapshot
from report_material import config
from walkback.audits import fired_by, stopping


def test_a_plain_net_is_not_stopped_by_the_rule_for_streams() -> None:
    """One block makes the last state 1,000 times larger: growth of a stream, and nothing where there is none."""
    net = config(depth=4)
    loud, faint = snapshot(net, 3, 0.5, 9e3, 1e-3), snapshot(net, 3, 0.5, 9.0, 1e-9)
    assert fired_by(loud) == "one block's growth is above 50"
    assert fired_by(loud, residual=False) is None
    assert fired_by(faint) == fired_by(faint, residual=False) == "‖g_L‖ is below 1e-7"
    both = snapshot(net, 3, 0.5, 9e3, 1e-9)
    assert fired_by(both) == "one block's growth is above 50 and ‖g_L‖ is below 1e-7"


def test_what_stops_a_training_knows_its_net() -> None:
    stream, plain = config(depth=4), config(depth=4, net_options={**config(depth=4).net_options, "skip": False})
    loud = snapshot(stream, 3, 0.5, 9e3, 1e-3)
    assert stopping([stream])(loud) is not None
    assert stopping([plain])(loud) is None
