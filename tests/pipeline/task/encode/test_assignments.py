"""The texts of streams are kept as long as they are used, and no more of them than a partition has streams."""

from resonance.pipeline.task.encode.assignments import MIN_TEXTS, LatestTexts


def test_the_texts_of_the_stream_that_was_asked_for_longest_ago_go_first():
    texts = LatestTexts(1)
    first = texts.of("s0", 1, 2)
    others = [texts.of(f"s{i}", 1, 2) for i in range(1, MIN_TEXTS)]
    assert texts.of("s0", 1, 2) is first
    texts.of("new", 1, 2)
    assert len(texts) == MIN_TEXTS
    assert texts.of("s0", 1, 2) is first
    assert texts.of("s1", 1, 2) is not others[0]
    assert texts.of("s5", 1, 2) is others[4]


def test_another_version_of_a_stream_has_other_texts():
    texts = LatestTexts(5)
    old = texts.of("s", 1, 1)
    new = texts.of("s", 2, 1)
    assert (old.version, new.version, len(texts)) == (1, 2, 1)
    assert new.cluster_id((), 3) == "s/2/3"
