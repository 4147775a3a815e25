"""Which column names the sources of records, such as devices: each of them is a stream of its own."""

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations, pairwise
from statistics import median
from typing import Any, Final, NamedTuple

from resonance.pipeline.files.clocks import is_time_of_day, times_of
from resonance.pipeline.files.explained import actor_of, made_by
from resonance.pipeline.files.kinds import Kinds, grows, is_constant, is_counter, is_marked, last
from resonance.pipeline.files.numbered import is_numbered
from resonance.pipeline.files.phases import is_phase
from resonance.pipeline.files.proofs import (
    ALIKE,
    begins_again,
    distinct,
    follow_in_time,
    is_within,
    rows_from,
    rows_in,
    rows_of,
    settles,
    take_turns,
    times_come_again,
    values_of,
)
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.files.survey import FEW, FEWEST, HEAD, Column, FileSurvey
from resonance.pipeline.json_paths import ABSENT

COMES_AGAIN: Final = 500
"""Records of a source, on average, from which on a model of its own is suggested: after 200 it begins to answer."""

PROVED: Final = 20
"""The same where the times of the records prove that a column names their sources."""

EVEN: Final = 1.25
"""Most records of a source, in those of another one, where all are read equally often."""

GOES_ON: Final = 0.1
"""Part of a step to the next record of any source, at most, that a number takes to the next one of its own."""

STAYS: Final = 0.5
"""The same of a step to a record of its own much later: what is near those is no course, but a level."""

STAYS_ON: Final = 0.25
"""Part of the file from which on a name that comes and goes is that of a device."""

ANSWERED: Final = 400
"""Records of a stream from which on alerts are raised."""

CHANCE: Final = 20
"""Pairs of records of one time that two columns would name alike by chance, at least, where they name none alike."""

_NAME = re.compile(
    r"(?i)(.*[ ._-])?(device|machine|host|sensor|source|server|node|unit|asset|station|vehicle|engine|pump|meter|site|"
    r"service|instance|pod|container|entity|mac|imei|vin|gateway|router|robot|truck|valve|motor|inverter|experiment|run"
    r"|ticker|symbol|customer|user|client|store|shop|turbine|plant|plate|boiler|room|switch|terminal|till|kiosk|charger"
    r"|lift|elevator|spindle|oven|furnace|tank|well|bus|train|vessel|camera|reader|tracker|drone|evse|wallbox|rack"
    r"|charge[ ._-]?point|charging[ ._-]?(point|station)|compressor|chiller|transformer|substation|feeder|conveyor"
    r"|.*(maschine|anlage|ger(ae|ä)t|lade(punkt|s(ae|ä)ule|station)|pumpe|station|ofen|kessel|roboter|fahrzeug|aufzug|weiche))"
    r"([ ._-]?(id|name|no|nr|number|key|ip|addr(ess)?))?|(src|orig)[ ._-]?(ip|addr(ess)?|host|h)|ip([ ._-]?addr(ess)?)?"
    # An id that comes again is that of something, but for what only says of which kind it is, or who was there.
    r"|(?!(.*[ ._-])?(category|type|class|kind|status|state|mode|level|group|country|region|city|product|item|event|"
    r"error|reason|code|version|batch|lot|job|task|trip|order|session|ticket|case|card|message|record|row|staff|"
    r"employee|operator|cashier|clerk|driver)[ ._-]?id$).*[a-z][ ._-]id"
)


_TAG = re.compile(
    r"(?i)(.*[ ._-])?(tag|signal|channel|variable|param(eter)?|metric|series|measurement|measurand|point|quantity"
    r"|observable|indicator|kpi|sensor|kanal|messgr(oe|ö)(ss|ß)e|messstelle)([ ._-]?(id|name|no|nr|number|key))?"
)
"""What a table in long form calls the names of its numbers."""

_UNIT = re.compile(r"(?i)(.*[ ._-])?(units?|uom|einheit)")
"""What it calls that in which they are measured, and others a machine."""

_STATE = re.compile(
    r"(?i)true|false|yes|no|on|off|open(ed)?|close(d)?|shut|auto(matic)?|manual|up|down|in|out|high|low|ok|nok|fault"
    r"|normal|idle|run(ning)?|stop(ped)?|active|inactive|enabled|disabled|day|night"
)
"""What a state is called: a valve that is open is no other valve."""

_TIMELY = re.compile(r"(?i)(.*[^a-z])?(time|date|year|quarter|month|week|day|hour|visit|wave|period)s?")


