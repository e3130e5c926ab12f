"""The rules, seen through the environment's own interface, and what can be chosen."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import shoal
from shoal.cyber import B_lineAgent, GreenAgent, Quirks, RedMeanderAgent, SleepAgent, true_states
from shoal.envs.cage2 import Cage2Env
from shoal.envs.cage2.actions import DECOY_ORDER, index_of
from shoal.envs.cage2.blue import ACTION_NAMES
from shoal.envs.cage2.network import DECOYS, HOSTS, NAMES, OP_SERVER0, PORTS, USER0

# Where every decoy can be put up on a host that nobody has touched.
_LINUX_GATEWAYS = {"Defender", "Enterprise0", "Op_Host0", "Op_Host1", "Op_Host2", "Op_Server0"}
POSSIBLE = {
    "Apache": _LINUX_GATEWAYS | {"User0", "User1", "User2"},
    "Femitter": {"Enterprise1", "Enterprise2", "User2"},
    "HarakaSMPT": _LINUX_GATEWAYS,
    "Smss": {"User0", "User1"},
    "SSHD": {"User2", "User3"},
    "Svchost": {"User0", "User1"},
    "Tomcat": _LINUX_GATEWAYS | {"User0", "User1", "User2"},
    "Vsftpd": _LINUX_GATEWAYS | {"User3", "User4"},
}


def play(actions: list[int], num_envs: int = 1, seed: int = 0, **keywords: Any) -> tuple[Any, list[Any]]:
    """The true states after these actions, the same in all games, and all results."""
    with shoal.make("shoal/Cage2-v0", num_envs, backend="serial", max_steps=None, **keywords) as envs:
        results: list[Any] = [envs.reset(seed=seed)]
        results += [envs.step(np.full(num_envs, action)) for action in actions]
        return true_states(envs), results


def act(*names: str) -> list[int]:
    return [ACTION_NAMES.index(name) for name in names]


def test_the_actions_are_in_the_official_order() -> None:
    assert len(ACTION_NAMES) == 145
    assert ACTION_NAMES[:3] == ("Sleep", "Monitor", "Analyse Defender")
    known = {14: "Analyse User4", 15: "Remove Defender", 28: "DecoyApache Defender", 41: "DecoyFemitter Defender",
             54: "DecoyHarakaSMPT Defender", 67: "DecoySmss Defender", 80: "DecoySSHD Defender",
             93: "DecoySvchost Defender", 106: "DecoyTomcat Defender", 131: "DecoyVsftpd User4",
             132: "Restore Defender", 139: "Restore Op_Server0", 144: "Restore User4"}  # fmt: skip
    assert {number: ACTION_NAMES[number] for number in known} == known
    assert Cage2Env().action_names == ACTION_NAMES


@pytest.mark.parametrize("decoy", [decoy.name for decoy in DECOYS])
def test_a_decoy_can_be_put_up_where_system_and_ports_allow_it(decoy: str) -> None:
    for host, name in enumerate(NAMES):
        (state,), _ = play([index_of(f"Decoy{decoy}", name)], red="Sleep")
        is_possible = name in POSSIBLE[decoy]
        assert state["blue_success"] == is_possible, (decoy, name)
        assert state["decoys"].sum() == is_possible
        assert state["decoys"][host].any() == is_possible


def test_a_decoy_needs_a_free_port_but_vsftpd_only_a_wrong_one() -> None:
    twice = act("DecoyApache Enterprise0", "DecoyApache Enterprise0")
    assert play(twice, red="Sleep")[0]["blue_success"].tolist() == [0]
    again = act("DecoyVsftpd Enterprise0", "DecoyVsftpd Enterprise0")
    assert play(again, red="Sleep")[0]["blue_success"].tolist() == [1]
    assert play(again, red="Sleep", quirks={"vsftpd_opens_http": False})[0]["blue_success"].tolist() == [0]
    blocked = act("DecoyVsftpd Enterprise0", "DecoyApache Enterprise0")
    assert play(blocked, red="Sleep")[0]["blue_success"].tolist() == [0]


def test_b_line_takes_the_way_that_it_knows() -> None:
    """With nobody in its way it needs 14 steps at least, and then stops the service for good."""
    states, results = play([0] * 30, num_envs=2000, red="B_line")
    assert (states["ot_service"] == 0).mean() > 0.99
    first_loss = [np.flatnonzero(step[1] <= -10) for step in results[1:15]]
    assert not any(len(games) for games in first_loss[:13])
    assert (results[-1][1] <= -10).mean() > 0.99
    assert (states["access"][:, USER0] == 2).all()


def test_meander_looks_around_first() -> None:
    with shoal.make("shoal/Cage2-v0", 500, red="Meander", backend="serial") as envs:
        envs.reset(seed=1)
        targets = []
        for _ in range(7):
            envs.step(np.zeros(500, np.int64))
            state = true_states(envs)
            targets.append((state["red_action"].copy(), state["red_target"].copy()))
    assert (targets[0][0] == 1).all()
    assert (targets[0][1] == 2).all()
    scanned = np.stack([target for _, target in targets[1:6]], axis=1)
    assert (np.sort(scanned, axis=1) == np.arange(8, 13)).all(), "all users, in any order"
    assert len(np.unique(scanned, axis=0)) > 100
    assert (targets[6][0] == 4).all()
    assert (targets[6][1] == USER0).all()


def test_exploits_are_chosen_as_likely_as_they_should_be() -> None:
    """On User4, of 20,000 first exploits: within five standard deviations."""
    with shoal.make("shoal/Cage2-v0", 20_000, red="B_line", backend="serial") as envs:
        envs.reset(seed=0)
        for _ in range(3):
            envs.step(np.zeros(20_000, np.int64))
        state = true_states(envs)
    assert (state["red_action"] == 3).all()
    footholds = np.bincount(state["red_target"], minlength=13)[9:]
    assert (np.abs(footholds - 5000) < 5 * np.sqrt(20_000 * 0.25 * 0.75)).all()
    chosen = state["red_exploit"][state["red_target"] == 12]
    expected = {1: 0.75, 2: 0.0625, 3: 0.0625, 4: 0.0625, 7: 0.0625}
    counts = np.bincount(chosen, minlength=8)
    assert set(np.flatnonzero(counts)) == set(expected)
    for exploit, share in expected.items():
        assert abs(counts[exploit] - share * len(chosen)) < 5 * np.sqrt(len(chosen) * share * (1 - share))


def test_decoys_stop_red_on_enterprise0() -> None:
    """With three of them, one try in twelve breaks in."""
    decoys = act("DecoyHarakaSMPT Enterprise0", "DecoyTomcat Enterprise0", "DecoyApache Enterprise0")
    states, _ = play([*decoys, *[0] * 3], num_envs=20_000, red="B_line", seed=3)
    tried = (states["red_action"] == 3) & (states["red_target"] == 1)
    share = 1 / 12
    assert tried.sum() > 3000
    succeeded = (states["red_success"][tried] == 1).sum()
    assert abs(succeeded - share * tried.sum()) < 5 * np.sqrt(tried.sum() * share * (1 - share))


def test_restoring_the_server_once_protects_it_for_good() -> None:
    first = [index_of("Restore", "Op_Server0"), *[0] * 40]
    states, results = play(first, num_envs=300)
    assert states["ot_service"].all()
    assert (states["red_action"] == 5).mean() > 0.9, "Red does its worst"
    states, results = play(first, num_envs=300, quirks={"restore_protects_op_server": False})
    assert not states["ot_service"].any()


def test_restoring_costs_one_and_makes_everything_new() -> None:
    actions = act("DecoyApache Enterprise0", "Restore Enterprise0")
    (state,), results = play(actions, red="Sleep")
    assert not state["decoys"].any()
    assert results[-1][1].tolist() == [-1.0]
    # User0 cannot be taken away from Red.
    (state,), _ = play(act("Restore User0"), red="Sleep")
    assert state["sessions"][USER0].tolist() == [1, 0, 0]


def test_analyse_finds_files_and_remove_leaves_doubt() -> None:
    """Of what Blue believes of Enterprise1, after Red has got there."""
    with shoal.make("shoal/Cage2-v0", 400, red="B_line", backend="serial") as envs:
        envs.reset(seed=0)
        for _ in range(6):
            envs.step(np.zeros(400, np.int64))
        before = true_states(envs)
        observation, *_ = envs.step(np.full(400, index_of("Analyse", "Enterprise1")))
        bits = observation.reshape(400, 13, 4)[:, 2, 2:]
        has_file = before["files"][:, 2]
        assert 0.1 < has_file.mean() < 0.9
        assert (bits[has_file] == (1, 1)).all()
        assert not (bits[~has_file] == (1, 1)).all(axis=1).any()
        observation, *_ = envs.step(np.full(400, index_of("Remove", "Enterprise1")))
        bits = observation.reshape(400, 13, 4)[:, 2, 2:]
        assert (bits[has_file] == (1, 0)).all()


@pytest.mark.parametrize("quirks", [{"remove_leaves_files": False}, {}])
def test_files_stay_when_what_made_them_is_removed(quirks: dict[str, bool]) -> None:
    """User2: BlueKeep gives a session that can be removed."""
    states, _ = play([0, 0, 0, index_of("Remove", "User2")], num_envs=2000, red="B_line", quirks=quirks)
    was_there = (states["red_target"] == 10) & (states["red_action"] == 4)
    is_free = was_there & (states["access"][:, 10] == 0)
    assert is_free.sum() > 20, "Remove came before Red's next move"
    assert (states["files"][is_free, 10] == bool(not quirks)).all()


def test_analysing_can_be_made_to_see_what_red_has() -> None:
    """A user's session on Enterprise1 that came with a file: the official simulator calls it privileged."""
    bits = {}
    for is_official in (True, False):
        with shoal.make(
            "shoal/Cage2-v0", 400, backend="serial", quirks={"analyse_sees_files_only": is_official}
        ) as envs:
            envs.reset(seed=0)
            for _ in range(6):
                envs.step(np.zeros(400, np.int64))
            state = true_states(envs)
            observation, *_ = envs.step(np.full(400, index_of("Analyse", "Enterprise1")))
            is_user = (state["access"][:, 2] == 1) & state["files"][:, 2]
            assert is_user.sum() > 50
            bits[is_official] = observation.reshape(400, 13, 4)[is_user, 2, 2:]
    assert (bits[True] == (1, 1)).all()
    assert (bits[False] == (0, 1)).all()


