"""Golden vectors against the engines: integers must be equal, floats within 1e-9, those of `drift` to the last bit."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from resonance.engine import CAEA, EVQ, HCAEA, ILDN, MLCA, SAART, FuzzyART
from resonance.kernels.table import packed

from tests.engine.nodes import caea_nodes, categories, ildn_nodes, leaves, mlca_nodes
from tests.engine.watched import normal, watched

SHARED = Path(__file__).resolve().parents[1].parent / "shared"
PAPER = CAEA.presets["paper"]


def equal(name, ours, golden):
    """Raise `AssertionError` at the first place where integers are not equal."""
    ours, golden = np.asarray(ours), np.asarray(golden)
    if ours.shape != golden.shape:
        raise AssertionError(f"{name}: shape {ours.shape}, golden {golden.shape}")
    wrong = np.argwhere(ours != golden)
    if len(wrong):
        at = tuple(wrong[0])
        raise AssertionError(f"{name}{[int(i) for i in at]}: {ours[at]}, golden {golden[at]} ({len(wrong)} differ)")


def close(name, ours, golden):
    """Raise `AssertionError` where floats are more than 1e-9 apart, relative above 1; NaN equals NaN."""
    ours, golden = np.asarray(ours, dtype=float), np.asarray(golden, dtype=float)
    if ours.shape != golden.shape:
        raise AssertionError(f"{name}: shape {ours.shape}, golden {golden.shape}")
    far = ~((np.abs(ours - golden) <= 1e-9 * np.maximum(1.0, np.abs(golden))) | (np.isnan(ours) & np.isnan(golden)))
    if far.any():
        at = tuple(np.argwhere(far)[0])
        raise AssertionError(f"{name}{[int(i) for i in at]}: {ours[at]!r}, golden {golden[at]!r} ({far.sum()} differ)")


def load(path):
    """Return the arrays of a file."""
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def dataset(folder, vector):
    """Return rows and labels from 0 of the data set that a vector was made from, in its order."""
    data = load(folder.parents[1] / "data" / f"{vector['dataset']}.npz")
    return data["X"][vector["order"]], data["y"][vector["order"]].astype(np.int64) - 1


def cims(x, weights, sigma):
    """Return the correntropy-induced metric between a record and each node, at one bandwidth."""
    return np.sqrt(1.0 - np.exp(-((x - weights) ** 2) / (2.0 * sigma**2)).mean(axis=1))


def check_caea(path):
    """Compare every step and the final state of a flat run."""
    v = load(path)
    X, y = dataset(path.parent, v)
    classes = int(v["n_classes"])
    model = CAEA.make({**PAPER, "lambda": int(v["lam"]), "age_max": int(v["age_max"])})
    names = ("step_id", "step_case", "step_second", "step_nodes", "step_v1", "step_v2", "step_threshold", "step_sigma")
    traced: dict[str, list[Any]] = {name: [] for name in names}
    for x, label in zip(X, y, strict=True):
        before, step = caea_nodes(model), model.learn(x[None], [label])
        case, second, own = 1, -1, dict.fromkeys(names[4:], np.nan)
        if before and len(before["id"]) >= (int(v["lam"]) + 1) // 2:
            sigma = before["sigma"].mean()
            far = cims(x, before["weight"], sigma)
            k1, k2 = np.argsort(far, kind="stable")[:2]
            second = before["id"][k2]
            own = dict(zip(names[4:], (far[k1], far[k2], before["threshold"][k1], sigma), strict=True))
            if not step.novel[0]:
                case = 3 if far[k2] <= before["threshold"][k2] else 2
        nodes = model._model.nodes
        for name, value in zip(names, (step.path[0, 0], case, second, nodes, *own.values()), strict=True):
            traced[name].append(value)
    for name in names[:4]:
        equal(name, traced[name], v[name])
    for name in names[4:]:
        close(name, traced[name], v[name])
    nodes = caea_nodes(model)
    for ours, golden in (("id", "node_id"), ("count", "node_count")):
        equal(golden, nodes[ours], v[golden])
    counts = np.zeros((len(nodes["id"]), classes), dtype=np.int64)
    counts[:, : nodes["labels"].shape[1]] = nodes["labels"]
    equal("node_labels", counts, v["node_labels"])
    for ours, golden in (("weight", "node_weight"), ("sigma", "node_sigma"), ("threshold", "node_threshold")):
        close(golden, nodes[ours], v[golden])
    i, j = np.nonzero(np.triu(nodes["age"] + 1))
    edges = v["edges"].reshape(-1, 2)
    order = np.lexsort((edges[:, 1], edges[:, 0]))
    equal("edges", np.stack([i, j], axis=1), edges[order])
    equal("edge_age", nodes["age"][i, j], v["edge_age"].reshape(-1)[order])


def check_reading(path):
    """Compare answers, events and the final clusters of a run."""
    v = load(path)
    params = json.loads(str(v["params"]))
    data = load(path.parents[2] / "data" / f"{v['dataset']}.npz")
    low, high = data["X"].min(0), data["X"].max(0)
    X = ((data["X"] - low) / np.where(high > low, high - low, 1.0))[v["order"]]
    given = {name: params[name] for name in ("age_max", "grace", "reading", "tau")}
    given |= {"lambda": params["lam"], "min_cluster_records": params["min_records"]}
    given = {**PAPER, **given}
    model = CAEA.make(given)
    step = model.learn(X)
    equal("step_cluster", step.cluster[:, 0], v["step_cluster"])
    code = {"emerged": 0, "absorbed": 1, "split": 2, "vanished": 3}
    events = [(e.index, code[e.kind], e.cluster, -1 if e.other is None else e.other) for e in step.events]
    equal("events", np.array(events, dtype=np.int64).reshape(-1, 4), v["events"].reshape(-1, 4))
    change = np.zeros(len(X), dtype=np.int64)
    for e in step.events:
        change[e.index] += 1 if e.kind in ("emerged", "split") else -1
    equal("step_clusters", np.cumsum(change), v["step_clusters"])
    nodes = caea_nodes(model)
    equal("node_id", nodes["id"], v["node_id"])
    equal("node_cluster", nodes["cluster"], v["node_cluster"])
    equal("cowin", nodes["cowin"], v["cowin"])
    equal("cluster_id", [c.id for c in model.clusters()], v["cluster_id"])
    _check_folding(X, step, model, CAEA.make(given))


def _check_folding(X, whole, model, again):
    """Learn the stream again record by record, with one restore, and fold the events: same bits, same clusters."""
    present = set()
    answers = []
    for t in range(len(X)):
        step = again.learn(X[t : t + 1])
        answers.append(step.cluster)
        for e in step.events:
            present ^= {e.cluster}
        equal("folded clusters", sorted(present), [c.id for c in again.clusters()])
        if t == len(X) // 2:
            again = CAEA.from_state(again.state())
    equal("answers one by one", np.concatenate(answers), whole.cluster)
    if again.state() != model.state():
        raise AssertionError("state: differs when learned one by one")


def _leaves(model, v, prefix):
    """Compare the leaves of a tree."""
    found = leaves(model)
    golden = v[f"{prefix}leaf_path"]
    equal(f"{prefix}leaf_path", found["path"][:, : golden.shape[1]], golden)
    equal(
        f"{prefix}leaf_path",
        found["path"][:, golden.shape[1] :],
        np.full_like(found["path"][:, golden.shape[1] :], -1),
    )
    counts = np.zeros(v[f"{prefix}leaf_labels"].shape, dtype=np.int64)
    counts[:, : found["labels"].shape[1]] = found["labels"]
    equal(f"{prefix}leaf_labels", counts, v[f"{prefix}leaf_labels"])
    close(f"{prefix}leaf_weight", found["weight"], v[f"{prefix}leaf_weight"])
    close(f"{prefix}leaf_sigma", found["sigma"], v[f"{prefix}leaf_sigma"])


def check_treefix(path):
    """Compare the tree of a run in which orphans reach no child."""
    v = load(path)
    X, y = dataset(path.parent, v)
    tree = {"max_depth": None, "min_child_records": 1, "orphans": "drop", "max_leaves": 1_000_000}
    model = HCAEA.make({**PAPER, **tree, "lambda": int(v["lam"]), "age_max": int(v["age_max"])})
    model.learn(X, y)
    _leaves(model, v, "treefix_")
    equal("treefix_leaf_count", leaves(model)["count"], v["treefix_leaf_count"])


def check_caea_and_tree(path):
    """Compare a flat run, and the tree over the same records."""
    check_caea(path)
    check_treefix(path)


def check_hcaea(path):
    """Compare paths and leaves of a run in which orphans go to the nearest node."""
    v = load(path)
    X, y = dataset(path.parent, v)
    model = HCAEA.make({**PAPER, "lambda": int(v["lam"])})
    step = model.learn(X, y)
    equal("step_path", step.path[:, : v["step_path"].shape[1]], v["step_path"])
    _leaves(model, v, "")


def check_sa_art(path):
    """Compare which cluster learned each record, what is predicted afterwards, and the final categories."""
    v = load(path)
    if "params" not in v:
        return  # the records that the others were made from
    params, X = json.loads(str(v["params"])), load(path.parent / "digits.npz")["X16"] / 16
    given = {name: params[name] for name in ("alpha", "complement")}
    model: FuzzyART | SAART
    if params.get("algorithm") == "Fuzzy ART":
        model = FuzzyART.make(given | {name: params[name] for name in ("rho", "beta")})
    else:
        model = SAART.make(given | {"rho0": params["rho0"], "lambda": params["lam"], "delta": params["delta"]})
    step = model.learn(X)
    equal("label", step.path[:, 0], v["label"])
    found = categories(model)
    close("W", found["weight"], v["W"])
    if "predict" not in v:
        return
    equal("predict", model.predict(X).cluster[:, 0], v["predict"])
    equal("L", found["size"], v["L"])
    close("rho", found["rho"], v["rho"])
    close("S", found["salience"], v["S"])
    # Of complement coding, mean, squares and count of the second half follow from the first.
    d = X.shape[1]
    for ours, golden in (("mean", "mu"), ("squares", "Z"), ("count", "cnt")):
        close(golden, found[ours], v[golden][:, :d])


def check_mlca(path):
    """Compare every step, the final nodes and counts, and what is predicted afterwards."""
    v = load(path)
    if "order" not in v:
        return  # the records that the others were made from
    data, n = load(path.parent / "emotions.npz"), int(v["n_train"])
    X, Y = data["X"][v["order"]], data["Y"][v["order"]]
    given = {"vigilance": float(v["min_cim"]), "lambda": int(v["lam"]), "k": int(v["ref_node"])}
    model = MLCA.make({**given, "smoothing": float(v["smooth"]), "warmup": "buffer"})
    sets = [np.flatnonzero(row).tolist() for row in Y[:n]]
    held = given["lambda"]
    model.learn(X[:held], sets[:held])
    known = len(model.labels)
    for t in range(held, n):
        before, step = mlca_nodes(model), model.learn(X[t : t + 1], [sets[t]])
        after, ids = mlca_nodes(model), before["id"]
        equal(f"step_winner {t}", step.path[0, 0], v["step_winner"][t])
        equal(f"step_nodes {t}", len(after["id"]), v["step_nodes"][t])
        sigma = before["sigma"].mean()
        far = cims(X[t], before["weight"], sigma)
        near = np.argsort(far, kind="stable")
        close(f"step_sigma {t}", sigma, v["step_sigma"][t])
        for name, at in (("v1", 0), ("v2", 1)):
            if np.isfinite(v[f"step_{name}"][t]):
                close(f"step_{name} {t}", far[near[at]], v[f"step_{name}"][t])
                equal(f"step_second {t}", ids[near[1]], v["step_second"][t])
        # The column in which a record was counted is the membership of each label.
        counted = [after[name][:known] - before[name][:known] for name in ("having", "lacking")]
        if len(model.labels) == known:
            column = [model.labels.index(label) for label in range(Y.shape[1])]
            equal(f"step_delta {t}", sum(counted)[column].argmax(axis=1), v["step_delta"][t])
        known = len(model.labels)
    column = [model.labels.index(label) for label in range(Y.shape[1])]
    nodes = counts = mlca_nodes(model)
    equal("node_count", nodes["count"], v["node_count"])
    equal("node_labels", nodes["labels"][:, column], v["node_labels"])
    close("node_weight", nodes["weight"], v["node_weight"])
    close("node_sigma", nodes["sigma"][:, 0], v["node_sigma"])
    s = float(v["smooth"])
    close("prior", (s + counts["records"][column]) / (2 * s + n), v["prior"])
    for ours, golden, likelihood in (("having", "ci", "likelihood"), ("lacking", "nci", "likelihood_n")):
        equal(golden, counts[ours][column], v[golden])
        of = counts[ours][column] + s
        close(likelihood, of / of.sum(axis=1, keepdims=True), v[likelihood])
    answer = model.predict(X[n:]).labels
    assert answer is not None
    close("test_conf", answer.probabilities[:, column], v["test_conf"])
    equal("test_pred", answer.probabilities[:, column] > 0.5, v["test_pred"] == 1)


def replay(network, events):
    """Change a network, a set of ids and a set of edges, as the events of a record say."""
    ids, edges = network
    for code, a, b, c in events:
        if code == 0:
            ids.add(a)
        elif code == 3:
            edges.add((a, b))
        else:
            ids -= {a, b}
            ids |= {c} if code == 1 else set()
            moved = {pair: [c if end in (a, b) else end for end in pair] for pair in edges if {a, b} & set(pair)}
            edges -= set(moved)
            edges |= {(min(new), max(new)) for new in moved.values() if code == 1 and new[0] != new[1]}


def check_ildn(path):
    """Compare the network after every record, and the final nodes."""
    v = load(path)
    params = json.loads(str(v["params"]))
    given = {name: params[name] for name in ("sigma", "q", "rho", "k")}
    model = ILDN.make({**given, "lambda": params["lam"], "radius": params["h"], **ILDN.presets["paper"]})
    network: tuple[set[int], set[tuple[int, int]]] = set(), set()
    for t, x in enumerate(v["X"]):
        step, events = model.learn(x[None]), v["events"][v["events"][:, 0] == t + 1, 1:].tolist()
        replay(network, events)
        arrays = model.arrays()
        ids = arrays["nodes"][0]
        equal(f"nodes {t}", ids, sorted(network[0]))
        equal(f"edges {t}", ids[arrays["edges"]], np.array(sorted(network[1]), dtype=int).reshape(-1, 2))
        equal(f"winner {t}", -1 if [2, step.path[0, 0], -1, -1] in events else step.path[0, 0], v["winner"][t])
    nodes = ildn_nodes(model)
    equal("node_id", nodes["id"], v["node_id"])
    equal("node_n", nodes["count"], v["node_n"])
    for ours, golden in (("centre", "node_c"), ("covariance", "node_M"), ("radius", "node_H")):
        close(golden, nodes[ours], v[golden])
    equal("edges", nodes["edges"], v["edges"].reshape(-1, 2))
    # Components are numbered by their oldest node there, by when they emerged here.
    pairs = set(zip(nodes["cluster"].tolist(), v["node_cluster"].tolist(), strict=True))
    equal("node_cluster", len(pairs), len(set(v["node_cluster"].tolist())))
    equal("node_cluster", len(pairs), len(model.clusters()))


EVQ_NAMES = {"M": "check_every"}
"""Parameters of the eVQ family that settings call otherwise than the specification."""


def _evq_events(events, records):
    """Return events as the vectors have them: t, code, a, b, c; those that no record caused at the stream's end."""
    rows = []
    for e in events:
        t, other = e.index if e.index >= 0 else records, -1 if e.other is None else e.other
        rows.append(
            {
                "emerged": (t, 0, e.cluster, -1, -1),
                "absorbed": (t, 1, other, e.cluster, -1),
                "split": (t, 2, other, other, e.cluster),
                "vanished": (t, 3, e.cluster, -1, -1),
            }[e.kind]
        )
    return np.array(rows, dtype=np.int64).reshape(-1, 5)