class SourceColumn(NamedTuple):
    """A column of names, or several, and why it is one."""

    paths: tuple[str, ...]
    """Several, where only their names together are those of the sources."""
    reason: str
    certain: bool
    """Whether the order of the records proves it, or its name beside their times."""

    @property
    def naming(self) -> str:
        """Why it names the sources, as a sentence."""
        names = f"{' and '.join(self.paths)} {'together name' if len(self.paths) > 1 else 'names'}"
        return f"{names} what the records are of ({self.reason})"


def source_of(seen: FileSurvey, kinds: Kinds) -> SourceColumn | None:
    """Return the column that names the sources of the records; None where none does, or all are of one."""
    if seen.records < FEWEST:
        return None
    paths = [path for path in seen.columns if _may_name(seen, path)]
    found = _as_tags(seen, _source_of(seen, kinds), paths)
    tag = _long_form(seen, kinds, paths)
    if found is not None and tag is not None and found.paths == (tag,):
        # The same number of many machines is none of one stream either.
        named = [path for path in paths if path != tag and _NAME.fullmatch(path) and not _goes_with(seen, path, tag)]
        found = SourceColumn((_by_names(seen, named)[-1],), found.reason, found.certain) if named else found
    if found is None or tag is None or settles(seen, found.paths, tag):
        return _with_what_is_made(seen, kinds, found) if found is not None and found.certain else found
    # The numbers of a pod's CPU and of its memory are no stream together.
    return SourceColumn((tag, *found.paths), f"each {tag} has its own numbers; {found.reason}", found.certain)


def _with_what_is_made(seen: FileSurvey, kinds: Kinds, found: SourceColumn) -> SourceColumn:
    """Return the columns with that of what is made, where it explains most of a number and enough records have each.

    An oven is set for each recipe: to a model of the oven alone each of them is another state. Of the states that a
    machine goes through it has one model.
    """
    each = " and ".join(found.paths)
    several = made_by(seen, kinds, found.paths)
    states = [made for made in several if is_phase(seen, made[0], found.paths)]
    made = next((made for made in several if made not in states), None)
    if made is not None and each_has_enough(seen, (*found.paths, made[0])):
        alone = shlex.join(Columns(key=found.paths).options)
        says = f"{made[0]} explains {made[1]} in each {each}"
        reason = f"{says}; {found.reason}; {alone} alone has one model of each {each}, whatever its {made[0]} is"
        return SourceColumn((*found.paths, made[0]), reason, found.certain)
    if states:
        path, what = states[0]
        state = f"{path}, which explains {what}, is taken as the state of each {each}, with one model for all states"
        return SourceColumn(found.paths, f"{found.reason}; {state}", found.certain)
    return found


def _as_tags(seen: FileSurvey, found: SourceColumn | None, paths: Sequence[str]) -> SourceColumn | None:
    """Return the columns with that of what is measured in place of one that says the same, such as its unit."""
    tags = [path for path in paths if _TAG.fullmatch(last(path))]
    for path in found.paths if found is not None else ():
        tag = next((each for each in tags if path not in tags and _goes_with(seen, path, each)), None)
        if found is not None and tag is not None:
            found = found._replace(paths=(tag, *(each for each in found.paths if each not in (path, tag))))
    return found


def _goes_with(seen: FileSurvey, path: str, tag: str) -> bool:
    """Return whether a column has the unit of each tag, or another name of each that is not called like a source."""
    if _UNIT.fullmatch(last(path)):
        return settles(seen, (tag,), path)
    return not _NAME.fullmatch(path) and settles(seen, (tag,), path) and settles(seen, (path,), tag)


