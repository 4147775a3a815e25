"""MLCA and its two forms for attributes on different scales."""

from typing import ClassVar

from resonance.engine.mlca.model import MultiLabel


class MLCA(MultiLabel):
    """Multi-label classification by adaptive resonance.

    A record with labels is learned by the node nearest to it by CIM, if that is within the vigilance, else it founds a
    node. Nodes count the labels of their records. How probable a label is for a record follows by Bayes' rule from how
    often the label comes at all and from its share among the nearest nodes, against the shares that records with and
    without the label have seen so far.

    Notes
    -----
    A node that goes takes its labels out of the neighbourhoods of records to come. The prior stays the share of all
    learned records, like the likelihoods, which cannot be taken back either: Bayes' rule wants both from the same
    records.

    References
    ----------
    N. Masuyama, Y. Nojima, C. K. Loo, H. Ishibuchi, "Multi-label classification via adaptive resonance theory-based
    clustering", IEEE Transactions on Pattern Analysis and Machine Intelligence 45(7), 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from resonance.engine import MLCA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((2000, 2))
    >>> Y = [{name for name, high in zip(("right", "up"), x > 0.5) if high} for x in X]
    >>> model = MLCA()
    >>> step = model.learn(X, Y)
    >>> answer = model.predict(np.array([[0.9, 0.1], [0.2, 0.8]])).labels
    >>> answer.labels
    ('right', 'up')
    >>> (answer.probabilities > 0.5).tolist()
    [[True, False], [False, True]]
    """

    name: ClassVar[str] = "mlca"
    pooled: ClassVar[bool] = True
    clustered: ClassVar[bool] = False


class MLCAI(MultiLabel):
    """MLCA with a bandwidth for each attribute: CIM is the mean of the attributes' own (28)-(30).

    For attributes on different scales. Parameters, notes and references: `MLCA`. The bandwidth of an attribute is the
    mean of the nodes', in learning and in prediction.
    """

    name: ClassVar[str] = "mlca_i"
    pooled: ClassVar[bool] = False
    clustered: ClassVar[bool] = False


class MLCAC(MultiLabel):
    """MLCA with a bandwidth for each group of attributes: CIM is the mean of the groups' (31)-(33).

    Every `lambda_` records the means of the attributes over the last `lambda_` records are clustered, as records of one
    attribute, with the same vigilance; until then all are one group. Attributes that did not vary in those records are
    one group. When the number of groups changes `Step.groups` says so. Parameters, notes and references: `MLCA`.
    """

    name: ClassVar[str] = "mlca_c"
    pooled: ClassVar[bool] = False
    clustered: ClassVar[bool] = True
