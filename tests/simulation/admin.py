"""The admin client of what is looked up while workers run: the group's members and its offsets."""

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, TopicPartition

from tests.simulation.broker import Broker
from tests.simulation.clients import exception
from tests.simulation.logs import RefusedError
from tests.simulation.network import BrokenError, Network


class AdminClient:
    """confluent-kafka's, with one of its calls, and `group_offsets`."""

    broker: Broker
    network: Network

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._process = self.network.sim.current.process

    def _ask(self, request: Callable[[], Any], seconds: float) -> Any:
        try:
            return self.network.call(self._process, "lookup", request, seconds)
        except BrokenError:
            raise exception(KafkaError._TIMED_OUT) from None
        except RefusedError as refused:
            raise exception(refused.code) from refused

    def group_offsets(self, group: str, places: Sequence[TopicPartition], seconds: float) -> list[TopicPartition]:
        wanted = [(place.topic, place.partition) for place in places]

        def offsets() -> list[TopicPartition]:
            found = self.broker.committed(wanted, stable=False)
            return [TopicPartition(*at, *(found[at] or (-1001, ""))) for at in wanted]

        committed: list[TopicPartition] = self._ask(offsets, seconds)
        return committed

    def list_groups(self, group: str, seconds: float) -> list[Any]:
        def members() -> list[Any]:
            clients = self.broker.ask_group(self.broker.group.clients)
            found = [SimpleNamespace(client_id=name, client_host="", assignment=b"") for name in clients or ()]
            return [SimpleNamespace(state="PreparingRebalance" if clients is None else "Stable", members=found)]

        return self._ask(members, seconds)  # type: ignore[no-any-return]