def _source_of(seen: FileSurvey, kinds: Kinds) -> SourceColumn | None:
    """Return the column that names what the records are of, by times, order or names."""
    timely = [path for path, each in seen.columns.items() if _TIMELY.fullmatch(last(path)) and each.only(int, float)]
    counted = (path for path in (*kinds.numbers, *kinds.ids) if _is_clock(seen.columns[path], seen.records))
    # Of a panel, such as firms and their years one behind the other, what never becomes less is the firm.
    grown = [path for path in counted if not any(begins_again(seen, path, each) for each in timely)]
    clocks = [*dict.fromkeys((*kinds.clocks, *timely, *grown))]
    of_day = [path for path, column in seen.columns.items() if is_time_of_day(column)]
    paths = [path for path in seen.columns if path not in {*clocks, *of_day, *kinds.labels} and _may_name(seen, path)]
    # The time of a version or a batch is over when the next one begins, and a counter may begin again with it.
    paths = [path for path in paths if not any(follow_in_time(seen, path, clock) for clock in kinds.clocks[:1])]
    named = _by_names(seen, [path for path in paths if _NAME.fullmatch(path)])
    if (found := _one_behind_the_other(seen, named, clocks)) is not None:
        return found
    crossed = _crossed(seen, named, clocks)
    if crossed is not None and crossed.certain:
        return crossed
    records = distinct([*seen.head, *seen.tail])
    for clock in clocks:
        # Of several, such as a site and its machines, the one with the most names.
        # What only counts begins again once with anything, such as a new version.
        is_weak = clock in grown and seen.columns[clock].restarts == 1
        for path in sorted(paths, key=lambda each: -len(seen.columns[each].counts or ())):
            if is_weak and path not in named:
                continue
            if reason := _divides(seen, records, path, clock):
                # Of files of sites that are joined, the machines.
                finer = next((each for each in reversed(named) if is_within(seen, each, path)), path)
                lasting = None if begins_again(seen, path, clock) else _lasting(seen, finer, paths)
                # A site with the records of several devices at each time is no source, as long as these stay.
                if lasting and (not _stay(seen, finer) or _divides(seen, records, lasting, clock)):
                    return SourceColumn((lasting,), f"those of {finer} come and go", True)
                return SourceColumn((finer,), reason if finer == path else f"each of one {path}; {reason}", True)
    for clock in clocks:
        if (found := _together(seen, records, paths, clock)) is not None:
            return found
    # Texts come first: whole numbers that are not called like a source may be measured.
    drawn = {path for path in paths if _is_whole(seen, path)}
    for path in (
        sorted(paths, key=lambda each: (each in drawn, -len(seen.columns[each].counts or ()))) if clocks else ()
    ):
        if path in drawn and _is_measured(seen, path, paths):
            continue
        if (course := _goes_on(seen, path, [each for each in kinds.numbers if each != path])) is not None:
            return SourceColumn(
                (path,), f"{course} goes on with each of {len(seen.columns[path].counts or ()):,}", True
            )
    paths = [path for path in paths if comes_again(seen, [path])]
    for path in reversed(_by_names(seen, paths)):
        if _NAME.fullmatch(path):
            # Without times it may be a category, such as the service of a connection.
            return SourceColumn((path,), f"{len(seen.columns[path].counts or ()):,} names", bool(clocks))
    if clocks and (long := _long_form(seen, kinds, paths)) is not None:
        return SourceColumn((long,), f"each of {len(seen.columns[long].counts or ()):,} has its own numbers", True)
    actor = actor_of(seen, kinds, paths) if clocks else None
    if clocks and (actor is None or not actor[2]):
        numbered = [path for path in reversed(_by_names(seen, paths)) if is_numbered(seen, path)]
        for path in numbered[:1]:
            return SourceColumn((path,), f"{len(seen.columns[path].counts or ()):,} names with running numbers", True)
    if actor is not None:
        return SourceColumn(actor[:1], *actor[1:])
    for path in paths if clocks else ():
        counts = (seen.columns[path].counts or {}).values()
        # Sources take turns, or come one behind the other; what is drawn at random comes twice in a row as often.
        again = 1 - seen.columns[path].changes / seen.records
        if max(counts) <= EVEN * min(counts) and not 0.5 <= again * len(counts) <= 0.9 * len(counts):
            how = f"{min(counts):,} to {max(counts):,}" if min(counts) < max(counts) else f"{max(counts):,}"
            return SourceColumn((path,), f"each of {len(counts):,} names has {how} records", False)
    for path in paths:
        column = seen.columns[path]
        if column.only(str) and len(column.words) > FEW >= len(column.shapes) and column.sample[0][:1].isalpha():
            return SourceColumn((path,), f"{len(column.counts or ()):,} names that come again", False)
    return crossed


