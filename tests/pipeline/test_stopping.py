"""Whoever stops a command is told in which state that leaves things."""

import sys

import pytest
from resonance.pipeline import cli
from resonance.pipeline.replay import bootstrapping, replaying, verifying
from resonance.pipeline.states import stored_states


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["replay"], "stopped; nothing was changed\n"),
        (["replay", "-o", "out"], "stopped; nothing was changed, but out may hold a part of the outputs\n"),
        (["replay", "--to-name", "new"], "stopped; nothing was changed, but the topics of new may hold a part of the"),
        (["verify"], "stopped; nothing was changed\n"),
        (["inspect"], "stopped; nothing was changed\n"),
        (["bootstrap"], "stopped; what is learned is written at the very end, all at once"),
    ],
)
def test_what_is_left_is_said_at_ctrl_c(monkeypatch, capsys, tmp_path, arguments, said):
    def stop(*_, **__):
        raise KeyboardInterrupt

    for place, name in (
        (replaying, "replay_topics"),
        (verifying, "verify"),
        (bootstrapping, "bootstrap"),
        (stored_states, "open_source"),
    ):
        monkeypatch.setattr(place, name, stop)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["resonance", *arguments, "--input.topics", "t", "--stream", "partition"])
    if arguments == ["inspect"]:
        sys.argv[-2:] = []
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err.startswith(said)
