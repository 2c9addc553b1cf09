"""Which cells one tool run measures, and which are measured together because budgets compare them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weighbridge import registry
from weighbridge.model import Cell, cell_id


@dataclass(frozen=True, slots=True)
class Slot:
    """Cells measured by one run of the tool (several where the tool sweeps an axis)."""

    cells: tuple[Cell, ...]

    @property
    def load(self) -> Any:
        """The tool's load for the whole slot."""
        first = self.cells[0]
        if first.sweep is None or len(self.cells) == 1:
            return first.load
        tool = registry.find("tools", first.tool)
        return tool.Load.model_validate(
            {**first.load_text, first.sweep: [cell.axes[first.sweep] for cell in self.cells]}
        )

    @property
    def planned(self) -> float:
        """How long one run should take, in seconds."""
        return float(registry.find("tools", self.cells[0].tool).planned(self.load))

    @property
    def name(self) -> str:
        """The slot as a reader knows it: its cell, with a `*` for the swept axis."""
        first = self.cells[0]
        if len(self.cells) == 1:
            return first.id
        return cell_id(first.scenario, {**first.axes, str(first.sweep): "*"})


@dataclass(frozen=True, slots=True)
class Group:
    """Slots that budgets compare, and after how many rounds they are judged."""

    name: str
    slots: tuple[Slot, ...]
    looks: tuple[int, ...]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell of the group."""
        return tuple(cell for slot in self.slots for cell in slot.cells)

    def planned(self, rounds: int) -> float:
        """How long `rounds` rounds should take, in seconds, without stand-up."""
        return rounds * sum(slot.planned for slot in self.slots)


def group_cells(
    selected: Iterable[Cell], references: Mapping[str, Sequence[Cell]], looks: Mapping[str, tuple[int, ...]]
) -> tuple[Group, ...]:
    """Put cells together with those their budgets refer to; connected cells form one group.

    `looks` are the planned looks by scenario. Cells that one tool run sweeps stay together.
    """
    cells: dict[str, Cell] = {}
    parent: dict[str, str] = {}

    def root(identity: str) -> str:
        while parent[identity] != identity:
            identity = parent[identity]
        return identity

    def add(cell: Cell) -> str:
        cells.setdefault(cell.id, cell)
        parent.setdefault(cell.id, cell.id)
        return cell.id

    by_slot: dict[tuple[object, ...], str] = {}
    for cell in selected:
        for other in (cell, *references.get(cell.id, ())):
            add(other)
            first = by_slot.setdefault(other.slot_key, other.id)
            parent[root(other.id)] = root(first)
            parent[root(other.id)] = root(cell.id)
    components: dict[str, list[Cell]] = {}
    for identity, cell in cells.items():
        components.setdefault(root(identity), []).append(cell)
    return tuple(_group(members, looks) for members in components.values())


def _group(members: Sequence[Cell], looks: Mapping[str, tuple[int, ...]]) -> Group:
    slots: dict[tuple[object, ...], list[Cell]] = {}
    for cell in members:
        slots.setdefault(cell.slot_key, []).append(cell)
    made = tuple(Slot(tuple(cells)) for cells in slots.values())
    return Group(members[0].id, made, looks[members[0].scenario])