def test_ports_that_are_never_forgotten() -> None:
    """A decoy that Red has seen and that Blue has restored away goes on deceiving it."""
    # The scan of Enterprise1 is B_line's fifth action; its sixth and later ones attack.
    actions = [*act("DecoyFemitter Enterprise1"), *[0] * 4, *act("Restore Enterprise1")]
    shares = {}
    for is_kept in (False, True):
        with shoal.make(
            "shoal/Cage2-v0", 4000, red="B_line", backend="serial", quirks={"ports_are_never_forgotten": is_kept}
        ) as envs:
            envs.reset(seed=0)
            tries = []
            for action in [*actions, *[0] * 20]:
                envs.step(np.full(4000, action))
                state = true_states(envs)
                is_try = (state["red_action"] == 3) & (state["red_target"] == 2)
                tries.append(state["red_exploit"][is_try])
        late = np.concatenate(tries[12:])
        shares[is_kept] = (late == 0).mean()
    assert shares[True] > 0.5, "it tries FTP, which nobody offers"
    assert shares[False] < 0.05


def test_smtp_can_be_made_to_break_when_a_host_is_restored() -> None:
    actions = [*act("Restore User3"), 0, 0]
    for quirks, succeeds in (({}, True), ({"restore_breaks_smtp": True}, False)):
        states, _ = play(actions, num_envs=2000, red="B_line", quirks=quirks)
        attacked = (states["red_target"] == 11) & (states["red_exploit"] == 1)
        assert attacked.sum() > 200
        assert (states["red_success"][attacked] == int(succeeds)).all()