def _evq_clusters(prefix, model, v):
    """Compare the clusters of a model, each float with the largest entry of its cluster's array."""
    found = model.arrays()
    for column, golden in ((0, "id"), (1, "k"), (4, "nbuf"), (2, "last")):
        if prefix + golden in v:
            equal(prefix + golden, found["number"][:, column], v[prefix + golden])
    for ours, golden in (("centre", "c"), ("cov", "C"), ("inv", "P")):
        if prefix + golden in v and len(v[prefix + golden]):
            for mine, theirs in zip(found[ours], v[prefix + golden], strict=True):
                largest = max(float(np.abs(theirs).max()), 1e-300)
                close(prefix + golden, mine / largest, theirs / largest)


def check_evq(path):
    """Compare every step, the events, the clusters, the answers and what a consolidation at the end does."""
    v = load(path)
    params = json.loads(str(v["params"]))
    X = load(path.parents[2] / "data" / f"{v['dataset']}.npz")["X"]
    given = {
        EVQ_NAMES.get(name, name): value for name, value in params.items() if name not in ("config", "shuffle_seed")
    }
    if str(v["scaling"]) == "minmax":
        X = (X - X.min(0)) / (X.max(0) - X.min(0))
        given |= {"low": 0.0, "high": 1.0}
    X = X[v["order"]]
    model = EVQ.make(given)
    step = model.learn(X)
    change = np.zeros(len(X), dtype=np.int64)
    for e in step.events:
        change[e.index] += 1 if e.kind in ("emerged", "split") else -1
    equal("step_id", step.path[:, 0], v["step_id"])
    equal("step_clusters", np.cumsum(change), v["step_clusters"])
    equal("events", _evq_events(step.events, len(X)), v["events"])
    _evq_clusters("cluster_", model, v)
    found, near = model.predict(X).cluster[:, 0], ~v["predict_novel"]
    equal("predict_novel", found < 0, v["predict_novel"])
    equal("predict_id", found[near], v["predict_id"][near])
    if "con_events" in v:
        model = EVQ.make(given | {"consolidate_every": len(X)})
        events = _evq_events(model.learn(X).events, len(X))
        events[len(v["events"]) :, 0] = len(X)
        equal("con_events", events[len(v["events"]) :], v["con_events"])
        _evq_clusters("con_", model, v)


def check_drift(path):
    """Compare the rows and the final state of a watch, which is restored again and again, to the last bit."""
    v = load(path)
    rows, watch = watched(v, 97, restored=True)
    state = packed(watch._state, units=watch.cells + 1)
    for name, ours in (
        ("rows", rows),
        ("state", state["channel"].ravel()),
        ("shares", state["share"][1:]),
        ("counters", state["number"][1:]),
    ):
        golden = normal(v[name]) if name == "rows" else v[name]
        equal(name, np.ascontiguousarray(ours).view(np.int64), golden.view(np.int64))


CHECKS = {
    "caea": check_caea_and_tree,
    "drift": check_drift,
    "evq": check_evq,
    "hcaea": check_hcaea,
    "ildn": check_ildn,
    "mlca": check_mlca,
    "reading": check_reading,
    "sa_art": check_sa_art,
}