def _goes_on(seen: FileSurvey, path: str, numbers: Sequence[str]) -> str | None:
    """Return a column of numbers of which each goes on from the last one with its name, such as where a truck is.

    The names have to come again, as those of trips do not, and the numbers must not be near a level of their name.
    """
    if _come_and_go(seen, path):
        return None
    for number in numbers:
        if len(seen.columns[number].few) <= FEW:
            continue
        # What stands for a missing one says nothing of the others.
        rows = [row for row in rows_in(seen.head, (path, number)) if type(row[1]) in (int, float)]
        own: defaultdict[Any, list[float]] = defaultdict(list)
        for name, value in rows:
            own[name].append(value)
        next_to = [abs(after - before) for (_, before), (_, after) in pairwise(rows)]
        of_own = [abs(after - before) for values in own.values() for before, after in pairwise(values)]
        later = [
            abs(after - before)
            for values in own.values()
            for before, after in zip(values, values[len(values) // 2 :], strict=False)
        ]
        if len(of_own) >= FEWEST and 2 * len(of_own) > len(rows):
            step = median(of_own)
            if step < GOES_ON * median(next_to) and step < STAYS * median(later):
                return number
    return None


def _is_whole(seen: FileSurvey, path: str) -> bool:
    """Return whether names are whole numbers that are not called like a source, and so may be counted or measured."""
    return seen.columns[path].only(int) and not _NAME.fullmatch(path)


def _is_measured(seen: FileSurvey, path: str, others: Sequence[str]) -> bool:
    """Return whether integers name nothing: some are far rarer, or they go on with each of another column."""
    counts = sorted((seen.columns[path].counts or {}).values())
    is_tailed = 10 * counts[len(counts) // 10] * len(counts) < sum(counts)
    return is_tailed or any(_goes_on(seen, each, [path]) for each in others if each != path)


def _long_form(seen: FileSurvey, kinds: Kinds, paths: Sequence[str]) -> str | None:
    """Return the column called like that of the names in a table of a name, a time and the only number that varies."""
    named = [path for path in paths if _TAG.fullmatch(last(path)) and seen.columns[path].only(str)]
    columns = {path: seen.columns[path] for path in kinds.numbers}
    # A quality beside each number, such as 192, is a code.
    values = [path for path, each in columns.items() if not (is_constant(each, seen.records) or len(each.few) <= FEW)]
    return named[0] if len(named) == 1 and len(values) == 1 else None


def _come_and_go(seen: FileSurvey, path: str) -> bool:
    """Return whether most of the first names are none of the last ones, such as those of pods."""
    first, later = ({*rows_in(records, (path,))} for records in (seen.head, seen.tail))
    return bool(later) and 2 * len(first & later) < len(first)


def _lasting(seen: FileSurvey, path: str, others: Sequence[str]) -> str | None:
    """Return the column that names what has names that come and go, such as the deployment of pods; None for none."""
    if not _come_and_go(seen, path):
        return None
    ends = {each: [{*rows_in(records, (each,))} for records in (seen.head, seen.tail)] for each in others}
    wider = [
        each
        for each, (first, later) in ends.items()
        if first == later and len(later) > 1 and is_within(seen, path, each)
    ]
    return max(wider, key=lambda each: len(seen.columns[each].counts or ()), default=None)


def _stay(seen: FileSurvey, path: str) -> bool:
    """Return whether names that come and go are those of devices, such as on hire, and not of orders or of pods.

    Each of them has enough records for a model of its own, or is there for a good part of the file.
    """
    places: defaultdict[Any, list[int]] = defaultdict(list)
    for at, name in enumerate(values_of(seen.spaced, path)):
        if name is not None and name is not ABSENT:
            places[name].append(at)
    usual = median(own[-1] - own[0] for own in places.values())
    return comes_again(seen, [path]) or usual >= STAYS_ON * len(seen.spaced)


def _is_clock(column: Column, records: int) -> bool:
    # What stays the same over hundreds of records is no clock, but may name an experiment.
    return (is_counter(column, records) or grows(column, records)) and 100 * column.changes > records


def _may_name(seen: FileSurvey, path: str) -> bool:
    column = seen.columns[path]
    counts = column.counts
    named = column.only(str) or (column.only(int) and column.few != {0, 1} and column.low.value >= 0)
    is_listed = counts is not None and 1 < len(counts) <= seen.records / PROVED
    are_states = is_listed and all(_STATE.fullmatch(str(name)) for name in counts or ())
    return named and is_listed and not are_states and 10 * column.present > 9 * seen.records and not is_marked(column)


def comes_again(seen: FileSurvey, paths: Sequence[str], each: int = COMES_AGAIN) -> bool:
    """Return whether there are enough records of each name, or of several together: for a model of its own."""
    columns = [seen.columns[path] for path in paths if path in seen.columns]
    count = len(set(rows_of(seen, *paths)))
    if len(columns) == 1:
        count = max(count, len(columns[0].counts or ()))
    elif columns:
        # Not all records are looked at: of sources one behind the other, each begins where a name changes.
        begun = 1 + max(column.runs for column in columns)
        count = max(count, begun if 2 * begun < seen.records else 0)
    return 0 < each * count <= seen.records


def each_has_enough(seen: FileSurvey, paths: Sequence[str]) -> bool:
    """Return whether there are enough records for models of several columns together, but for less than a third."""
    rows = list(rows_in(seen.spaced, paths))
    counts = Counter(rows).values()
    lacking = sum(count * seen.records < ANSWERED * len(rows) for count in counts)
    return comes_again(seen, paths) and 3 * lacking < len(counts)


def _divides(seen: FileSurvey, records: Sequence[dict[str, Any]], path: str, clock: str) -> str:
    """Return how the times of the records prove that a column names their sources; empty where they do not."""
    names = seen.columns[path]
    if begins_again(seen, path, clock):
        return f"{clock} begins again with another one of {len(names.counts or ()):,}"
    times = times_of(seen, clock)
    found = [(row[:-1], row[-1]) for row in rows_in(records, (*times, path))]
    # Loads of two machines may never be the same, but are in no order.
    is_drawn = _is_whole(seen, path) and not take_turns([name for _, name in found])
    if times_come_again(found) and not is_drawn:
        return f"{' with '.join(times)} comes again, but not with the same one of {len(names.counts or ()):,}"
    return ""


def _together(
    seen: FileSurvey, records: Sequence[dict[str, Any]], paths: Sequence[str], clock: str
) -> SourceColumn | None:
    """Return the two columns that only together name the sources, as the times prove; those of the fewest sources."""
    # A count beside a machine differs from the others of its time by chance.
    paths = [path for path in paths if not (_is_whole(seen, path) and _is_measured(seen, path, paths))]
    values, proved = {path: values_of(records, path) for path in (clock, *paths)}, []
    for both in combinations(paths, 2):
        # Most columns are no names, as few records say; of the first ones alone each may seem to be one.
        if not times_come_again(list(rows_from(*(values[path][:HEAD] for path in (clock, *both))))):
            continue
        found = list(rows_from(*(values[path] for path in (clock, *both))))
        names = len({row[1:] for row in found})
        pairs = sum(count * (count - 1) // 2 for count in Counter(row[0] for row in found).values())
        if pairs >= CHANCE * names and times_come_again(found):
            proved.append((names, _by_names(seen, both)))
    return SourceColumn(min(proved)[1], f"{clock} comes again, but not with the same two", True) if proved else None


def _one_behind_the_other(seen: FileSurvey, named: tuple[str, ...], clocks: Sequence[str]) -> SourceColumn | None:
    """Return columns called like a source where names come again, and times begin again with each two of them."""
    runs = max((seen.columns[path].runs for path in named), default=0)
    is_again = len(named) > 1 and runs >= max(len(seen.columns[path].counts or ()) for path in named)
    restarts = {clock: seen.columns[clock].restarts for clock in clocks if is_again}
    clock = next((each for each, own in restarts.items() if max(own, runs) <= ALIKE * min(own, runs)), None)
    if clock is None:
        return None
    return SourceColumn(named, f"{clock} begins again {runs:,} times, with another two", True)


def _crossed(seen: FileSurvey, named: tuple[str, ...], clocks: Sequence[str]) -> SourceColumn | None:
    """Return columns called like a source where the names of one come again with others of the next one.

    It is certain that they name sources only together where these take turns.
    """
    chosen: tuple[str, ...] = ()
    most = 1
    for path in reversed(named):
        found = list(rows_of(seen, *chosen, path))
        if not chosen or len({*found}) > EVEN * most:
            chosen, most, rows = (*chosen, path), len({*found}), found
    if len(chosen) < 2:
        return None
    first, later = ({*rows_in(records, chosen)} for records in (seen.head, seen.tail))
    anew = any(begins_again(seen, path, clock) for path in chosen for clock in clocks)
    if 2 * len(first & later) < len(later) and not anew:
        # What holds for a while, such as who works at a machine, is of no name; but files of sites may be joined.
        return None
    if clocks and (seen.columns[clocks[0]].falls or 0) * 2 < seen.records:
        rows = [tuple(row) for _, *row in sorted(rows_of(seen, clocks[0], *chosen), key=str)]
    reason = f"{most:,} together, {len(seen.columns[named[-1]].counts or ()):,} alone"
    return SourceColumn(_by_names(seen, chosen), reason, bool(clocks) and take_turns(rows))


def _by_names(seen: FileSurvey, paths: Sequence[str]) -> tuple[str, ...]:
    """Return columns in the order of how many names they have."""
    return tuple(sorted(paths, key=lambda path: (len(seen.columns[path].counts or ()), path)))