def test_defender_can_be_given_an_account() -> None:
    for quirks, falls in (({}, False), ({"defender_has_no_account": False}, True)):
        states, _ = play([0] * 60, num_envs=200, red="Meander", quirks=quirks)
        assert (states["access"][:, 0] > 0).any() == falls


def test_enterprise_hosts_can_be_given_what_eternal_blue_attacks() -> None:
    for quirks, falls in (({}, False), ({"enterprise_smb_is_nameless": False}, True)):
        states, _ = play([0] * 6, num_envs=20_000, red="B_line", quirks=quirks)
        tried = (states["red_target"] == 2) & (states["red_exploit"] == 5)
        assert tried.sum() > 100
        assert (states["red_success"][tried] == int(falls)).all()


def test_user3_can_be_given_the_right_port() -> None:
    for quirks, sql in (({}, False), ({"user3_sql_on_rdp_port": False}, True)):
        states, _ = play([0] * 3, num_envs=5000, red="B_line", quirks=quirks)
        exploits = states["red_exploit"][states["red_target"] == 11]
        assert (2 in exploits) == sql
        assert (6 in exploits) == (not sql)


def test_a_blind_scan_can_be_made_to_fail() -> None:
    """B_line is thrown out of the enterprise before it scans the server: it begins anew, or goes one stage back."""
    actions = [*[0] * 10, *act("Restore Enterprise1", "Restore Enterprise2"), 0]
    for blind, (action, first, last) in ((True, (2, 9, 10)), (False, (3, 3, 3))):
        states, _ = play(actions, num_envs=4000, red="B_line", seed=5, quirks={"blind_scan_succeeds": blind})
        target = states["red_target"]
        assert ((states["red_action"] == action) & (target >= first) & (target <= last)).sum() > 400, blind


