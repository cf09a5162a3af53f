"""Tables of results for the terminal."""

from torchsets.reports.tables import Cell, Table


def table_as_text(table: Table) -> str:
    """Print our rows and the thesis' below each other, columns without any number left out.

    Example:
        >>> from torchsets.reports.tables import Row
        >>> rows = [Row("FSPool", [Cell(0.25)], [Cell(0.001)], 1)]
        >>> print(table_as_text(Table("key", "Chamfer loss", "1e-2", "lower", ["n=4"], rows, True)))
        Chamfer loss (1e-2, lower is better)
                             n=4
          FSPool  ours     0.250
                  thesis   0.001
    """
    ours = [row for row in table.rows if row.ours is not None]
    kept = [
        index
        for index in range(len(table.columns))
        if any(row.ours is not None and row.ours[index].mean is not None for row in ours)
    ]
    lines = [["", "", *(table.columns[index] for index in kept)]]
    for row in ours:
        lines.append([row.model, "ours", *_texts(row.ours, kept)])
        if row.thesis is not None:
            lines.append(["", "thesis", *_texts(row.thesis, kept)])
    widths = [max(len(line[index]) for line in lines) for index in range(len(lines[0]))]
    better = f", {table.better} is better" if table.better else ""
    return "\n".join(
        [f"{table.caption} ({table.unit}{better})", *(_line(line, widths) for line in lines)]
    )


def _texts(cells: list[Cell] | None, kept: list[int]) -> list[str]:
    return [str(cells[index]) for index in kept] if cells is not None else []


def _line(line: list[str], widths: list[int]) -> str:
    left = f"  {line[0]:<{widths[0]}}  {line[1]:<{widths[1]}}"
    numbers = zip(line[2:], widths[2:], strict=True)
    return left + "".join(f"  {text:>{max(width, 6)}}" for text, width in numbers)
