"""HCAEA put together again from its root and its subtrees, as tasks do it that never see one another."""

import numpy as np
from resonance.engine import HCAEARoot, HCAEASubtree, Step
from resonance.engine.state import pack, unpack


class Composition:
    """A root and its subtrees, which lie on several places; each place carries out what it is sent, and nothing else.

    Parameters
    ----------
    parameters : mapping
        Of HCAEA.
    places : int
        How many there are.
    sent_at_once : int
        Operations that a place is sent at once.
    """

    def __init__(self, parameters, places=1, sent_at_once=1000):
        self.parameters = dict(parameters)
        self.root = HCAEARoot.make(parameters)
        self.places = [{} for _ in range(places)]
        self.sent_at_once = sent_at_once

    def learn(self, X, labels=None):
        """Learn a batch as HCAEA does; events come by record, model and number."""
        step = self.root.learn(X, labels)
        cluster, path, events = step.cluster.copy(), step.path.copy(), list(step.events)
        wanted = step.operations
        assert (np.diff(wanted.record) >= 0).all()
        for number, place in enumerate(self.places):
            # Nodes go to places in no order that means anything.
            own = np.flatnonzero(wanted.node * 7 % 5 % len(self.places) == number)
            for at in range(0, len(own), self.sent_at_once):
                events += self._carry_out(place, wanted.take(own[at : at + self.sent_at_once]), cluster, path)
        events.sort(key=lambda event: (event.index, event.path, event.number))
        return Step(cluster, step.score, step.novel, path, events)

    def _carry_out(self, place, sent, cluster, path):
        events = []
        for node in np.unique(sent.node).tolist():
            own = sent.take(np.flatnonzero(sent.node == node))
            subtree = place.setdefault(node, HCAEASubtree.below(node, self.parameters))
            step = subtree.follow(own)
            cluster[own.record[own.answered], 1:] = step.cluster[own.answered, 1:]
            path[own.record[own.answered], 1:] = step.path[own.answered, 1:]
            assert (step.path[own.answered, 0] == path[own.record[own.answered], 0]).all()
            events += step.events
            if subtree.ended:
                del place[node]
        return events

    def reload(self):
        """Save and load everything."""
        self.root = HCAEARoot.from_state(self.root.state())
        for place in self.places:
            for node, subtree in place.items():
                place[node] = HCAEASubtree.from_state(subtree.state())
                assert place[node].state() == subtree.state()

    def subtrees(self):
        """Return the subtrees by their nodes."""
        return [tree for _, tree in sorted((node, tree) for place in self.places for node, tree in place.items())]

    def clusters(self):
        """Return the clusters of all models."""
        found = self.root.clusters() + [cluster for tree in self.subtrees() for cluster in tree.clusters()]
        return sorted(found, key=lambda cluster: (cluster.path, cluster.id))

    def state(self):
        """Return what `HCAEA.state` is of the same tree."""
        header, arrays = unpack(self.root.state(), "hcaea-root", 2)
        del arrays["children"]
        for tree in self.subtrees():
            _, below = unpack(tree.state(), "hcaea-subtree", 2)
            arrays = {name: np.concatenate([array, below[name]]) for name, array in arrays.items()}
        return pack("hcaea", HCAEARoot.revision, header, arrays)