def test_an_exploit_can_be_made_not_to_hide_privileges() -> None:
    """After Analyse has said Privileged, B_line, thrown back, breaks into the same host again, and that is seen."""
    believed = {}
    for hides in (True, False):
        with shoal.make(
            "shoal/Cage2-v0", 3000, red="B_line", backend="serial", max_steps=None,
            quirks={"exploit_hides_privileged": hides},
        ) as envs:  # fmt: skip
            envs.reset(seed=0)
            count = 0
            for step in range(80):
                analysed = 9 + step % 4
                observation, *_ = envs.step(np.full(3000, index_of("Analyse", HOSTS[analysed].name)))
                bits = np.delete(observation.reshape(3000, 13, 4), analysed, axis=1)
                count += int(((bits[..., 1] == 1) & (bits[..., 2] == 1) & (bits[..., 3] == 1)).sum())
            believed[hides] = count
    assert believed[True] == 0
    assert believed[False] > 0


def test_green_scans_half_of_the_time_and_eight_hosts() -> None:
    with shoal.make("shoal/Cage2-v0", 4000, red="Sleep", green="Scan", backend="serial") as envs:
        envs.reset(seed=0)
        targets = []
        for _ in range(10):
            observation, *_ = envs.step(np.zeros(4000, np.int64))
            targets.append(true_states(envs)["green_target"].astype(int))
            seen = observation.reshape(4000, 13, 4)
            scanned = targets[-1] >= 0
            assert (seen[..., 0].sum(axis=1) == scanned).all()
            assert (seen[scanned, targets[-1][scanned], 0] == 1).all()
    all_targets = np.concatenate(targets)
    counts = np.bincount(all_targets + 1, minlength=14)
    assert set(np.flatnonzero(counts) - 1) == {-1, 1, 2, 3, 8, 9, 10, 11, 12}
    assert abs(counts[0] - 20_000) < 5 * np.sqrt(40_000 * 0.25)
    each = counts[np.array([2, 3, 4, 9, 10, 11, 12, 13])]
    assert (np.abs(each - 2500) < 5 * np.sqrt(40_000 * 0.0625 * 0.9375)).all()


