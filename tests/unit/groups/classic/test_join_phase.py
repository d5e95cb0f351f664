from headrace.groups.classic.join_phase import JoinPhase


def test_initial_phase_lasts_no_longer_than_the_rebalance_timeout() -> None:
    phase = JoinPhase.initial(now_ms=1_000, delay_ms=3_000, limit_ms=2_000)

    assert phase.deadline_ms == 3_000
    assert phase.with_late_comer().prolonged(now_ms=3_000, delay_ms=3_000) is None


def test_late_comers_prolong_an_initial_phase_until_its_limit() -> None:
    phase = JoinPhase.initial(now_ms=0, delay_ms=3_000, limit_ms=5_000).with_late_comer()

    longer = phase.prolonged(now_ms=3_000, delay_ms=3_000)

    assert longer is not None
    assert longer.deadline_ms == 5_000
    assert longer.prolonged(now_ms=5_000, delay_ms=3_000) is None
    assert longer.with_late_comer().prolonged(now_ms=5_000, delay_ms=3_000) is None


def test_each_late_comer_prolongs_an_initial_phase() -> None:
    phase = JoinPhase.initial(now_ms=0, delay_ms=3_000, limit_ms=6_001).with_late_comer()

    longer = phase.prolonged(now_ms=3_000, delay_ms=3_000)
    assert longer is not None
    longest = longer.with_late_comer().prolonged(now_ms=6_000, delay_ms=3_000)

    assert longest is not None
    assert longest.deadline_ms == 6_001


def test_only_an_initial_phase_is_prolonged() -> None:
    phase = JoinPhase(deadline_ms=1_000, extension_ms=1_000).with_late_comer()

    assert not phase.has_late_comer
    assert phase.prolonged(now_ms=1_000, delay_ms=3_000) is None
