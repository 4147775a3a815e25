"""The admin client of what is looked up while workers run: the group's members and its offsets."""

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from confluent_kafka import ConsumerGroupState, KafkaError, TopicPartition

from tests.simulation.broker import Broker
from tests.simulation.clients import exception
from tests.simulation.logs import RefusedError
from tests.simulation.network import BrokenError, Network


class AdminClient:
    """confluent-kafka's, with two of its calls; each waits for its answer, where the real one returns a future."""

    broker: Broker
    network: Network

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._process = self.network.sim.current.process

    def _ask(self, group: str, request: Callable[[], Any], seconds: float) -> dict[str, Any]:
        try:
            found = self.network.call(self._process, "lookup", request, seconds)
        except BrokenError:
            raise exception(KafkaError._TIMED_OUT) from None
        except RefusedError as refused:
            raise exception(refused.code) from refused
        return {group: SimpleNamespace(result=lambda: found)}

    def group_offsets(self, group: str, places: Sequence[TopicPartition], seconds: float) -> list[TopicPartition]:
        wanted = [(place.topic, place.partition) for place in places]

        def offsets() -> list[TopicPartition]:
            found = self.broker.committed(wanted, stable=False)
            return [TopicPartition(*at, *(found[at] or (-1001, ""))) for at in wanted]

        committed: list[TopicPartition] = self._ask(group, offsets, seconds)[group].result()
        return committed

    def describe_consumer_groups(self, groups: Sequence[str], request_timeout: float) -> dict[str, Any]:
        def members() -> SimpleNamespace:
            clients = self.broker.ask_group(self.broker.group.clients)
            state = ConsumerGroupState.PREPARING_REBALANCING if clients is None else ConsumerGroupState.STABLE
            return SimpleNamespace(state=state, members=[SimpleNamespace(client_id=name) for name in clients or ()])

        return self._ask(groups[0], members, request_timeout)