def test_versions_of_the_wrapper_see_decoys_differently() -> None:
    """A decoy on the host that is scanned in the same step, and a scan in the same step as something that calls home."""
    decoy = act("DecoyTomcat Enterprise0")
    seen = {}
    for version in ("official", "cardiff", "debugged"):
        with shoal.make(
            "shoal/Cage2-v0", 4000, red="Sleep", green="Scan", observation=version, backend="serial"
        ) as envs:
            envs.reset(seed=0)
            observation, *_ = envs.step(np.full(4000, decoy[0]))
            is_scanned = true_states(envs)["green_target"] == 1
            seen[version] = observation.reshape(4000, 13, 4)[:, 1, 0]
            assert is_scanned.sum() > 100
            assert not seen[version][~is_scanned].any()
            assert seen[version][is_scanned].all() if version == "cardiff" else not seen[version][is_scanned].any()
    attacked = {}
    for version in ("official", "debugged"):
        with shoal.make(
            "shoal/Cage2-v0", 8000, red="B_line", green="Scan", observation=version, backend="serial"
        ) as envs:
            envs.reset(seed=0)
            for _ in range(3):
                observation, *_ = envs.step(np.zeros(8000, np.int64))
            state = true_states(envs)
            both = (state["green_target"] == 12) & (state["red_target"] == 12) & (state["red_exploit"] == 1)
            assert both.sum() > 20
            attacked[version] = observation.reshape(8000, 13, 4)[both, 12, 1].mean()
    assert attacked["official"] == 0
    assert attacked["debugged"] > 0.8


def test_the_memory_of_scans_knows_the_latest_one() -> None:
    with shoal.make("shoal/Cage2-v0", 200, red="Meander", scan_memory=True, backend="serial") as envs:
        assert envs.single_observation_space.shape == (62,)
        observation, _ = envs.reset(seed=0)
        assert not observation.any()
        latest = []
        for _ in range(6):
            observation, *_ = envs.step(np.zeros(200, np.int64))
            latest.append(true_states(envs)["red_target"].astype(int))
        memory = observation[:, 52:]
        assert (memory == 2).sum(axis=1).tolist() == [1] * 200
        # Defender, the enterprise, Op_Server0, then users: User0 is the sixth.
        assert (memory.argmax(axis=1) == latest[-1] - 8 + 5).all()
        assert (memory[:, 5:] > 0).all()
        assert not memory[:, :5].any()


def test_the_reduced_actions_are_those_of_the_winner() -> None:
    env = Cage2Env(actions="reduced")
    assert env.action_space == gymnasium.spaces.Discrete(36)
    assert env.action_names[:4] == (
        "Restore Enterprise0",
        "Restore Enterprise1",
        "Restore Enterprise2",
        "Restore Op_Server0",
    )
    assert env.action_names[-9:] == tuple(f"Decoy {host}" for host in DECOY_ORDER)
    assert len(set(env.action_names)) == 36


def test_a_decoy_on_a_host_is_the_next_one_that_is_not_up() -> None:
    names = Cage2Env(actions="reduced").action_names
    decoy, restore = names.index("Decoy Enterprise0"), names.index("Restore Enterprise0")
    with shoal.make("shoal/Cage2-v0", 1, red="Sleep", actions="reduced", backend="serial") as envs:
        envs.reset()
        done = []
        for action in [decoy] * 5 + [restore, decoy]:
            envs.step([action])
            (state,) = true_states(envs)
            done.append(ACTION_NAMES[state["blue_action"]])
    # The last of the four finds its port taken by the third, which opens the wrong one.
    assert done == ["DecoyHarakaSMPT Enterprise0", "DecoyTomcat Enterprise0", "DecoyVsftpd Enterprise0",
                    "DecoyApache Enterprise0", "DecoyApache Enterprise0",
                    "Restore Enterprise0", "DecoyHarakaSMPT Enterprise0"]  # fmt: skip


@pytest.mark.parametrize("max_steps", [30, 50, 100])
def test_episodes_have_the_length_that_was_asked_for(max_steps: int) -> None:
    with shoal.make("shoal/Cage2-v0", 2, max_steps=max_steps, backend="serial") as envs:
        envs.reset()
        ends = [envs.step([0, 0])[3].tolist() for _ in range(max_steps)]
    assert ends == [[False, False]] * (max_steps - 1) + [[True, True]]
    env = gymnasium.make("shoal/Cage2-v0", max_steps=max_steps)
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(max_steps)] == [False] * (max_steps - 1) + [True]


