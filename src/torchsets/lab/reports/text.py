"""Tables of results for the terminal."""

import textwrap

from torchsets.lab.reports.tables import Mean, Row, Table

_WIDTH = 18  # of a column's name before it is broken


def table_as_text(table: Table, *, all_rows: bool = False) -> str:
    """Print our rows and the thesis' below each other, columns without a number of ours left out.

    ``all_rows`` adds those that only the thesis has.

    Example:
        >>> rows = [Row("FSPool", [Mean(0.25)], [Mean(0.001)], 1)]
        >>> print(table_as_text(Table("key", "Chamfer loss", "1e-2", "lower", ["n=4"], rows, True)))
        Chamfer loss (1e-2, lower is better)
                             n=4
          FSPool  ours     0.250
                  thesis   0.001
    """
    kept = [
        index
        for index in range(len(table.columns))
        if any(_has_numbers(row.ours, [index]) for row in table.rows)
    ]
    lines = _heading([table.columns[index] for index in kept])
    for row in table.rows:
        if row.ours is not None or (all_rows and _has_numbers(row.thesis, kept)):
            lines += _row_lines(row, kept, table.by)
    widths = [max(len(line[index]) for line in lines) for index in range(len(lines[0]))]
    about = [table.unit] * bool(table.unit) + [f"{table.better} is better"] * bool(table.better)
    title = f"{table.caption} ({', '.join(about)})" if about else table.caption
    return "\n".join([title, *(_line(line, widths) for line in lines)])


def _heading(columns: list[str]) -> list[list[str]]:
    """Long names in several lines, the last ones beside each other."""
    wrapped = [textwrap.wrap(name, _WIDTH) or [""] for name in columns]
    height = max(map(len, wrapped), default=1)
    padded = [[""] * (height - len(name)) + name for name in wrapped]
    return [["", "", *(name[line] for name in padded)] for line in range(height)]


def _has_numbers(cells: list[Mean] | None, kept: list[int]) -> bool:
    return cells is not None and any(cells[index].mean is not None for index in kept)


def _row_lines(row: Row, kept: list[int], by: str) -> list[list[str]]:
    sides = {"ours": row.ours, by: row.thesis}
    lines = [
        ["", side, *(str(cells[index]) for index in kept)]
        for side, cells in sides.items()
        if cells is not None
    ]
    lines[0][0] = row.model
    return lines


def _line(line: list[str], widths: list[int]) -> str:
    left = f"  {line[0]:<{widths[0]}}  {line[1]:<{widths[1]}}"
    numbers = zip(line[2:], widths[2:], strict=True)
    return left + "".join(f"  {text:>{max(width, 6)}}" for text, width in numbers)


def duration(seconds: float) -> str:
    """Write a time for people.

    Example:
        >>> [duration(seconds) for seconds in (0.2, 59, 200, 9000)]
        ['0 s', '59 s', '3 min 20 s', '2 h 30 min']
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