def test_a_single_one_is_an_environment_as_gymnasium_wants_it() -> None:
    check_env(Cage2Env(render_mode="ansi"), skip_render_check=True)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"red": "Bline"}, "red must be one of 'B_line', 'Meander', 'Sleep', got 'Bline'. Did you mean 'B_line'?"),
        ({"red": dict}, "red must be one of 'B_line', 'Meander', 'Sleep', got <class 'dict'>."),
        ({"green": "random"}, "green must be one of 'Sleep', 'Scan', got 'random'."),
        ({"actions": "small"}, "actions must be one of 'official', 'reduced', got 'small'."),
        ({"observation": "Cardiff"}, "Did you mean 'cardiff'?"),
        ({"max_steps": 0}, "max_steps must be a whole number of at least 1, or None, got 0"),
        ({"max_steps": 2.5}, "max_steps must be a whole number of at least 1, or None, got 2.5"),
        (
            {"quirks": {"vsftpd_opens_htp": False}},
            "there is no quirk 'vsftpd_opens_htp'. Did you mean 'vsftpd_opens_http'?",
        ),
        (
            {"quirks": {"vsftpd_opens_http": "off"}},
            "the quirk 'vsftpd_opens_http' is on or off, True or False, got 'off'",
        ),
        ({"scan_memory": "False"}, "scan_memory must be True or False, got 'False'"),
        ({"reds": "Meander"}, "Cage2 has no option 'reds'. Did you mean 'red'?"),
        ({"zzz": 1}, "Cage2 has no option 'zzz'. There are render_mode, red, green,"),
        ({"quirks": ["restore"]}, "quirks must be a dictionary of names and booleans, got ['restore']"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_what_cannot_be_chosen_is_refused(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(shoal.ConfigurationError) as error:
        shoal.make("shoal/Cage2-v0", 2, backend="serial", **keywords)
    assert message in str(error.value)


def test_wrong_actions_are_refused_whole() -> None:
    with shoal.make("shoal/Cage2-v0", 3, backend="serial") as envs:
        envs.reset()
        with pytest.raises(shoal.InvalidAction, match="not in Discrete"):
            envs.step([0, 145, 1])
        with pytest.raises(shoal.InvalidAction, match="3 environments|shape"):
            envs.step([0, 1])
        assert true_states(envs)["step"].tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="the action 145 is not in"):
        env = Cage2Env()
        env.reset()
        env.step(145)


@pytest.mark.parametrize("red", ["Meander", "RedMeanderAgent", RedMeanderAgent])
def test_agents_may_be_named_as_cyborg_names_them(red: Any) -> None:
    assert Cage2Env(red=red).world.tables.red == Cage2Env(red="Meander").world.tables.red
    assert Cage2Env(red=B_lineAgent).world.tables.red == Cage2Env(red="B_line").world.tables.red
    assert Cage2Env(green=GreenAgent).world.tables.green != Cage2Env(green=SleepAgent).world.tables.green


def test_quirks_can_be_given_as_they_are() -> None:
    assert Cage2Env(quirks=Quirks(vsftpd_opens_http=False)).quirks == Quirks()._replace(vsftpd_opens_http=False)


def test_limits_hold_together_however_games_are_made() -> None:
    limits: list[tuple[dict[str, Any], int]] = [
        ({"max_episode_steps": 20}, 20),
        ({"max_episode_steps": 20, "max_steps": 5}, 5),
    ]
    choices: list[dict[str, Any]] = [{}, {"isolate_rng": True}]
    for keywords, expected in limits:
        for choice in choices:
            with shoal.make("shoal/Cage2-v0", 2, backend="serial", **keywords, **choice) as envs:
                envs.reset()
                ends = [bool(envs.step([0, 0])[3].all()) for _ in range(expected)]
            assert ends == [False] * (expected - 1) + [True], (keywords, choice)


def test_an_exploit_in_the_step_of_an_analysis_is_not_unseen() -> None:
    with shoal.make("shoal/Cage2-v0", 2000, backend="serial", quirks={"analyse_sees_files_only": False}) as envs:
        envs.reset(seed=0)
        for action in (0, 0, index_of("Analyse", "User2")):
            observation, *_ = envs.step(np.full(2000, action))
        bits = observation.reshape(2000, 13, 4)[:, 10]
        is_attacked = bits[:, 1] == 1
        assert is_attacked.sum() > 100
        assert (bits[is_attacked, 3] == 1).all()


def test_of_two_scans_in_one_step_the_first_host_is_remembered() -> None:
    with shoal.make("shoal/Cage2-v0", 3000, red="B_line", green="Scan", scan_memory=True, backend="serial") as envs:
        envs.reset(seed=0)
        for _ in range(2):
            observation, *_ = envs.step(np.zeros(3000, np.int64))
        state = true_states(envs)
    both = (state["green_target"] >= 8) & (state["red_action"] == 2) & (state["green_target"] != state["red_target"])
    assert both.sum() > 100
    first = np.minimum(state["green_target"], state["red_target"]).astype(int)
    assert (observation[both, 52:].argmax(axis=1) == first[both] - 8 + 5).all()


def test_negative_seeds_are_refused() -> None:
    with gymnasium.make("shoal/Cage2-v0") as env, pytest.raises(gymnasium.error.Error, match="Seed must"):
        env.reset(seed=-1)


def test_true_states_are_of_this_world_alone() -> None:
    for env, message in (("CartPole-v1", "no environments of a world"), ("shoal/FrozenLake-v0", "of another world")):
        with shoal.make(env, 2, backend="serial") as envs, pytest.raises(shoal.ConfigurationError, match=message):
            envs.reset()
            true_states(envs)


def test_a_text_shows_everything() -> None:
    env = Cage2Env(render_mode="ansi", red="B_line")
    env.reset(seed=1)
    assert str(env.render()).startswith("before the first step")
    for action in act("DecoyTomcat Enterprise0", "Sleep", "Sleep"):
        env.step(action)
    text = str(env.render())
    lines = text.splitlines()
    assert lines[0].startswith("step 3   Blue: Sleep   Red: ExploitRemoteService User")
    assert len(lines) == 2 + len(HOSTS) + 1
    assert "Tomcat" in lines[3]
    assert lines[2 + USER0].split() == ["User", "User0", "admin", "-", "-", "-"]
    assert lines[-1] == "OTService runs"


@pytest.fixture(scope="module")
def fonts() -> None:
    """Matplotlib opens its fonts once, and keeps them."""
    env = Cage2Env(render_mode="rgb_array")
    env.reset()
    for action in (*act("DecoyTomcat Enterprise0"), 0):
        env.step(action)
    env.render()


def test_a_picture_needs_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    env = Cage2Env(render_mode="rgb_array")
    env.reset()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(shoal.ConfigurationError, match="needs matplotlib: pip install 'shoal\\[profile\\]'"):
        env.render()


@pytest.mark.usefixtures("fonts")
def test_a_picture_shows_what_red_has() -> None:
    env = Cage2Env(render_mode="rgb_array", red="B_line")
    env.reset(seed=1)
    before = env.render()
    assert before.shape == (540, 900, 3)
    assert before.dtype == np.uint8
    red = (242, 139, 130)

    def area(picture: Any) -> int:
        return int((picture == red).all(axis=-1).sum())

    for _ in range(30):
        env.step(0)
    assert area(env.render()) > 3 * area(before), "User0 alone, then all on the way to the server"


def test_true_states_say_what_is_on_every_host() -> None:
    states, _ = play(act("DecoySSHD User2"), num_envs=3, red="Sleep")
    assert len(states) == 3
    assert states["decoys"][:, 10, 4].all()
    assert states["ports"][0, OP_SERVER0, PORTS.index(22)]
    assert states["ports"][0].sum(axis=1).tolist() == [3, 1, 7, 7, 1, 1, 1, 1, 2, 2, 5, 4, 5]
    assert states["step"].tolist() == [1, 1, 1]
    assert states["sessions"][:, USER0, 0].tolist() == [1, 1, 1]
